"""Converts the fields of a problem to the shortest flags that reproduce it, and flags as text to raw values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType, dtypes_text
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import ROTARY_BASE, Alibi, Bias, CacheKind, Direction, Layout, QScale, layouts_text
from fmha_cli.domain.flags import FILLED, PROBLEM_FLAGS, FlagKind
from fmha_cli.domain.mask import Mask

if TYPE_CHECKING:
    from fmha_cli.domain.problem import Problem


def flags_of(p: Problem) -> list[str]:
    """The shortest argument list that names exactly this problem; tensors appear as ``filled``."""
    out: list[str] = []

    def add(flag: str, value: object, default: object) -> None:
        if value != default:
            out.extend([flag, repr(value) if isinstance(value, float) else str(value)])

    group, cached = p.seqlens_q is not None, p.cache_seqlens is not None
    add("-b", p.batch, p.batch if group else 1)
    add("-H", p.heads, 8)
    add("--kv-heads", p.kv_heads, p.heads)
    if p.seqlens_q is not None:
        add("--seqlens-q", _listed(p.seqlens_q), None)
        add("--seqlens-k", _listed(p.seqlens_k), _listed(p.seqlens_q) if not cached else None)
    else:
        add("-s", p.seqlen_q, 1024)
        add("--seqlen-k", p.seqlen_k, p.seqlen_k if cached else p.seqlen_q)
    add("-d", p.hdim, 128)
    add("--mla-rope", p.mla_rope, 0)
    add("--hdim-v", p.hdim_v, p.hdim - p.mla_rope)
    add("--dtype", dtypes_text(p.dtype, p.dtype_out), DType.FP16.value)
    out.extend(["--causal"] if p.mask == Mask(right=0) else [])
    add("--mask", p.mask.text(), "causal" if p.mask == Mask(right=0) else "none")
    add("--sink", p.sink, 0)
    add("--sink-logits", FILLED if p.sink_logits else "", "")
    add(
        "--bias",
        "elementwise" if p.bias is Bias.R11SS else f"elementwise:{p.bias.value}",
        f"elementwise:{Bias.NONE.value}",
    )
    out.extend(["--alibi"] if p.alibi is Alibi.STANDARD else [])
    if p.alibi in (Alibi.HEADS, Alibi.BATCH_HEADS):
        out.extend(["--alibi-slopes", f"{FILLED}:{p.alibi.value}"])
    add("--softcap", p.softcap, 0.0)
    add("--dropout", p.dropout, 0.0)
    add("--seed", p.seed, 0)
    add("--offset", p.offset, 0)
    add("--scale", p.scale, p.hdim**-0.5)
    out.extend(["--lse"] if p.lse else [])
    layout = layouts_text(p.layout, p.layout_out)
    add("--layout", layout, Layout.BHSD.value)
    add("--kv-cache", p.kv_cache.text(), CacheKind.NONE.value)
    if p.cache_seqlens is not None:
        add("--cache-seqlens", _listed(p.cache_seqlens), None)
    if p.cache_leftpad is not None:
        add("--cache-leftpad", _listed(p.cache_leftpad), None)
    if p.cache_batch_idx is not None:
        add("--cache-batch-idx", _listed(p.cache_batch_idx), None)
    add("--append", p.append, 0)
    add("--rotary", p.rotary.text(), "0")
    add("--rotary-base", p.rotary_base, ROTARY_BASE)
    for name, table in (("--rotary-cos", p.rotary_cos), ("--rotary-sin", p.rotary_sin)):
        out.extend([name, FILLED] if table else [])
    add("--splits", p.splits, 0)
    add("--kv-dtype", p.kv_dtype.value, KvDType.SAME.value)
    add("--fp8-encoding", p.fp8_encoding.value, Fp8Encoding.OCP.value)
    add("--qscale", p.qscale.value, (QScale.MX if p.dtype.is_mx else QScale.NONE).value)
    add("--direction", p.direction.value, Direction.FWD.value)
    out.extend(["--deterministic"] if p.deterministic else [])
    out.extend(["--dbias"] if p.dbias else [])
    return out


def _listed(values: tuple[int, ...] | None) -> str | None:
    return None if values is None else ",".join(str(v) for v in values)


def raw_from_text(line: str | Sequence[str]) -> dict[str, str | bool]:
    """Parses a command line's problem flags into raw values (``--flag value``, ``--flag=value``, ``-b 2``, ``-b2``).

    Raises:
        UsageError: an unknown flag, a missing value, or a word that is not a flag.
    """
    words = list(shlex.split(line) if isinstance(line, str) else line)
    names = {f"--{f.name}": f for f in PROBLEM_FLAGS} | {f"-{f.short}": f for f in PROBLEM_FLAGS if f.short}
    raw: dict[str, str | bool] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            name, equals, value = word[:2], "=", word[2:]
        flag = names.get(name)
        if flag is None:
            raise UsageError(f"{word}: no such problem flag", code="E002", where=word)
        if flag.kind is FlagKind.SWITCH:
            raw[flag.key] = True
        elif not equals and not words:
            raise UsageError(f"{name} needs a value", code="E002", where=name)
        else:
            raw[flag.key] = value if equals else words.pop(0)
    return raw

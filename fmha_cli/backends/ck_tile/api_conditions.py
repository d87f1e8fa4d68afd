"""K300-K309: the conditions that upstream's generated API files test before they take a kernel.

Source: ``example/ck_tile/01_fmha/codegen/ops/*.py`` (baseline): the properties ``scheck``, ``skcheck``, ``dcheck``,
``dvcheck``, ``max_seq_q_cond`` and the trait comparisons of the ``*_API_INNER_DISPATCH`` texts.
"""

from __future__ import annotations

from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.situation import CkSituation
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, algorithm_of
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import CacheKey, MaskKey
from fmha_cli.domain.signature_hints import with_keys, with_rows

ASYNC = (Pipeline.QR_ASYNC,)
UNCHECKED = (Pipeline.QR_ASYNC_TRLOAD, Pipeline.QR_ASYNC_TRLOAD_V3)
"""Pipelines that accept any length although they are emitted without sequence padding."""
ROUNDED_HEAD_DIM = {80: 96, 96: 128}
"""Head dims that a tile rounds up (``K0_MAX_SUBMAX_MAP``); all others stay as they are."""
LOAD_BITS = 128
"""Width of one global load. ``qr_async`` needs rows that consist of whole loads."""
ROWS_1D = 64
"""``M0_1D``: rows of a block of the backward's one-dimensional kernels."""


def _mask(s: CkSituation, kernel: KernelSpec) -> Found:
    return refuse_if(kernel.signature.mask is not MaskKey.NONE and s.problem.mask.kind is MaskKind.NONE)


def _rows(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if s.group or a.pad_s or a.pipeline in ASYNC + UNCHECKED or s.rows % a.tile[0] == 0:
        return None
    text = f"seqlen {s.rows} is not a multiple of {a.tile[0]}, the query rows of a block without padding"
    return Refusal(text, with_rows(s.problem, next_multiple(s.rows, a.tile[0])))


def keys_divide(s: CkSituation, kernel: KernelSpec) -> bool:
    """Whether a kernel without padding along the keys accepts the key lengths (``skcheck`` of an ``f`` kernel)."""
    bn0 = algorithm_of(kernel).tile[1]
    if kernel.family is Family.BATCH_PREFILL:
        return s.common_keys is not None and s.common_keys != 0 and s.common_keys % bn0 == 0
    if s.key_lengths or s.keys % bn0:
        return False
    return s.keys != 0 or kernel.family in (Family.FWD_SPLITKV, Family.FWD_PAGEDKV)


def _keys(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if s.group or a.pad_sk or a.pipeline in UNCHECKED or keys_divide(s, kernel):
        return None
    bn0 = a.tile[1]
    if s.key_lengths and kernel.family is not Family.BATCH_PREFILL:
        text = f"key lengths come from the cache: a kernel without padding needs one known multiple of {bn0}"
        return Refusal(text, "--kv-cache none")
    if kernel.family is Family.BATCH_PREFILL and s.common_keys is None:
        longest = f"--cache-seqlens {s.max_keys - s.problem.append}" if s.cached else None
        return Refusal(f"unequal key lengths need padding to {bn0} keys", longest)
    wanted = max(next_multiple(s.keys, bn0), bn0)
    text = f"seqlen-k {s.keys} is not a positive multiple of {bn0}, the keys of a step without padding"
    return Refusal(text, with_keys(s.problem, wanted))


def head_dim_step(kernel: KernelSpec, *, values: bool) -> int:
    """The number of which the head dim of Q and K (or of V) must be a multiple; 1 = any head dim."""
    a = algorithm_of(kernel)
    pad = a.pad_dv if values else a.pad_d
    if kernel.family is Family.BWD_DQ_DK_DV:
        return a.tile[8 if values else 7] if pad == 0 else pad
    if a.pipeline in ASYNC:
        return LOAD_BITS // kernel.signature.dtype.bits
    return 1 if pad else round_head_dim(a)


def round_head_dim(a: CkAlgorithm) -> int:
    """``K0_MAX_SUBMAX_MAP[bk0max]``."""
    return ROUNDED_HEAD_DIM.get(a.tile[5], a.tile[5])


def _head_dim(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    return _step("hdim", s.problem.hdim, head_dim_step(kernel, values=False), kernel.signature.hdim)


def _value_dim(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if s.problem.hdim == s.problem.hdim_v and _head_dim(s, kernel) is not None:
        return None  # one flag sets both, and K303 has named it
    return _step("hdim-v", s.problem.hdim_v, head_dim_step(kernel, values=True), kernel.signature.hdim_v)


def _step(flag: str, value: int, step: int, most: int) -> Refusal | None:
    if value % step == 0:
        return None
    wanted = next_multiple(value, step)
    if wanted > most:
        text = (
            f"{flag} {value} is not a multiple of {step}: without head-dim padding this {most} kernel serves no {flag}"
        )
        return Refusal(text)
    return Refusal(f"{flag} {value} is not a multiple of {step}", f"pad it: --{flag} {wanted}")


def _max_rows(s: CkSituation, kernel: KernelSpec) -> Found:
    most = algorithm_of(kernel).max_seq_q
    return refuse_if(most and s.rows > most, rows=s.rows, most=most)


API_CONDITIONS = conditions(
    NAME,
    {
        "K300": _mask,
        "K301": _rows,
        "K302": _keys,
        "K303": _head_dim,
        "K304": _value_dim,
        "K305": _max_rows,
        "K306": lambda s, kernel: refuse_if(algorithm_of(kernel).skip_min_seqlen_q),
        "K307": lambda s, kernel: refuse_if(algorithm_of(kernel).store_randval),
        "K308": lambda s, kernel: refuse_if(s.problem.paged and kernel.signature.cache is not CacheKey.PAGED),
    },
)

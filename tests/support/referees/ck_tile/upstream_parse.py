"""Parses upstream's file stems to kernels: the inverse of :mod:`fmha_cli.backends.ck_tile.upstream_names`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fmha_cli.backends.ck_tile.enumeration import tiles_for
from fmha_cli.backends.ck_tile.revisions import (
    NAME,
    ArchClass,
    arch_class,
    arch_facts,
    dtypes_of,
    generated_dtypes,
    revisions,
)
from fmha_cli.backends.ck_tile.tables import PADS, Tables, tables_of
from fmha_cli.backends.ck_tile.upstream_names import BIAS_WORDS, MASK_WORDS, QSCALE_WORDS, upstream_name
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Constraint, KvLayout, KvLookup, Pipeline, VLayout
from fmha_cli.domain.arch import ArchSpec, arch_names
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import CacheKey, ModeKey, Need, QScaleKey, RotaryKey, Signature

Fields = dict[str, Any]

_SHAPE = r"b(?P<tile>[\dx]+)(?P<waves>(?:_r\d+x\d+x\d+)*)(?P<warp>(?:_w\d+x\d+x\d+)*)"
_FORWARD = (
    r"d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_(?P<mode>batch|group)_(?:ps(?P<page>\d+)_(?P<wide_loads>64bit_)?)?"
    rf"{_SHAPE}(?:_o(?P<occupancy>\d+))?_(?P<pipeline>[a-z0-9_]+?)_v(?P<vlayout>[rc])_(?P<words>.+)"
)
_PATTERNS: Mapping[Family, re.Pattern[str]] = MappingProxyType(
    {
        Family.FWD_SPLITKV_COMBINE: re.compile(
            r"fmha_fwd_splitkv_combine_d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_(?P<mode>batch|group)_"
            r"b(?P<tile>\d+)(?:_o(?P<occupancy>\d+))?_unused_(?P<words>.+)"
        ),
        Family.FWD_SPLITKV: re.compile(f"fmha_fwd_splitkv_{_FORWARD}"),
        Family.FWD_PAGEDKV: re.compile(f"fmha_fwd_pagedkv_{_FORWARD}"),
        Family.FWD_APPENDKV: re.compile(
            r"fmha_fwd_appendkv_d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_b(?P<tile>[\dx]+)(?:_o(?P<occupancy>\d+))?"
            r"_v(?P<vlayout>[rc])(?:_(?P<words>.+))?"
        ),
        Family.BATCH_PREFILL: re.compile(f"fmha_batch_prefill_{_FORWARD}"),
        Family.FWD: re.compile(f"fmha_fwd_{_FORWARD}"),
        Family.BWD_DOT_DO_O: re.compile(
            r"fmha_bwd_dot_do_o_d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_b(?P<tile>\d+)_(?P<mode>batch|group)"
            r"_o(?P<occupancy>\d+)_(?P<words>.+)"
        ),
        Family.BWD_CONVERT_DQ: re.compile(
            r"fmha_bwd_convert_dq_d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_b(?P<tile>\d+x\d+)_(?P<mode>batch|group)"
            r"_o(?P<occupancy>\d+)_(?P<words>.+)"
        ),
        Family.BWD_DQ_DK_DV: re.compile(
            rf"fmha_bwd_d(?P<hdim>\d+)_(?P<dtype>[a-z0-9]+)_(?P<mode>batch|group)_{_SHAPE}"
            r"_o(?P<occupancy>-?\d+)_maxq(?P<max_seq_q>\d+)_(?P<words>.+)"
        ),
    }
)
_PAD_WORD = re.compile(r"p(?P<pad_s>s)?(?P<pad_sk>sk)?(?P<pad_d>d(?!v)(?:8|1)?)?(?P<pad_dv>dv(?:8|1)?)?")


def _flags(name: str, word: str, *values: Any) -> dict[str, Fields]:
    """``word`` and ``nword`` as the two values of a field."""
    yes, no = values or (Need.YES, Need.NO)
    return {word: {name: yes}, f"n{word}": {name: no}}


_WORDS: Mapping[str, Fields] = MappingProxyType(
    {
        "npad": {},
        **_flags("softcap", "logits"),
        **{word: {"bias": key} for key, word in BIAS_WORDS.items()},
        **{word: {"mask": key} for key, word in MASK_WORDS.items()},
        **{word: {"qscale": key} for key, word in QSCALE_WORDS.items()},
        **_flags("qscale", "squant", QScaleKey.TENSOR, QScaleKey.NONE),
        **_flags("lse", "lse"),
        **_flags("dropout", "dropout"),
        **_flags("sink", "sink"),
        **_flags("dbias", "dbias"),
        **_flags("deterministic", "deterministic"),
        **_flags("skip_min_seqlen_q", "skip", True, False),
        **_flags("trload", "trload", True, False),
        **_flags("kv_lds_prefetch", "kvldsprefetch", True, False),
        **_flags("progressive_dsk", "progressivedsk", True, False),
        **_flags("cache", "pagedkv", CacheKey.PAGED, CacheKey.ANY),
        "dropout_wg16": {"dropout": Need.YES},
        "dropout_wg16_storerandval": {"dropout": Need.YES, "store_randval": True},
        "inter": {"rotary": RotaryKey.INTERLEAVED},
        "half": {"rotary": RotaryKey.HALF},
        "vectorized": {"kv_layout": KvLayout.VECTORIZED},
        "linear": {"kv_layout": KvLayout.LINEAR},
        "vllm": {"kv_lookup": KvLookup.VLLM},
        "sglang": {"kv_lookup": KvLookup.SGLANG},
    }
)
_LONGEST = max(word.count("_") for word in _WORDS) + 1


def parse_upstream_name(text: str, arch: str | None = None, revision: str | None = None) -> KernelSpec:
    """The kernel of a file stem. Without a revision, the oldest one that uses the name applies.

    Raises:
        UsageError: E006, the name is not upstream's, or several architectures share it and ``arch`` is None.
    """
    stem = text.removesuffix(".cpp")
    wanted = [r.name for r in revisions() if revision in (None, r.name)]
    for rev in wanted:
        archs = [arch] if arch else list(arch_names())
        found = [kernel for name in archs for kernel in _readings(stem, name, rev)]
        if len(found) > 1:
            names = ", ".join(kernel.arch for kernel in found)
            raise UsageError(f"{text}: a kernel of {names}", code="E006", where=text, help="name one with --arch")
        if found:
            return found[0]
    where = f" on {arch}" if arch else ""
    raise UsageError(
        f"{text!r} is not a file stem of upstream's generator{where}",
        code="E006",
        where=text,
        help="fmha list-kernels --json prints them as upstream_name",
    )


def _readings(stem: str, arch: str, rev: str) -> Iterator[KernelSpec]:
    facts = arch_facts(arch)
    for family, pattern in _PATTERNS.items():
        class_ = arch_class(facts, family, rev) if facts else None
        if facts is None or class_ is None or not stem.endswith(class_.suffix):
            continue
        match = pattern.fullmatch(stem.removesuffix(class_.suffix))
        kernel = _kernel(match.groupdict(), family, facts, class_, rev) if match else None
        if kernel is not None and upstream_name(kernel) == stem:
            yield kernel
            return


def _kernel(
    parts: Mapping[str, str | None], family: Family, arch: ArchSpec, class_: ArchClass, rev: str
) -> KernelSpec | None:
    tables = tables_of(family, class_.name, rev)
    dtype, words = parts["dtype"] or "", _words(parts.get("words") or "")
    if dtype not in generated_dtypes(family, rev) or words is None:
        return None
    values = {**tables.constants, **_default(tables), **_numbers(parts), **words}
    if family is Family.FWD_APPENDKV:
        values = {"rotary": RotaryKey.NONE, "cache": CacheKey.LINEAR, **values}
    if family is Family.FWD_SPLITKV:
        values["lse"] = tables.constants["lse"]  # every name contains lse, whatever the combine kernel returns
    if mode := parts.get("mode"):
        values["mode"] = ModeKey(mode)
    names = Signature.__dataclass_fields__
    algorithm = _algorithm({k: v for k, v in values.items() if k not in names}, rev)
    hdims, constraint = _row(tables, class_.name, rev, dtype, int(parts["hdim"] or 0), algorithm, arch.name)
    if hdims is None:
        return None
    given = dict(zip(("dtype", "dtype_out", "hdim", "hdim_v"), (*dtypes_of(dtype), *hdims), strict=True))
    signature = Signature(**{**{k: v for k, v in values.items() if k in names}, **given})
    return KernelSpec(
        backend=NAME,
        family=family,
        arch=arch.name,
        signature=signature,
        algorithm=replace(algorithm, constraint=constraint),
    )


def _algorithm(values: Fields, rev: str) -> CkAlgorithm:
    return CkAlgorithm(**values, rev=rev)


def _default(tables: Tables) -> Fields:
    """The fields that the family fixes and the name omits: the pipeline of stages, the page size of the baseline."""
    emit = tables.blocks[0].emits[0].fields
    return {name: emit[name] for name in ("pipeline", "page") if name in emit}


def _numbers(parts: Mapping[str, str | None]) -> Fields:
    out: Fields = {"tile": _ints(parts.get("tile"))}
    for name in ("waves", "warp"):
        if parts.get(name):
            out[name] = _ints(parts[name])
    for name in ("occupancy", "max_seq_q", "page"):
        if parts.get(name):
            out[name] = int(parts[name] or 0)
    if parts.get("wide_loads"):
        out["wide_loads"] = True
    if parts.get("vlayout"):
        out["vlayout"] = VLayout.ROW if parts["vlayout"] == "r" else VLayout.COL
    pipeline = parts.get("pipeline") or ""
    if pipeline in Pipeline._value2member_map_:
        out["pipeline"] = Pipeline(pipeline)
    return out


def _ints(text: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text or ""))


def _words(text: str) -> Fields | None:
    """The fields of the words that follow a tile, longest words first; None if a word is unknown."""
    out: Fields = {}
    rest = text.split("_") if text else []
    while rest:
        for length in range(min(_LONGEST, len(rest)), 0, -1):
            word = "_".join(rest[:length])
            if word in _WORDS:
                out.update(_WORDS[word])
                break
            pads = _PAD_WORD.fullmatch(word)
            if pads and any(pads.groups()):
                out.update(_pads(pads))
                break
        else:
            return None
        rest = rest[length:]
    return out


def _pads(match: re.Match[str]) -> Fields:
    """The paddings: letters alone, or letters with a number in the backward pass."""
    out: Fields = {name: True for name in PADS[:2] if match[name]}
    for name in PADS[2:]:
        if match[name]:
            out[name] = int("".join(c for c in match[name] if c.isdigit()) or 1)
    return out


def _row(
    tables: Tables, class_: str, rev: str, dtype: str, hdim: int, algorithm: CkAlgorithm, arch: str
) -> tuple[tuple[int, int] | None, Constraint]:
    """The head dims and the condition of the tile row that a name means; the name contains neither."""
    for row in tiles_for(tables, class_, rev):
        mine = {name: value for name, value in row.fields.items() if name != "constraint"}
        here = dtype in row.dtypes and row.hdims[0] == hdim and (not row.archs or arch in row.archs)
        if here and all(getattr(algorithm, name) == value for name, value in mine.items()):
            return row.hdims, row.fields.get("constraint", Constraint.NONE)
    return None, Constraint.NONE

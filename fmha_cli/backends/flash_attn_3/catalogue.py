"""The kernels of FlashAttention-3 for sm_90a: the instances that upstream's launch templates allow.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``generate_kernels.py`` ``get_all_kernels`` lists the instances of
``run_mha_fwd_`` and ``run_mha_bwd_``; the launch templates list the kernels of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import product
from typing import Any

from fmha_cli.codegen.flash_attn_3.algorithm import Fa3Algorithm
from fmha_cli.codegen.flash_attn_3.facts import BYTES, MASKS, NAME, document, pairs, tile_of
from fmha_cli.codegen.flash_attn_3.instance import SEQUENCES_PER_WARP
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, QScaleKey, RotaryKey, Signature

HDIMS = (64, 96, 128, 192, 256)
HALVES = (DType.FP16, DType.BF16)
FAMILIES = (
    Family.FWD_PREPARE,
    Family.FWD,
    Family.FWD_SPLITKV,
    Family.FWD_SPLITKV_COMBINE,
    Family.BWD_DOT_DO_O,
    Family.BWD_DQ_DK_DV,
    Family.BWD_CONVERT_DQ,
)
PYTORCH = "pytorch"
"""The profile of what PyTorch launches once FlashAttention-3 is activated. Any other profile has every kernel."""
Made = Iterator[tuple[Signature, Fa3Algorithm]]
_SWITCH = (False, True)
_RUN_TIME = {"lse": Need.ANY, "gqa": Need.ANY}
_STAGE: dict[str, Any] = {"mode": ModeKey.ANY, "mask": MaskKey.ANY, "softcap": Need.ANY, **_RUN_TIME}
_signature = cache(Signature)
_algorithm = cache(Fa3Algorithm)


def kernels(arch: ArchSpec, families: Iterable[Family] = FAMILIES) -> Iterator[KernelSpec]:
    """Yield the kernels of some families for an architecture. There may be none."""
    for family in families:
        yield from family_kernels(arch.name, family) if NAME in arch.backends else ()


def profile_kernels(arch: ArchSpec, profile: str) -> Iterator[KernelSpec]:
    """The kernels that a project can reach. PyTorch's calls append nothing, and give neither ``qv`` nor a softcap."""
    for kernel in kernels(arch):
        s = kernel.signature
        beyond = Need.YES in (s.append, s.softcap) or getattr(kernel.algorithm, "qv", False)
        if profile != PYTORCH or not beyond:
            yield kernel


@lru_cache(maxsize=64)
def family_kernels(arch: str, family: Family) -> tuple[KernelSpec, ...]:
    """The kernels of a family, in upstream's order of types and head dims."""
    return tuple(
        KernelSpec(backend=NAME, family=family, arch=arch, signature=signature, algorithm=algorithm)
        for signature, algorithm in _MAKERS[family]()
    )


def _forward(split: bool) -> Made:
    for dtype in (*HALVES, DType.FP8_E4M3):
        for hdims in pairs(BYTES[dtype]):
            for paged, softcap, pack in product(_SWITCH, repeat=3):
                # The generator packs always with pages that TMA cannot read and with splits, and names only the rest.
                if not (pack and (paged or split)):
                    yield from _file(dtype, hdims, split, paged, softcap, pack or paged or split)


def _file(dtype: DType, hdims: tuple[int, int], split: bool, paged: bool, softcap: bool, pack: bool) -> Made:
    """The kernels of one generated file: an instance of ``run_mha_fwd_``."""
    size = BYTES[dtype]
    for mask, (varlen, append), qv in product(MASKS, ((False, False), (True, False), (True, True)), _qv(size, hdims)):
        rows, keys, in_regs, overlap = tile_of(size, hdims, mask, paged=paged, softcap=softcap)
        wide = hdims[0] >= 128 if size == 2 else hdims[0] == 192
        twin = wide and mask is MaskKey.NONE and not (split or paged or varlen)  # Enable_cluster
        signature = _forward_signature(dtype, hdims, mask, split, paged, softcap, varlen, append)
        for cluster in (1, 2) if twin else (1,):
            algorithm = _algorithm(
                tile=(rows, keys),
                p_in_regs=in_regs,
                overlap=overlap,
                cluster=cluster,
                pack_gqa=pack,
                varlen=varlen,
                paged=paged,
                qv=qv,
            )
            yield signature, algorithm


def _qv(size: int, hdims: tuple[int, int]) -> tuple[bool, ...]:
    return _SWITCH if size == 2 and hdims[0] == 64 and hdims[1] >= 256 else (False,)


def _forward_signature(
    dtype: DType,
    hdims: tuple[int, int],
    mask: MaskKey,
    split: bool,
    paged: bool,
    softcap: bool,
    varlen: bool,
    append: bool,
) -> Signature:
    """A cache has lengths, so that kernels for one length of all sequences serve none, except of pages."""
    cache = CacheKey.PAGED if paged else CacheKey.ANY if varlen else CacheKey.NONE
    fp8 = BYTES[dtype] == 1
    return _signature(
        dtype=dtype,
        dtype_out=DType.BF16 if fp8 else dtype,
        hdim=hdims[0],
        hdim_v=hdims[1],
        mode=ModeKey.ANY if varlen else ModeKey.BATCH,
        mask=mask,
        softcap=Need.of(softcap),
        cache=cache,
        append=Need.of(append),
        rotary=RotaryKey.ANY if append else RotaryKey.NONE,
        split=Need.of(split),
        qscale=QScaleKey.ANY if fp8 else QScaleKey.NONE,
        bias=BiasKey.NONE,
        deterministic=Need.ANY,
        **_RUN_TIME,
    )


def _prepare() -> Made:
    """They read lengths alone. The type and head dims of a signature say nothing here."""
    made = _signature(
        dtype=DType.FP32,
        dtype_out=DType.FP32,
        hdim=HDIMS[-1],
        hdim_v=512,
        cache=CacheKey.ANY,
        append=Need.ANY,
        rotary=RotaryKey.ANY,
        split=Need.ANY,
        qscale=QScaleKey.ANY,
        deterministic=Need.ANY,
        **_STAGE,
    )
    for warps, sort in product(document()["prepare warps"], _SWITCH):
        yield made, _algorithm(tile=(SEQUENCES_PER_WARP * warps,), sort=sort, varlen=True)


def _combine() -> Made:
    for (rows, columns, logs), dtype in product(document()["combine"], (*HALVES, DType.FP32)):
        made = _signature(
            dtype=dtype,
            dtype_out=dtype,
            hdim=columns,
            hdim_v=columns,
            cache=CacheKey.ANY,
            append=Need.ANY,
            rotary=RotaryKey.ANY,
            split=Need.YES,
            qscale=QScaleKey.ANY,
            deterministic=Need.ANY,
            **_STAGE,
        )
        for log, varlen in product(logs, _SWITCH):
            yield made, _algorithm(tile=(rows, columns), log_max_splits=log, varlen=varlen)


def _backward_rows() -> Iterator[tuple[int, MaskKey, bool, dict[str, Any]]]:
    """The traits of each (hdim, mask, softcap): the first row that has them."""
    for hdim, mask, softcap in product(HDIMS, MASKS, _SWITCH):
        row = next(r for r in document()["backward"] if r[0] == hdim and mask.value in r[1] and int(softcap) in r[2])
        traits = {
            "tile": (row[3], row[4]),
            "stages": (row[5], row[6]),
            "swapped": tuple(row[7:10]),
            "groups": row[10],
            "atoms": tuple(row[11:14]),
            "v_in_regs": bool(row[14]),
        }
        yield hdim, mask, softcap, traits


def _backward() -> Made:
    for dtype, (hdim, mask, softcap, traits) in product(HALVES, _backward_rows()):
        for varlen, gqa, ordered in product(_SWITCH, _SWITCH, _SWITCH if hdim < 256 else (False,)):
            signature = _signature(
                dtype=dtype,
                dtype_out=dtype,
                hdim=hdim,
                hdim_v=hdim,
                mode=ModeKey.ANY if varlen else ModeKey.BATCH,
                mask=mask,
                softcap=Need.of(softcap),
                gqa=Need.of(gqa),
                deterministic=Need.ANY if ordered else Need.NO,
                lse=Need.ANY,
            )
            yield signature, _algorithm(varlen=varlen, gqa=gqa, fixed_order=ordered, **traits)


def _stages(**more: tuple[bool, ...]) -> Made:
    """The first or last stage for each distinct choice of traits. Types and head dims of both are the main kernel's."""
    for dtype in HALVES:
        seen = set()
        for hdim, _, _, traits in _backward_rows():
            for values in product(*more.values()):
                extra = dict(zip(more, values, strict=True))
                kept = traits if "of_keys" in more else {"tile": (traits["tile"][0],)}
                made = _algorithm(**kept, **extra)
                if (hdim, made) not in seen:
                    seen.add((hdim, made))
                    yield (
                        _signature(
                            dtype=dtype, dtype_out=dtype, hdim=hdim, hdim_v=hdim, deterministic=Need.ANY, **_STAGE
                        ),
                        made,
                    )


_MAKERS: Mapping[Family, Callable[[], Made]] = {
    Family.FWD_PREPARE: _prepare,
    Family.FWD: lambda: _forward(False),
    Family.FWD_SPLITKV: lambda: _forward(True),
    Family.FWD_SPLITKV_COMBINE: _combine,
    Family.BWD_DOT_DO_O: lambda: _stages(varlen=_SWITCH),
    Family.BWD_DQ_DK_DV: _backward,
    Family.BWD_CONVERT_DQ: lambda: _stages(of_keys=_SWITCH),
}

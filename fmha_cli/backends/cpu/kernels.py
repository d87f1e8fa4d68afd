"""The CPU kernels of an architecture, from the tile tables in ``arch_specs/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind, Simd
from fmha_cli.codegen.cpu.parts import MAX_HDIM
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.codec import once
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import (
    BiasKey,
    CacheKey,
    Fp8Key,
    KvKey,
    MaskKey,
    ModeKey,
    Need,
    QScaleKey,
    RotaryKey,
    Signature,
)

BACKEND = "cpu"


FAMILIES = {
    LoopKind.PREFILL: Family.FWD,
    LoopKind.DECODE: Family.FWD,
    LoopKind.SPLIT: Family.FWD_SPLITKV,
    LoopKind.COMBINE: Family.FWD_SPLITKV_COMBINE,
    LoopKind.APPEND: Family.FWD_APPENDKV,
    LoopKind.BACKWARD: Family.BWD_DQ_DK_DV,
}


def cpu_kernels(arch: ArchSpec) -> tuple[KernelSpec, ...]:
    """The kernels of an architecture. Everything but dtype and kind is a run-time value.

    Each row of the architecture's table is a kernel. The kernels that split keys, combine splits and append keys have the
    vectors of the decode kernel of their dtype; a decode kernel of matrix tiles has no combine and append kernels,
    because these multiply nothing. After these come the kernels of 8-bit inputs (:func:`_narrow`).
    """
    return once(arch, "_cpu_kernels", lambda arch: tuple(_kernels(arch)))


def _kernels(arch: ArchSpec) -> Iterator[KernelSpec]:
    rows = [(DType(row["dtype"]), algorithm_of_row(row)) for row in arch.backends.get(BACKEND, {}).get("kernels", ())]
    for dtype, algorithm in rows:
        yield kernel_of(arch.name, dtype, algorithm)
        if algorithm.kind is LoopKind.DECODE:
            for kind in (
                (LoopKind.SPLIT,) if algorithm.simd.tiles else (LoopKind.SPLIT, LoopKind.COMBINE, LoopKind.APPEND)
            ):
                yield kernel_of(arch.name, dtype, replace(algorithm, kind=kind))
    for dtype, algorithm in rows:
        yield from _narrow(arch.name, dtype, algorithm)


def _narrow(arch: str, dtype: DType, algorithm: CpuAlgorithm) -> Iterator[KernelSpec]:
    """The kernels with 8-bit inputs that have a wide kernel's tiles.

    A table gives the meaning of a byte, so one kernel reads every type of cache for queries of ``dtype``, and every
    encoding. Kernels of fp8 queries have bf16's tiles, because every fp8 number is one of bf16.
    """
    if algorithm.kind not in (LoopKind.PREFILL, LoopKind.DECODE):
        return
    append = algorithm.kind is LoopKind.DECODE and not algorithm.simd.tiles
    for kind in (algorithm.kind, *((LoopKind.APPEND,) if append else ())):
        wide = kernel_of(arch, dtype, replace(algorithm, kind=kind))
        any_cache = replace(
            wide.signature,
            fp8_encoding=Fp8Key.ANY,
            kv_dtype=KvKey.BYTE,
            qscale=QScaleKey.ANY,
            split=Need.ANY if kind is LoopKind.DECODE else Need.NO,  # it merges the parts itself
        )
        yield replace(wide, signature=any_cache)
    if algorithm.kind is LoopKind.PREFILL and dtype is DType.BF16:
        for narrow, out in product((DType.FP8_E4M3, DType.FP8_E5M2), (DType.BF16, DType.FP16, DType.FP32)):
            signature = replace(
                _signature(narrow, LoopKind.PREFILL),
                dtype_out=out,
                append=Need.NO,
                rotary=RotaryKey.NONE,
                fp8_encoding=Fp8Key.ANY,
                qscale=QScaleKey.ANY,
            )
            yield replace(kernel_of(arch, dtype, algorithm), signature=signature)


def stage_kernel(main: KernelSpec, kind: LoopKind) -> KernelSpec:
    """The kernel of another stage around a main kernel: of its architecture, or of the one that has the others.

    Raises:
        StopIteration: neither has one.
    """
    arch, same = load_arch(main.arch), (main.signature.dtype, main.signature.kv_dtype)
    kernels = (*cpu_kernels(arch), *(k for name in others_from(arch) for k in cpu_kernels(load_arch(name))))
    return next(
        k for k in kernels if algorithm_of(k).kind is kind and (k.signature.dtype, k.signature.kv_dtype) == same
    )


def others_from(arch: ArchSpec) -> tuple[str, ...]:
    """The architecture whose kernels serve where an architecture has none; every machine of the second runs them."""
    return (arch.fact("others_from"),) if "others_from" in arch.facts else ()


def kernel_of(arch: str, dtype: DType, algorithm: CpuAlgorithm) -> KernelSpec:
    """The kernel of an algorithm that reads inputs of one type and writes the same."""
    family, signature = FAMILIES[algorithm.kind], _signature(dtype, algorithm.kind)
    return KernelSpec(backend=BACKEND, family=family, arch=arch, signature=signature, algorithm=algorithm)


def algorithm_of(kernel: KernelSpec) -> CpuAlgorithm:
    """The kernel's algorithm.

    Raises:
        TypeError: a kernel of another backend.
    """
    if not isinstance(kernel.algorithm, CpuAlgorithm):
        raise TypeError(f"{kernel.name} is not a CPU kernel")
    return kernel.algorithm


def algorithm_of_row(row: Mapping[str, Any]) -> CpuAlgorithm:
    """The algorithm of a row of the tables in ``arch_specs/``."""
    return CpuAlgorithm(
        kind=LoopKind(row["kind"]),
        simd=Simd(row["simd"]),
        pairs=row["pairs"],
        blocks=row.get("blocks", False),
        lanes_q=row["lanes_q"],
        rows_s=row["rows_s"],
        rows_o=tuple(row["rows_o"]),
        block_k=row["block_k"],
        prefetch=row["prefetch"],
    )


def _signature(dtype: DType, kind: LoopKind) -> Signature:
    backward = kind is LoopKind.BACKWARD
    return Signature(
        dtype=dtype,
        dtype_out=dtype,
        hdim=MAX_HDIM,
        hdim_v=MAX_HDIM,
        mode=ModeKey.ANY,
        mask=MaskKey.ANY,
        sink=Need.ANY,
        sink_logits=Need.ANY,
        bias=BiasKey.ANY,
        softcap=Need.ANY,
        dropout=Need.ANY,
        lse=Need.ANY,
        gqa=Need.ANY,
        cache=CacheKey.NONE if backward else CacheKey.ANY,
        append=Need.NO if backward else Need.ANY,
        rotary=RotaryKey.NONE if backward else RotaryKey.ANY,
        split=Need.of(kind in (LoopKind.SPLIT, LoopKind.COMBINE)),
        deterministic=Need.ANY,
        dbias=Need.ANY if backward else Need.NO,
    )

"""The CPU kernels of an architecture, from the tile tables in ``arch_specs/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fmha_cli.codegen.abi import BACKWARD, FORWARD, Interface
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, Kind, Simd
from fmha_cli.codegen.cpu.parts import MAX_HDIM
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, Signature

BACKEND = "cpu"


def cpu_kernels(arch: ArchSpec) -> Iterator[KernelSpec]:
    """One kernel for each row of the architecture's table. Everything but dtype and kind is a run-time value."""
    for row in arch.backends.get(BACKEND, {}).get("kernels", ()):
        algorithm = _algorithm(row)
        yield KernelSpec(
            backend=BACKEND,
            family=Family.BWD_DQ_DK_DV if algorithm.kind is Kind.BACKWARD else Family.FWD,
            arch=arch.name,
            signature=_signature(DType(row["dtype"]), algorithm.kind),
            algorithm=algorithm,
        )


def algorithm_of(kernel: KernelSpec) -> CpuAlgorithm:
    """The kernel's algorithm.

    Raises:
        TypeError: a kernel of another backend.
    """
    if not isinstance(kernel.algorithm, CpuAlgorithm):
        raise TypeError(f"{kernel.name} is not a CPU kernel")
    return kernel.algorithm


def interface_of(kernel: KernelSpec) -> Interface:
    """How the kernel is called. Raises as :func:`algorithm_of`."""
    return BACKWARD if algorithm_of(kernel).kind is Kind.BACKWARD else FORWARD


def _algorithm(row: Mapping[str, Any]) -> CpuAlgorithm:
    return CpuAlgorithm(
        kind=Kind(row["kind"]),
        simd=Simd(row["simd"]),
        pairs=row["pairs"],
        lanes_q=row["lanes_q"],
        rows_s=row["rows_s"],
        rows_o=tuple(row["rows_o"]),
        block_k=row["block_k"],
        prefetch=row["prefetch"],
    )


def _signature(dtype: DType, kind: Kind) -> Signature:
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
        cache=CacheKey.NONE if kind is Kind.BACKWARD else CacheKey.ANY,
        split=Need.ANY if kind is Kind.DECODE else Need.NO,
        deterministic=Need.ANY,
        dbias=Need.ANY if kind is Kind.BACKWARD else Need.NO,
    )

"""Kernels for tuning: the product of the tiles and blocks of keys in ``arch_specs/``, without the ones that the rules
of tiles refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from fmha_cli.backends.cpu.kernels import BACKEND, algorithm_of, algorithm_of_row, cpu_kernels, kernel_of, others_from
from fmha_cli.backends.cpu.rules import CPU_RULES
from fmha_cli.backends.cpu.tile_rules import tile_reasons
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import reasons_against

NOTE = "for tuning: only fmha tune and --kernel choose it"


def every_variant(arch: ArchSpec) -> Iterator[KernelSpec]:
    """All points of the search space that are not yet kernels of the architecture, including the ones that the rules
    refuse.

    Each decode kernel stands for itself and for the kernel that splits keys over stages with its tiles.
    """
    known = set(cpu_kernels(arch))
    for row in arch.backends.get(BACKEND, {}).get("tuning", ()):
        for name, algorithm in product(row["dtypes"], _algorithms(row)):
            kinds = (LoopKind.DECODE, LoopKind.SPLIT) if algorithm.kind is LoopKind.DECODE else (algorithm.kind,)
            for kind in kinds:
                kernel = kernel_of(arch.name, DType(name), replace(algorithm, kind=kind))
                if kernel not in known:
                    yield kernel


def variants(arch: ArchSpec) -> Iterator[KernelSpec]:
    """The variants that can be built."""
    return (kernel for kernel in every_variant(arch) if not tile_reasons(kernel))


def decide_variants(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
    """A decision about each variant of the device's first architecture, and of the one that serves where it has no
    kernels. Backward kernels have none.

    The rank is the distance from the default's tile and block of keys.
    """
    for place, arch in enumerate(() if problem.direction.backward else _archs(device)):
        for kernel, distance in _rank_variants(arch):
            if kernel.signature.dtype is not problem.dtype:
                continue  # not a candidate: another type's kernels have their own tiles
            reasons = [*reasons_against(CPU_RULES, problem, kernel, device), *tile_reasons(kernel)]
            if reasons:
                yield Unsupported(BACKEND, arch, kernel, tuple(reasons))
            else:
                yield Supported(kernel, (2, place, distance), NOTE)


def _archs(device: DeviceFacts) -> tuple[str, ...]:
    for name in device.archs:
        arch = load_arch(name)
        if BACKEND in arch.backends:
            return (name, *others_from(arch))
    return ()


@cache
def _rank_variants(arch: str) -> tuple[tuple[KernelSpec, int], ...]:
    """Every variant of an architecture, with how far its tile and block are from those of the kernel of its type and kind."""
    spec = load_arch(arch)
    own = {(kernel.signature, algorithm_of(kernel).kind): algorithm_of(kernel) for kernel in cpu_kernels(spec)}
    return tuple(
        (kernel, _distance(algorithm_of(kernel), own.get((kernel.signature, algorithm_of(kernel).kind))))
        for kernel in every_variant(spec)
    )


def _distance(mine: CpuAlgorithm, own: CpuAlgorithm | None) -> int:
    if own is None:
        return 0
    return abs(mine.lanes_q * mine.rows_s - own.lanes_q * own.rows_s) + abs(mine.block_k - own.block_k) // 64


def _algorithms(row: Mapping[str, Any]) -> Iterator[CpuAlgorithm]:
    shared = {name: value for name, value in row.items() if name not in ("tiles", "block_k")}
    for tile, block in product(row["tiles"], row["block_k"]):
        yield algorithm_of_row({**shared, **tile, "block_k": block})

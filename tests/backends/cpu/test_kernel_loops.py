"""The innermost loops of compiled x86 kernels keep their vectors in registers, as ``fmha inspect`` reports."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cpu_cases import kernel_of

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.building import build_cpu
from fmha_cli.backends.cpu.inspection import inspect_library
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, Kind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.processor import machine_here
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import find_toolchain
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind

ARCHS = ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3")
FEW_REGISTERS = {
    "x86_64_v3": {
        **dict.fromkeys(("finish_keys", "tile_task", "weigh_keys", "weigh_row", "numbers_task"), tuple(DType)),
        **dict.fromkeys(("merge_task",), (DType.BF16,)),  # rounding of O
    }
}
"""Functions whose loops need more constants than AVX2 has registers, and for which dtypes of O; docs/cpu-kernel.md says why."""
SAMPLE = 3
pytestmark = pytest.mark.skipif(machine_here() != "x86_64", reason="x86 kernels, built by this machine's compiler")


def kernels() -> list[KernelSpec]:
    return [kernel for arch in ARCHS for kernel in cpu_kernels(load_arch(arch))]


def parameters() -> list[Any]:
    """A seeded sample of the kernels of this machine's best architecture, and all others in the slow suite."""
    own = [kernel for kernel in kernels() if kernel.arch == detect().archs[0]]
    sample = random.Random(14).sample(own, min(SAMPLE, len(own)))
    marks = [() if kernel in sample else pytest.mark.slow for kernel in kernels()]
    ids = [f"{k.arch}-{k.signature.dtype}-{algorithm_of(k).kind}-{k.digest[:8]}" for k in kernels()]
    return [pytest.param(k, id=i, marks=m) for k, i, m in zip(kernels(), ids, marks, strict=True)]


@pytest.fixture
def inspected(shared_cache: Path) -> Any:
    if find_toolchain(Cache(shared_cache).layout).kind is not ToolchainKind.GCC:
        pytest.skip("the figures are those of g++")

    @cache
    def figures(kernel: KernelSpec) -> dict[str, Any]:
        found = inspect_library(build_cpu(kernel, BuildContext(cache_root=shared_cache)).path)
        if found["why"] is not None:
            pytest.skip(str(found["why"]))
        return found

    return figures


@pytest.mark.parametrize("kernel", parameters())
def test_no_vector_goes_to_the_stack_in_an_innermost_loop(kernel: KernelSpec, inspected: Any) -> None:
    found = inspected(kernel)
    rotates_only = algorithm_of(kernel).kind is Kind.APPEND  # number by number
    assert found["innermost_loops"] >= found["multiplying_loops"] >= (0 if rotates_only else 1)
    few = FEW_REGISTERS.get(kernel.arch, {})
    allowed = [name for name, dtypes in few.items() if kernel.signature.dtype_out in dtypes]
    moves = found["loop_stack_functions"] or {}
    assert {symbol: n for symbol, n in moves.items() if not any(name in symbol for name in allowed)} == {}
    assert found["loop_stack_moves"] == sum(moves.values())


def test_too_many_accumulators_are_seen(inspected: Any) -> None:
    """A planted spill: 36 accumulators do not fit 32 registers. The kernel is built and inspected as every other."""
    kernel = kernel_of("x86_64_v4", "fp32", "prefill")
    algorithm = algorithm_of(kernel)
    assert isinstance(algorithm, CpuAlgorithm)
    assert algorithm.lanes_q == 2
    found = inspected(replace(kernel, algorithm=replace(algorithm, rows_s=18)))
    assert set(found["loop_stack_functions"]) == {next(s for s in found["loop_stack_functions"] if "QK_FULL" in s)}
    assert found["loop_stack_moves"] >= 36 + 2 - 32


@pytest.mark.slow
def test_every_exception_is_needed(inspected: Any) -> None:
    for arch, functions in FEW_REGISTERS.items():
        found = " ".join(
            symbol
            for kernel in cpu_kernels(load_arch(arch))
            for symbol in inspected(kernel)["loop_stack_functions"] or ()
        )
        assert [name for name in functions if name not in found] == []

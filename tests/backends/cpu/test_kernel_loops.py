"""The innermost loops of compiled kernels keep their vectors in registers, as ``fmha inspect`` reports."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cpu.building import build_cpu, machine_of
from fmha_cli.backends.cpu.inspection import inspect_library
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.processor import machine_here
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import toolchain_for
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import kernel_of

ARCHS = ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "x86_64_amx", "aarch64_bf16", "aarch64")
FEW_REGISTERS = {
    "x86_64_v3": {
        **dict.fromkeys(("finish_keys", "tile_task", "weigh", "numbers_task"), tuple(DType)),
        **dict.fromkeys(("merge_task",), (DType.BF16,)),  # rounding of O
    },
    **{
        arch: dict.fromkeys(("weigh_keys", "weigh_strip"), tuple(DType)) for arch in ("aarch64", "aarch64_bf16")
    },  # softcap, dropout
    "x86_64_amx": {"weigh_rows": (DType.BF16,)},  # softcap, where no LSE is given or one is large
}
"""Functions whose loops need more constants than there are registers, and for which dtypes of O; docs/explanation/backends/cpu.md says why."""
SAMPLE = 3
pytestmark = pytest.mark.skipif(machine_here() != "x86_64", reason="GCC for x86 is this machine's compiler")


def kernels() -> list[KernelSpec]:
    return [kernel for arch in ARCHS for kernel in cpu_kernels(load_arch(arch))]


def parameters() -> list[Any]:
    """A seeded sample of kernels that other tests compile too, one of each kind for Arm in CI, and all in the slow suite."""
    own = [kernel for kernel in kernels() if kernel.arch == WHOLE[0]]
    sample = random.Random(14).sample(own, min(SAMPLE, len(own)))
    arm = {
        algorithm_of(k).kind: k for k in kernels() if k.arch == "aarch64_bf16" and k.signature.dtype_out is DType.BF16
    }
    slow, ci = (pytest.mark.slow,), (pytest.mark.slow, pytest.mark.ci)
    marks = [() if kernel in sample else ci if kernel in arm.values() else slow for kernel in kernels()]
    ids = [f"{k.arch}-{k.signature.dtype}-{algorithm_of(k).kind}-{k.digest[:8]}" for k in kernels()]
    return [pytest.param(k, id=i, marks=m) for k, i, m in zip(kernels(), ids, marks, strict=True)]


@pytest.fixture
def inspected(shared_cache: Path) -> Any:
    @cache
    def compiler(machine: str) -> ToolchainKind | str:
        try:
            return toolchain_for(machine, Cache(shared_cache).layout).kind
        except EnvironmentProblem as fault:
            return str(fault)

    @cache
    def inspect(kernel: KernelSpec) -> dict[str, Any]:
        if (found := compiler(machine_of(load_arch(kernel.arch)))) is not ToolchainKind.GCC:
            pytest.skip(f"the figures are those of g++: {found}")
        figures = inspect_library(build_cpu(Stage(kernel), BuildContext(cache_root=shared_cache)).path)
        if figures["why"] is not None:
            pytest.skip(str(figures["why"]))
        return figures

    return inspect


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.parametrize("kernel", parameters())
def test_no_vector_goes_to_the_stack_in_an_innermost_loop(kernel: KernelSpec, inspected: Any) -> None:
    found = inspected(kernel)
    rotates_only = algorithm_of(kernel).kind is LoopKind.APPEND  # number by number
    assert found["innermost_loops"] >= found["multiplying_loops"] >= (0 if rotates_only else 1)
    few = FEW_REGISTERS.get(kernel.arch, {})
    allowed = [name for name, dtypes in few.items() if kernel.signature.dtype_out in dtypes]
    moves = found["loop_stack_functions"] or {}
    assert {symbol: n for symbol, n in moves.items() if not any(name in symbol for name in allowed)} == {}
    assert found["loop_stack_moves"] == sum(moves.values())


@pytest.mark.slow
@pytest.mark.ci
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

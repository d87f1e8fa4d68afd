"""Kernels for tuning: how many there are, which tiles are legal, and that what is legal compiles and computes attention."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.backends.cpu.tile_rules import registers_of, tile_reasons
from fmha_cli.backends.cpu.variants import every_variant, variants
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from tests.support.generators.cpu.cases import complaints, make_data, random_case, run

WHOLE = ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3")
"""Architectures with a search space for each dtype."""
ARCHS = ("x86_64_amx", *WHOLE)
SAMPLE, CASES = 4, 6
Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.parametrize(("arch", "dtype"), [*product(WHOLE, ("fp32", "fp16", "bf16"))])
def test_each_dtype_has_20_to_60_kernels_outside_the_listing(arch: str, dtype: str) -> None:
    spec = load_arch(arch)
    mine = [kernel for kernel in variants(spec) if kernel.signature.dtype.value == dtype]
    assert 20 <= len(mine) <= 60
    assert {algorithm_of(kernel).kind for kernel in mine} == {LoopKind.PREFILL, LoopKind.DECODE, LoopKind.SPLIT}
    assert len({kernel.digest for kernel in mine}) == len(mine)
    assert not set(mine) & set(backend.kernels(spec))


def test_rules_refuse_tiles_that_do_not_fit() -> None:
    spec = load_arch("x86_64_v4_bf16")
    refused = {kernel: tile_reasons(kernel) for kernel in every_variant(spec) if tile_reasons(kernel)}
    assert {reason.id for reasons in refused.values() for reason in reasons} == {"K105", "K108"}
    large = [kernel for kernel, reasons in refused.items() if any(reason.id == "K105" for reason in reasons)]
    assert all(registers_of(algorithm_of(kernel)) > spec.fact("vector_registers") for kernel in large)
    assert not set(refused) & set(variants(spec))


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({"lanes_q": 5}, "K105"),
        ({"block_k": 200}, "K106"),
        ({"kind": LoopKind.DECODE, "rows_s": 12}, "K107"),
        ({"kind": LoopKind.DECODE, "rows_s": 4, "lanes_q": 1}, "K108"),
    ],
)
def test_each_rule_of_tiles(change: dict[str, Any], id: str) -> None:
    kernel = next(iter(cpu_kernels(load_arch("x86_64_v4"))))
    assert tile_reasons(kernel) == ()
    planted = replace(kernel, algorithm=replace(algorithm_of(kernel), **change))
    assert id in {reason.id for reason in tile_reasons(planted)}


@pytest.mark.parametrize("arch", backend.archs())
def test_the_architectures_own_kernels_are_legal(arch: str) -> None:
    assert [kernel.name for kernel in cpu_kernels(load_arch(arch)) if tile_reasons(kernel)] == []


def test_decisions_are_about_the_first_architecture_and_the_one_that_completes_it() -> None:
    problem = Problem.of(heads=2, seqlen=200, hdim=64, dtype="bf16")
    found = list(
        backend.decide_variants(problem, DeviceFacts(id="cpu", archs=("x86_64_amx", "x86_64_v4_bf16", "x86_64_v4")))
    )
    assert {decision.arch for decision in found} == {"x86_64_amx", "x86_64_v4_bf16"}
    assert all(decision.kernel is not None and decision.kernel.signature.dtype is problem.dtype for decision in found)
    illegal = [d for d in found if isinstance(d, Unsupported) and any(r.id == "K105" for r in d.reasons)]
    assert illegal
    ranks = [decision.rank for decision in found if isinstance(decision, Supported)]
    assert min(ranks) < max(ranks)


def test_a_backward_problem_has_no_variants() -> None:
    device = DeviceFacts(id="cpu", archs=("x86_64_v4",))
    assert list(backend.decide_variants(Problem.of(heads=1, seqlen=64, hdim=64, direction="bwd"), device)) == []


def buildable() -> list[Any]:
    """All variants: a seeded sample of this machine's by default, the others in the slow suite."""
    every = [kernel for arch in ARCHS for kernel in variants(load_arch(arch))]
    here = backend.probe().devices[0].archs
    own = [kernel for kernel in every if kernel.arch in here[:2] and algorithm_of(kernel).kind is not LoopKind.SPLIT]
    sample = random.Random(5).sample(own, min(SAMPLE, len(own)))
    return [
        pytest.param(
            kernel,
            id=f"{kernel.arch}-{kernel.signature.dtype}-{algorithm_of(kernel).kind}-{kernel.digest[:8]}",
            marks=() if kernel in sample else pytest.mark.slow,
        )
        for kernel in every
    ]


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("kernel", buildable())
def test_a_variant_compiles_and_computes_attention(kernel: KernelSpec, build_text: Build) -> None:
    kind = algorithm_of(kernel).kind
    library = build_text(kernel, emit)
    if kind is LoopKind.SPLIT:
        return  # its results are parts for a combine kernel; tests/run/test_tune_splits.py runs both
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 29])
        case = random_case(rng, kernel.signature.dtype.value, few_rows=kind is LoopKind.DECODE)
        make_data(case, rng)
        run(library, case)
        assert complaints(case) == [], f"seed {seed}: {case}"

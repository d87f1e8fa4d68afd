"""A matrix unit that keeps 13 bits of sums of 8-bit floats (Ada, Hopper): its kernels pass where the facts say so, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.api import build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import F64, Array, round_to
from fmha_cli.oracle.tolerance import compare
from fmha_cli.run.cases import Case
from fmha_cli.run.checks import compared

BITS, GROUP = 13, 32
LINES = (
    "-b 1 -H 1 -s 12 --seqlen-k 40 -d 64 --dtype fp8_e4m3",
    "-b 1 -H 1 -s 12 --seqlen-k 40 -d 128 --dtype fp8_e4m3",
    "-b 1 -H 1 -s 12 --seqlen-k 40 -d 128 --dtype fp8_e5m2",
)


def short(terms: F64, start: F64) -> F64:
    """The sums of the last axis, 32 terms at a time: all are cut off 13 bits below the largest one's exponent."""
    total = start
    for first in range(0, terms.shape[-1], GROUP):
        parts = np.concatenate([terms[..., first : first + GROUP], total[..., None]], axis=-1)
        step = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(parts).max(-1, keepdims=True), 2.0**-100))) - BITS)
        total = (np.trunc(parts / step) * step).sum(-1)
    return total


def attention(problem: Problem, inputs: dict[str, Array]) -> tuple[Array, Array]:
    """O and the LSE of a kernel with such sums of Q·K."""
    q, k, v = (np.asarray(inputs[name][0, 0], np.float64) for name in ("q", "k", "v"))
    scores = problem.scale * short(q[:, None, :] * k[None, :, :], np.zeros((len(q), len(k))))
    top = scores.max(1, keepdims=True)
    weights = np.exp(scores - top)
    lse = top[:, 0] + np.log(weights.sum(1))
    o = weights @ v / weights.sum(1, keepdims=True)
    return round_to(o[None, None], Element.of(problem.dtype_out)), lse[None, None].astype(np.float32)


@pytest.mark.parametrize("line", LINES)
def test_short_sums_pass_where_they_are_expected_and_only_there(line: str) -> None:
    problem = Problem.from_cli(f"{line} --lse")
    inputs = fill(problem, "large")
    reference, (o, lse) = forward(problem, inputs), attention(problem, inputs)
    assert compare(problem, o, lse, reference, sums=2.0**-BITS).verdict is Verdict.PASSED
    checks = dict(compare(problem, o, lse, reference).checks)
    assert not checks["lse"].passed
    assert checks["o"].passed


@pytest.mark.parametrize("line", LINES)
def test_a_lost_key_stays_wrong(line: str) -> None:
    problem = Problem.from_cli(f"{line} --lse")
    inputs = fill(problem, "normal")
    lost = {name: array[:, :, :-1] if name in ("k", "v") else array for name, array in inputs.items()}
    o, lse = attention(problem, lost)
    assert compare(problem, o, lse, forward(problem, inputs), sums=2.0**-BITS).verdict is Verdict.WRONG


@pytest.mark.promise("Rougher sums of 8-bit floats pass only where the architecture's facts say so.")
@pytest.mark.parametrize(
    ("arch", "verdict"), [("sm_89", Verdict.PASSED), ("sm_90a", Verdict.PASSED), ("sm_120", Verdict.WRONG)]
)
def test_the_architectures_facts_decide(arch: str, verdict: Verdict) -> None:
    problem, registry = Problem.from_cli(f"{LINES[1]} --lse"), build_registry()
    best = select(problem, registry, {}, Wanted(backend="cpu", arch="generic")).best
    assert best is not None
    inputs = fill(problem, "large")
    case = Case(problem, "large", inputs, reference=forward(problem, inputs))
    o, lse = attention(problem, inputs)
    plan = on(registry.backend("cpu").plan(problem, best.kernel, best.device), arch)
    assert compared(plan, case, {"o": o, "lse": lse}).verdict is verdict


def on(plan: Plan, arch: str) -> Plan:
    """The plan as if its kernels were for another architecture, of another backend."""
    kernels = (replace(stage.kernel, arch=arch, backend="triton") for stage in plan.stages)
    stages = tuple(replace(stage, kernel=kernel) for stage, kernel in zip(plan.stages, kernels, strict=True))
    return replace(plan, stages=stages)

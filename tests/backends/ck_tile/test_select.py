"""Selection on CK-Tile for any problem: it never raises, never contradicts its rules and always gives an answer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.backends.ck_tile.decide import decide
from fmha_cli.backends.ck_tile.plan import plan_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import reasons_against
from tests.support.generators.ck_tile.problems import random_problem
from tests.support.generators.strategies import problems

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250")
REGISTRY = build_registry()
BACKEND = REGISTRY.backend("ck_tile")
RULES = BACKEND.rules()


def check(problem: Problem, arch: str, units: int) -> None:
    """Assert everything that must hold of one selection."""
    device = DeviceFacts(id="hip:0", archs=(arch,), units=units)
    found = {"ck_tile": Availability(state=State.OK, devices=(device,))}
    selection = select(problem, REGISTRY, found, Wanted(backend="ck_tile"))
    best = selection.best
    if best is None:
        assert selection.trace.reasons(), problem.repro()
        return
    assert reasons_against(RULES, problem, best.kernel, device) == [], (problem.repro(), best.kernel.name)
    made = BACKEND.plan(problem, best.kernel, device)
    assert made.main == best.kernel
    assert all(w.bytes > 0 for w in made.workspaces)


@settings(max_examples=30)
@given(problem=problems(), arch=st.sampled_from(ARCHS), units=st.sampled_from([1, 32, 104, 304]))
@pytest.mark.slow
@pytest.mark.ci
def test_any_problem(problem: Problem, arch: str, units: int) -> None:
    check(problem, arch, units)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), arch=st.sampled_from(ARCHS), units=st.sampled_from([1, 32, 104, 304]))
@pytest.mark.slow
@pytest.mark.ci
def test_any_problem_near_the_kernels(seed: int, arch: str, units: int) -> None:
    check(random_problem(Random(seed)), arch, units)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=2500)
@given(problem=problems(), arch=st.sampled_from(ARCHS), units=st.sampled_from([1, 32, 104, 304]))
def test_thousands_of_problems(problem: Problem, arch: str, units: int) -> None:
    check(problem, arch, units)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=2500)
@given(seed=st.integers(0, 2**32), arch=st.sampled_from(ARCHS), units=st.sampled_from([1, 32, 104, 304]))
def test_thousands_of_problems_near_the_kernels(seed: int, arch: str, units: int) -> None:
    check(random_problem(Random(seed)), arch, units)


def test_every_supported_kernel_has_a_plan() -> None:
    rng = Random(8)
    for _ in range(25):
        problem, arch = random_problem(rng), rng.choice(("gfx942", "gfx950", "gfx1201"))
        device = DeviceFacts(id="hip:0", archs=(arch,), units=80)
        for decision in decide(problem, device):
            if isinstance(decision, Supported):
                assert plan_of(problem, decision.kernel, device).main == decision.kernel

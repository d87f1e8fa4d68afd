"""A seeded sample of ``tests/checks/tolerance.py``: no correct run fails, and hardly any faulty run passes."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from fmha_cli.domain import features
from tests.support.generators.campaign import (
    CK,
    FILLS,
    GROSS,
    RULES,
    Run,
    faulty_run,
    gradient_runs,
    honest_run,
    plan_faulty,
    plan_honest,
    plan_others,
)
from tests.support.generators.extreme_runs import extreme_gradient_runs, extreme_run, plan_extreme, plan_extreme_faults
from tests.support.models.faults import ExtremeFault, Fault

CI = (pytest.mark.slow, pytest.mark.ci)


def test_the_campaign_takes_every_fill() -> None:
    assert sorted(FILLS) == sorted(features.FILLS)


@cache
def other_runs() -> list[Run]:
    """Of kernels with their own budgets. Two tests read them."""
    return [honest_run(*planned) for planned in plan_others(120, first_seed=10**6)]


@pytest.mark.parametrize("count", [40, pytest.param(240, marks=pytest.mark.slow)])
def test_honest_runs_pass(count: int) -> None:
    runs = [honest_run(*planned) for planned in plan_honest(count, first_seed=10**6)]
    assert [run for run in runs if not run.accepted[RULES[-1]]] == []


@pytest.mark.slow
@pytest.mark.ci
def test_kernels_with_budgets_of_their_own_pass() -> None:
    runs = other_runs()
    assert {(run.dtype, run.backend) for run in runs} == {("fp16", CK), ("fp8_e4m3", "*")}
    assert [run for run in runs if not run.accepted[RULES[-1]]] == []


@pytest.mark.slow
@pytest.mark.ci
def test_p_towards_zero_needs_its_own_budget() -> None:
    truncated = [run for run in other_runs() if run.backend == CK]
    assert any(run.rms * 1.1 > 0.72 for run in truncated)


@pytest.mark.slow
@pytest.mark.ci
def test_honest_backward_runs_pass() -> None:
    runs = [run for planned in plan_honest(60, first_seed=10**6) for run in gradient_runs(*planned)]
    assert [run for _, run in runs if not run.accepted[RULES[-1]]] == []


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_faulty_runs_fail(step: int) -> None:
    """Of the 15 runs of each fault, every fourth, so that all dtypes and fills come up; all of them when slow."""
    runs = [faulty_run(*planned) for planned in list(plan_faulty(1, first_seed=10**6))[::step]]
    accepted = [run for run in runs if run.accepted[RULES[-1]]]
    found = Counter(run.fault for run in runs)
    assert set(found) == {fault.value for fault in Fault}
    assert set(found.values()) <= {15 // step, -(-15 // step)}
    assert [run for run in accepted if run.fault in GROSS] == []
    assert len(accepted) <= 0.03 * len(runs), accepted


@pytest.mark.parametrize("count", [pytest.param(15, marks=CI), pytest.param(150, marks=pytest.mark.slow)])
def test_honest_runs_of_extreme_problems_pass(count: int) -> None:
    for planned in plan_extreme(count, first_seed=10**6):
        runs = [extreme_run(*planned), *(run for _, run in extreme_gradient_runs(*planned))]
        assert [run for run in runs if not run.accepted[RULES[-1]]] == []


@pytest.mark.parametrize("per_cell", [pytest.param(1, marks=CI), pytest.param(10, marks=pytest.mark.slow)])
def test_rows_that_extreme_scores_and_biases_lose_are_wrong(per_cell: int) -> None:
    for planned in plan_extreme_faults(per_cell, first_seed=10**6):
        run = extreme_run(*planned)
        assert not run.accepted[RULES[-1]], run
        if planned[-1] is ExtremeFault.SCALED_MAXIMUM:
            gradients = dict(extreme_gradient_runs(*planned))
            assert not gradients["dv"].accepted[RULES[-1]], gradients["dv"]

"""A seeded sample of ``benchmarks/tolerance.py``: no correct run fails, and hardly any faulty run passes."""

from __future__ import annotations

from collections import Counter

from numerics.campaign import (
    CK,
    FILLS,
    GROSS,
    RULES,
    faulty_run,
    gradient_runs,
    honest_run,
    plan_faulty,
    plan_honest,
    plan_others,
)
from numerics.faults import Fault

from fmha_cli.domain import features


def test_the_campaign_takes_every_fill() -> None:
    assert sorted(FILLS) == sorted(features.FILLS)


def test_honest_runs_pass() -> None:
    runs = [honest_run(*planned) for planned in plan_honest(240, first_seed=10**6)]
    assert [run for run in runs if not run.accepted[RULES[-1]]] == []


def test_kernels_with_budgets_of_their_own_pass() -> None:
    runs = [honest_run(*planned) for planned in plan_others(120, first_seed=10**6)]
    assert {(run.dtype, run.backend) for run in runs} == {("fp16", CK), ("fp8_e4m3", "*")}
    assert [run for run in runs if not run.accepted[RULES[-1]]] == []


def test_p_towards_zero_needs_its_own_budget() -> None:
    runs = [honest_run(*planned) for planned in plan_others(120, first_seed=10**6)]
    truncated = [run for run in runs if run.backend == CK]
    assert any(run.rms * 1.1 > 0.72 for run in truncated)


def test_honest_backward_runs_pass() -> None:
    runs = [run for planned in plan_honest(60, first_seed=10**6) for run in gradient_runs(*planned)]
    assert [run for _, run in runs if not run.accepted[RULES[-1]]] == []


def test_faulty_runs_fail() -> None:
    runs = [faulty_run(*planned) for planned in plan_faulty(1, first_seed=10**6)]
    accepted = [run for run in runs if run.accepted[RULES[-1]]]
    assert Counter(run.fault for run in runs) == {fault.value: 15 for fault in Fault}
    assert [run for run in accepted if run.fault in GROSS] == []
    assert len(accepted) <= 0.03 * len(runs), accepted

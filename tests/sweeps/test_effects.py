"""How places compare, judged by the rows that ran at all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.domain.phases import SILENT
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.places import PlaceEffect, place_lines
from fmha_cli.report.record import Record
from fmha_cli.sweeps.driver import SweepEnd
from fmha_cli.sweeps.effects import place_effects
from fmha_cli.sweeps.places import WorkerPlace
from fmha_cli.sweeps.plan import SweepPlan, plan_sweep
from tests.support.generators.report.samples import measurement
from tests.sweeps.test_plan import MIXED, build_registry, plan_of

PLACES = [WorkerPlace(device="null:0", name=f"null:{n}", kind=0) for n in range(2)]


def everywhere() -> SweepPlan:
    """Ten problems at two places each."""
    plan = plan_of(*MIXED)
    return plan_sweep(plan.points, (), plan.request, build_registry(), plan.kinds, SILENT, PLACES, 1.0)


def done_of(plan: SweepPlan, *, slow: float, wrong: int = 0, timed: bool = True) -> SweepEnd:
    """Records of which those at the second place took so much longer; the first few of them are wrong."""
    records = []
    for unit in plan.units:
        second = unit.place == "null:1"
        time = round((1000 + 100 * unit.problem) * (slow if second else 1.0))
        measured = replace(measurement(), launches=((time, 0),) * 12) if timed else None
        verdict = Verdict.WRONG if second and unit.problem < wrong else Verdict.PASSED
        records.append(Record(problem={}, repro="", verdict=verdict, measurement=measured))
    return SweepEnd(tuple(records), False, False, False, {}, 0)


@pytest.mark.promise("`--overlap` shows a slower device or host, with an interval.")
@pytest.mark.parametrize("slow", [1.0, 1.1, 2.0])
def test_a_slower_place_is_seen_with_its_interval(slow: float) -> None:
    plan = everywhere()
    first, second = place_effects(plan, done_of(plan, slow=slow))
    assert (first.place, second.place, first.rows) == ("null:0", "null:1", 10)
    assert first.ratio is not None
    assert second.ratio is not None
    assert second.ratio / first.ratio == pytest.approx(slow, rel=2e-3)
    assert first.ratio * second.ratio == pytest.approx(1.0)
    assert second.ratio_ci95 is not None
    assert second.ratio_ci95[0] <= second.ratio <= second.ratio_ci95[1]


def test_rows_without_times_and_with_other_verdicts() -> None:
    plan = everywhere()
    first, second = place_effects(plan, done_of(plan, slow=1.0, timed=False, wrong=3))
    assert (first.ratio, second.ratio_ci95) == (None, None)
    assert first.differing + second.differing == 3


def test_without_overlap_nothing_is_compared() -> None:
    plan = plan_of(*MIXED)
    assert place_effects(plan, done_of(plan, slow=1.0)) == ()


def test_the_lines() -> None:
    effect = PlaceEffect(place="cuda:1 on b", rows=12, differing=0, ratio=1.023, ratio_ci95=(1.011, 1.035))
    (line,) = place_lines([effect])
    assert (
        line == "  cuda:1 on b: times +2.3 % [+1.1 %, +3.5 %] of the mean of its kind, by 12 rows that ran everywhere"
    )
    (line,) = place_lines([replace(effect, rows=1, ratio=None, ratio_ci95=None)])
    assert line == "  cuda:1 on b: 1 row that ran everywhere, none timed"

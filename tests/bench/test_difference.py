"""The verdict on a row: each of its conditions alone keeps a difference from being sure."""

from __future__ import annotations

import math
import random

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference, SidePair, SureRule, judged, mean_of
from fmha_cli.bench.processes import ProcessSide
from fmha_cli.bench.ranks import two_sided
from tests.support.generators.runs_to_compare import processes


def pair(factor: float, seed: int = 1, count: int = 8, noise: float = 0.002) -> SidePair:
    before, after = processes(1_000_000, seed, count, noise), processes(1_000_000, seed + 1, count, noise)
    return SidePair(
        ProcessSide.of(before), ProcessSide.of([[round(ns * factor) for ns in process] for process in after])
    )


def one(pair: SidePair, rule: SureRule | None = None) -> Difference:
    (found,) = judged([pair], rule or SureRule())
    return found


@pytest.mark.parametrize(
    ("factor", "speed"), [(1.1, Speed.SLOWER), (1 / 1.1, Speed.FASTER), (1.0, Speed.SAME), (1.01, Speed.SAME)]
)
def test_a_clear_row_gets_its_verdict(factor: float, speed: Speed) -> None:
    found = one(pair(factor))
    assert found.speed is speed
    assert found.ratio == pytest.approx(factor, rel=0.005)
    assert found.ratio_ci95 is not None
    assert found.ratio_ci95[0] <= found.ratio <= found.ratio_ci95[1]
    assert found.why is None
    assert found.drift is None


@pytest.mark.promise("Two runs differ only where enough processes say so, beyond tolerance, noise and chance.")
def test_too_few_processes_are_never_sure() -> None:
    found = one(pair(2.0, count=4))
    assert (found.speed, found.p, found.why) == (Speed.UNSURE, None, "4 of 5 processes")
    assert found.ratio == pytest.approx(2, rel=0.01)


def test_processes_with_few_samples_are_named() -> None:
    short = SidePair(ProcessSide.of(processes(9_000, 1, samples=9)), ProcessSide.of(processes(9_000, 2)))
    assert one(short).why == "0 of 5 processes, 8 more with fewer than 10 samples"


def test_a_certain_difference_within_the_tolerance_is_none() -> None:
    found = one(pair(1.01, noise=0.0005))
    assert found.p is not None
    assert found.p < 0.001
    assert found.speed is Speed.SAME
    assert one(pair(1.01, noise=0.0005), SureRule(tolerance=0.005)).speed is Speed.SLOWER


def test_a_large_difference_that_processes_contradict_is_unsure() -> None:
    noisy = pair(1.05, noise=0.2)
    found = one(noisy)
    assert found.speed is Speed.UNSURE
    assert found.why is not None
    assert found.why.startswith("processes differ by")


@pytest.mark.promise("Two runs differ only where enough processes say so, beyond tolerance, noise and chance.")
def test_many_rows_need_a_smaller_p() -> None:
    """A p value of 0.03 is sure for one row and not for the only one of 30."""
    rows = (pair(1.05, seed, 6, 0.03) for seed in range(99))
    slower = next(
        row for row in rows if two_sided(row.before.levels, row.after.levels) > 0.02 and one(row).speed is Speed.SLOWER
    )
    many = judged([slower, *(pair(1.0, 1000 + 2 * i) for i in range(29))], SureRule())
    assert one(slower).p_adjusted == one(slower).p
    assert many[0].p == one(slower).p
    assert many[0].p_adjusted is not None
    assert many[0].p_adjusted > 0.05
    assert many[0].speed is not Speed.SLOWER


def test_a_family_that_is_only_counted_is_as_strict() -> None:
    found = one(pair(1.1, count=5), SureRule(family=7))
    assert found.p_adjusted == pytest.approx(7 * 2 / 252)
    assert found.speed is Speed.UNSURE
    assert one(pair(1.1, count=5), SureRule(family=6)).speed is Speed.SLOWER


def drifting(factor: float, drift: float) -> SidePair:
    """A machine that slows down steadily by ``drift`` within each of two successive sides."""
    levels = [1_000_000 * math.exp(drift * i / 8) for i in range(16)]
    draw = random.Random(3)
    rows = [[round(level * draw.gauss(1, 0.001)) for _ in range(20)] for level in levels]
    return SidePair(ProcessSide.of(rows[:8]), ProcessSide.of([[round(ns * factor) for ns in row] for row in rows[8:]]))


@pytest.mark.promise("Two runs differ only where enough processes say so, beyond tolerance, noise and chance.")
def test_drift_alone_is_no_difference_between_stored_runs() -> None:
    pair = drifting(1.0, 0.10)
    assert one(pair, SureRule(interleaved=True)).speed is Speed.SLOWER, "the planted drift is large enough"
    found = one(pair, SureRule(interleaved=False))
    assert found.speed is Speed.UNSURE
    assert found.drift == pytest.approx(math.expm1(0.1), rel=0.1)
    assert one(drifting(1.3, 0.10), SureRule(interleaved=False)).speed is Speed.SLOWER


def test_drift_keeps_stored_runs_from_being_the_same() -> None:
    """What the machine moved could hide a difference as well as feign one."""
    level = drifting(math.exp(-0.03), 0.03)
    assert one(level, SureRule(interleaved=True)).speed is Speed.SAME
    assert one(level, SureRule(interleaved=False)).speed is Speed.UNSURE


def test_a_machine_whose_best_rate_fell_has_moved() -> None:
    calm = pair(1.1)
    moved = SidePair(
        ProcessSide(calm.before.processes, ceiling=1e11), ProcessSide(calm.after.processes, ceiling=0.9e11)
    )
    assert one(calm, SureRule(interleaved=False)).speed is Speed.SLOWER
    found = one(moved, SureRule(interleaved=False))
    assert found.speed is Speed.UNSURE
    assert found.why is not None
    assert found.why.startswith("the machine moved by")
    assert one(moved, SureRule(interleaved=True)).speed is Speed.SLOWER, "sides that take turns share it"


@pytest.mark.promise("`compare` says which rows are surely slower, and the smallest slowdown it could have detected.")
def test_could_see_is_what_a_planted_slow_down_shows() -> None:
    for noise in (0.002, 0.02, 0.05):
        calm = pair(1.0, 7, noise=noise)
        seen = one(calm).could_see
        assert seen is not None
        alike = math.exp(-calm.shift)
        for share, expected in ((seen * 1.05, True), (seen * 0.5, False)):
            planted = ProcessSide.of([[round(ns * alike * (1 + share)) for ns in p] for p in calm.after.processes])
            assert (one(SidePair(calm.before, planted)).speed is Speed.SLOWER) is expected


@pytest.mark.promise("`compare` says which rows are surely slower, and the smallest slowdown it could have detected.")
def test_could_see_does_not_count_the_difference_itself() -> None:
    calm = pair(1.0, 7, noise=0.02)
    for factor in (0.975, 1.1):
        moved = ProcessSide.of([[round(ns * factor) for ns in p] for p in calm.after.processes])
        assert one(SidePair(calm.before, moved)).could_see == one(calm).could_see


def test_nothing_can_be_seen_where_the_rows_are_too_many() -> None:
    found = judged([pair(1.0, 3 * i, 5) for i in range(7)], SureRule())
    assert {row.could_see for row in found} == {None}


def test_a_row_is_suspicious_before_it_is_sure() -> None:
    assert one(pair(1.1)).suspicious
    assert not one(pair(1.0)).suspicious
    rows = judged([pair(1.1, count=5), *(pair(1.0, 1000 + 2 * i, count=5) for i in range(29))], SureRule())
    assert rows[0].speed is Speed.UNSURE
    assert rows[0].suspicious


def test_the_mean_is_geometric_and_has_an_interval() -> None:
    rows = [pair(1.1, 1), pair(1.0, 3), pair(1 / 1.1, 5)]
    mean = mean_of(rows)
    assert (mean.rows, mean.ratio) == (3, pytest.approx(1, abs=0.004))
    assert mean.ratio_ci95[0] < mean.ratio < mean.ratio_ci95[1]
    assert mean_of(rows[:1]).ratio == pytest.approx(one(rows[0]).ratio)
    with pytest.raises(ValueError, match="no rows"):
        mean_of([])


def test_no_times_are_no_difference() -> None:
    found = one(SidePair(ProcessSide.of([]), ProcessSide.of(processes(9_000, 1))))
    assert (found.ratio, found.before_ns, found.speed) == (None, None, Speed.UNSURE)

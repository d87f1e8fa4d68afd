"""The rule of ``fmha compare`` on recorded noise: it finds a planted row and raises few alarms.

The table of results/comparing.md is made by the same program with more comparisons.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from compare_power import PROCESSES, Series, compared, packed, series_of

from fmha_cli.bench.ranks import fewest_processes
from tests.support.generators.runs_to_compare import processes, timed

ROOT = Path(__file__).resolve().parents[2]
NOISE: dict[str, Any] = json.loads((ROOT / "benchmarks" / "compare_noise.json").read_text("utf-8"))
TRIALS = 40


def share(machine: str, factor: float, *, rows: int, found: bool, stages: int, stored: bool) -> float:
    series, draw = series_of(NOISE[machine]), random.Random(11)
    outcomes = [compared(series, rows, factor, stages=stages, stored=stored, draw=draw) for _ in range(TRIALS)]
    return sum(one.found if found else one.alarm for one in outcomes) / TRIALS


@pytest.mark.promise("Two runs differ only where enough processes say so, beyond tolerance, noise and chance.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("machine", ["quiet, 1 thread", "busy, 1 thread"])
@pytest.mark.parametrize("stored", [False, True])
def test_the_rule_finds_a_planted_row_and_raises_few_alarms(machine: str, stored: bool) -> None:
    assert share(machine, 1.0, rows=30, found=False, stages=2, stored=stored) <= 0.05
    assert share(machine, 1.1, rows=30, found=True, stages=2, stored=stored) >= 0.85


@pytest.mark.parametrize("machine", ["quiet, 2 threads", "busy, 2 threads"])
def test_where_little_can_be_seen_little_is_said(machine: str) -> None:
    """Threads that wait for each other make times that no rule can tell apart, so it must not pretend to."""
    assert share(machine, 1.0, rows=30, found=False, stages=2, stored=False) <= 0.05


def test_eight_processes_cannot_tell_a_lone_row_among_too_many() -> None:
    """Without noise a planted row is found among 321 rows and not among 322: hence the second look."""
    calm: list[Series] = [[(1000 + i % 3, None) for i in range(40)]]
    for rows, sure in ((321, True), (322, False)):
        assert (fewest_processes(rows) <= PROCESSES) is sure
        found = compared(calm, rows, 1.2, stages=1, stored=False, draw=random.Random(1)).found
        assert found is sure
    assert compared(calm, 322, 1.2, stages=2, stored=False, draw=random.Random(1)).found


def test_a_recording_keeps_the_quantile_of_every_process(tmp_path: Path) -> None:
    for place, process in enumerate(processes(1_000_000, 1, 3)):
        (tmp_path / f"{place}.jsonl").write_text(json.dumps(timed([process]).to_dict()) + "\n", "utf-8")
    (tmp_path / "3.jsonl").write_text(json.dumps(timed([[5] * 9]).to_dict()) + "\n", "utf-8")
    (kept,) = packed([tmp_path]).values()
    assert [len(one) for one in kept] == [2, 2, 2]
    assert all(rate is None and ns is not None and 980_000 < ns < 1_020_000 for ns, rate in kept)

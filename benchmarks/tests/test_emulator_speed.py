"""What ``benchmarks/emulator_speed.py`` makes of its samples."""

from __future__ import annotations

from typing import Any

import pytest
from emulator_speed import POINTS, cells, misses, ratios_of


def turn(*cpu_s: float) -> dict[str, Any]:
    return {"cpu_s": list(cpu_s), "load_s": 0.5, "peak_mib": 90.0, "equivalents": 2_000_000}


ROW = {
    "title": "sm_80 x",
    "goal": 4.0,
    "old": [turn(0.8, 0.9, 8.0), turn(0.8, 0.8, 0.8)],
    "new": [turn(0.2, 0.2, 9.0), turn(0.16, 0.16, 0.2)],
}


def test_a_ratio_is_of_medians_with_those_of_neighbouring_turns() -> None:
    whole, low, high = ratios_of(ROW)
    assert (whole, low, high) == (pytest.approx(0.85 / 0.18), pytest.approx(4.5), pytest.approx(5.0))


def test_a_missed_goal_is_named_and_no_other() -> None:
    slower = {**ROW, "new": [turn(0.3), turn(0.3)]}
    assert misses(ROW) == ""
    assert misses({**slower, "goal": 0.0}) == ""
    assert misses({"title": "x", "goal": 4.0, "new": slower["new"]}) == ""
    assert misses(slower) == "sm_80 x: 2.83 times as fast, not 4"


def test_a_point_that_cannot_run_says_so() -> None:
    assert cells({"title": "x", "goal": 4.0, "why": "y is not installed"})[2] == "NOT_RUN: y is not installed"
    assert cells(ROW)[1:6] == ("4", "850.0", "180.0", "4.72 (4.50 to 5.00)", "11.1")


def test_titles_are_unique() -> None:
    assert len({point.title for point in POINTS}) == len(POINTS)

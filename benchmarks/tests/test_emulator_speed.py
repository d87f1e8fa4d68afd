"""What ``benchmarks/emulator_speed.py`` makes of its samples."""

from __future__ import annotations

from typing import Any

import pytest
from emulator_speed import POINTS, Point, compare, misses, summary_of


def turn(*cpu_s: float) -> dict[str, Any]:
    return {"cpu_s": list(cpu_s), "load_s": 0.5, "peak_mib": 90.0, "equivalents": 2_000_000}


ROW = {
    "title": "sm_80 x",
    "goal": 4.0,
    "old": [turn(0.8, 0.9, 8.0), turn(0.8, 0.8, 0.8)],
    "new": [turn(0.2, 0.2, 9.0), turn(0.16, 0.16, 0.2)],
}


def test_a_ratio_is_of_medians_with_those_of_neighbouring_turns() -> None:
    assert summary_of(ROW) == {
        "ms": [850.0, 180.0],
        "ratio": [4.72, 4.5, 5.0],
        "million_per_s": 11.1,
        "load_ms": [500, 500],
        "peak_mib": [90, 90],
    }
    alone = {name: value for name, value in ROW.items() if name != "old"}
    assert summary_of(alone)["ms"] == [180.0]
    assert "ratio" not in summary_of(alone)


@pytest.mark.parametrize(
    ("goal", "summary", "words"),
    [
        (4.0, {"ratio": [4.0, 3.0, 5.0]}, ""),
        (4.0, {"ratio": [3.99, 3.0, 5.0]}, "x: 3.99 times as fast, not 4"),
        (0.0, {"ratio": [0.5, 0.4, 0.6]}, ""),
        (4.0, {}, ""),
    ],
)
def test_a_missed_goal_is_named_and_no_other(goal: float, summary: dict[str, Any], words: str) -> None:
    assert misses({"title": "x", "goal": goal, "summary": summary}) == words


def test_a_point_that_cannot_run_says_so() -> None:
    row = compare(Point("sm_80", "x", "", needs="a_package_that_is_nowhere"), None, 1, 1)
    assert row["why"] == "a_package_that_is_nowhere is not installed"
    assert misses(row) == ""


def test_titles_are_unique() -> None:
    assert len({point.title for point in POINTS}) == len(POINTS)

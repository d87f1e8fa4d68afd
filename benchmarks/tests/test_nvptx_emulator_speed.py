"""What ``benchmarks/nvptx_emulator_speed.py`` calls missed."""

from __future__ import annotations

from typing import Any

import pytest
from nvptx_emulator_speed import MOST_LOAD_S, POINTS, misses

GOOD = {"checks": True, "equivalents_per_cpu_s": 9.0, "cpu_s": 0.2, "load_s": 0.5, "peak_mib": 200.0}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"equivalents_per_cpu_s": 7.9}, "8 million warp instructions"),
        ({"cpu_s": 0.31}, "0.3 s a launch"),
        ({"load_s": MOST_LOAD_S + 0.1}, "to load the PTX"),
        ({"peak_mib": 1025.0}, "1024 MiB"),
        ({"peak_mib": 1025.0, "checks": False}, None),
    ],
)
def test_what_a_kernel_misses_is_named(changed: dict[str, Any], words: str | None) -> None:
    found = misses({**GOOD, **changed}, POINTS[0])
    assert [words in one for one in found if words is not None] == ([] if words is None else [True])
    assert bool(found) == (words is not None)

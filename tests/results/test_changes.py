"""Change points: a step is found where it is, and noise is none."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.results.changes import tracked
from fmha_cli.results.queries import TimePoint


def points(levels: Sequence[float], processes: int, seed: int = 0, noise: float = 0.003) -> list[TimePoint]:
    """A run for each level, whose processes scatter around it."""
    draw = random.Random(seed)
    out = []
    for number, level in enumerate(levels):
        samples = tuple(
            tuple(round(middle * draw.gauss(1, 0.002)) for _ in range(12))
            for middle in (level * draw.gauss(1, noise) for _ in range(processes))
        )
        out.append(TimePoint(str(number), "", None, None, round(level), None, samples))
    return out


STEP = [1e6] * 12 + [1.2e6] * 12


@pytest.mark.promise("A step in a history is found where it is, and not in noise.")
@pytest.mark.parametrize("processes", [1, 2, 5, 8])
def test_a_step_is_found_once_and_where_it_is(processes: int) -> None:
    for levels, speed in ((STEP, Speed.SLOWER), (STEP[::-1], Speed.FASTER)):
        changes = tracked(points(levels, processes)).changes
        assert list(changes) == [12]
        assert changes[12].speed is speed
        assert changes[12].ratio == pytest.approx(levels[-1] / levels[0], rel=0.02)


@pytest.mark.promise("A step in a history is found where it is, and not in noise.")
def test_noise_is_no_change() -> None:
    found = [tracked(points([1e6] * 20, processes, seed)).changes for processes in (1, 5) for seed in range(25)]
    assert sum(map(bool, found)) <= 2


def test_two_steps_are_two_changes() -> None:
    levels = [1e6] * 10 + [1.2e6] * 10 + [0.9e6] * 10
    assert list(tracked(points(levels, 8)).changes) == [10, 20]


def test_a_difference_within_the_tolerance_is_no_change() -> None:
    assert tracked(points([1e6] * 10 + [1.01e6] * 10, 8, noise=0.0005)).changes == {}


def test_too_few_processes_say_nothing() -> None:
    assert tracked(points([1e6, 1e6, 1e6, 2e6], 1)).changes == {}
    assert tracked([]).points == ()

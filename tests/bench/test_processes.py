"""Sides: which processes count, their levels, how far they moved, and the bootstrap compared with one that draws samples."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fmha_cli.bench.processes import LEAST_SAMPLES, LEVEL, ProcessSide, split


def test_samples_are_split_by_process() -> None:
    assert split([5, 6, 7, 8], [3, 0, 3, 0]) == ((5, 7), (6, 8))
    assert split([5, 6], None) == ((5, 6),)


def test_a_process_with_few_samples_is_only_counted() -> None:
    side = ProcessSide.of([[7] * LEAST_SAMPLES, [7] * (LEAST_SAMPLES - 1)])
    assert (len(side.processes), side.short) == (1, 1)


def test_a_level_is_the_logarithm_of_a_low_quantile() -> None:
    samples = list(range(100, 200))
    side = ProcessSide.of([samples])
    assert side.levels == (pytest.approx(math.log(np.quantile(samples, LEVEL))),)
    assert ProcessSide.of([[0] * 10]).levels == (0.0,), "a time of zero has a level too"


def test_interruptions_do_not_move_a_level() -> None:
    calm = [1000 + i for i in range(50)]
    assert ProcessSide.of([[*calm[:40], *[9999] * 10]]).levels == ProcessSide.of([calm]).levels


def test_what_moves_within_a_side_is_drift() -> None:
    assert ProcessSide.of([[100] * 10] * 4 + [[110] * 10] * 4).wander == pytest.approx(2 * math.log(1.1))
    assert ProcessSide.of([[100] * 10, [110] * 10] * 4).wander <= math.log(1.1), "no more than they scatter"
    assert ProcessSide.of([[100] * 10]).wander == 0


@pytest.mark.parametrize("at", [2, 3, 5, 6])
def test_a_step_is_drift_wherever_it_is(at: int) -> None:
    assert ProcessSide.of([[100] * 10] * at + [[110] * 10] * (8 - at)).wander >= math.log(1.1) * 0.999
    assert ProcessSide.of([[100] * 10] * 7 + [[110] * 10]).wander < 0.6 * math.log(1.1), "a single slow process is none"


def test_a_straight_drift_between_two_successive_sides_is_covered() -> None:
    """Two runs of one length, one after the other, on a machine that slows down steadily."""
    levels = [math.exp(10 + 0.01 * i) for i in range(16)]
    before, after = (ProcessSide.of([[round(ns)] * 10 for ns in part]) for part in (levels[:8], levels[8:]))
    assert max(before.wander, after.wander) == pytest.approx(after.middle - before.middle, rel=0.01)


def drawn_by_samples(side: ProcessSide, rounds: int) -> list[float]:
    """The hierarchical bootstrap by its definition."""
    draw = random.Random(5)
    out = []
    for _ in range(rounds):
        chosen = draw.choices(side.processes, k=len(side.processes))
        levels = [math.log(np.quantile(draw.choices(process, k=len(process)), LEVEL)) for process in chosen]
        out.append(float(np.median(levels)))
    return out


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("counts", [(10, 10, 10, 10, 10), (40, 25, 10, 60, 33, 20)])
def test_the_bootstrap_draws_what_its_definition_draws(counts: tuple[int, ...]) -> None:
    draw = random.Random(sum(counts))
    middles = [draw.gauss(10_000, 300) for _ in counts]
    side = ProcessSide.of([[round(draw.gauss(m, 200)) for _ in range(n)] for m, n in zip(middles, counts, strict=True)])
    mine, other = side.resampled(0, 0), drawn_by_samples(side, 1000)
    for q in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert np.quantile(mine, q) == pytest.approx(np.quantile(other, q), abs=0.15 * (max(other) - min(other)))
    assert np.std(mine) == pytest.approx(np.std(other), rel=0.2)


def test_rows_of_one_stream_draw_the_same_processes() -> None:
    """With constant samples only the choice of processes is left: equal for all rows of a stream, others for another."""
    side = ProcessSide.of([[100 + i] * 10 for i in range(8)])
    assert (side.resampled(0, 0) == side.resampled(0, 1)).all()
    assert not (side.resampled(0, 0) == side.resampled(1, 0)).all()

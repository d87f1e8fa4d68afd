"""Statistics compared with brute force, NumPy and the definition of coverage."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.bench.stats import (
    median,
    median_interval,
    median_rank,
    quantile,
    ratio_interval,
    relative_width,
)

samples = st.lists(st.integers(0, 10**12), min_size=1, max_size=60)


@given(samples)
def test_median_is_that_of_the_library_rounded_down(values: list[int]) -> None:
    assert median(values) == math.floor(statistics.median(values))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.floats(0, 1))
def test_quantile_is_numpys_default(values: list[int], q: float) -> None:
    assert quantile(values, q) == pytest.approx(np.quantile(values, q), rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("q", [-0.1, 1.1])
def test_quantile_refuses_what_is_none(q: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        quantile([1], q)


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median([])


@pytest.mark.sampled(25, ci="all")
@pytest.mark.parametrize("count", [*range(1, 80), 500, 999, 1000, 2000])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_rank_is_the_largest_that_covers(count: int, confidence: float) -> None:
    def coverage(rank: int) -> float:
        below = sum(math.comb(count, i) for i in range(rank))
        return 1 - 2 * below / 2**count

    rank = median_rank(count, confidence)
    if rank is None:
        assert coverage(1) < confidence
        return
    assert coverage(rank) >= confidence
    assert coverage(rank + 1) < confidence


def test_rank_beyond_the_exact_range_goes_on_smoothly() -> None:
    exact, rough = median_rank(2000), median_rank(2001)
    assert exact is not None
    assert rough is not None
    assert abs(exact - rough) <= 2


def test_six_samples_are_the_least_with_an_interval() -> None:
    assert median_interval([5, 1, 2, 3, 4]) is None
    assert median_interval([6, 1, 2, 3, 4, 5]) == (1, 6)


@pytest.mark.parametrize("shape", ["normal", "lognormal", "bimodal"])
def test_the_interval_covers_the_median_whatever_the_distribution(shape: str) -> None:
    draw = random.Random(7)
    sources = {
        "normal": (lambda: draw.gauss(100, 10), 100.0),
        "lognormal": (lambda: draw.lognormvariate(0, 1), 1.0),
        "bimodal": (lambda: draw.choice((draw.uniform(0, 1), draw.uniform(2, 3))) + (draw.random() < 0.02) * 50, 1.5),
    }
    source, true = sources[shape]
    if shape == "bimodal":
        values = sorted(source() for _ in range(40001))
        true = values[20000]
    hits = 0
    for _ in range(600):
        low, high = median_interval([source() for _ in range(25)]) or (0.0, 0.0)
        hits += low <= true <= high
    assert hits >= 0.93 * 600


@given(st.lists(st.integers(1, 10**9), min_size=6, max_size=60))
def test_the_interval_holds_the_median(values: list[int]) -> None:
    low, high = median_interval(values) or (1, 0)
    assert low <= median(values) <= high
    assert relative_width(values) == (high - low) / median(values)


def test_too_few_samples_are_infinitely_wide() -> None:
    assert relative_width([3, 3, 3]) == math.inf
    assert relative_width([0] * 8) == 0


def test_ratio_interval_holds_the_true_ratio_and_narrows_when_paired() -> None:
    draw = random.Random(1)
    drift = [1 + i / 40 for i in range(40)]
    a = [int(1_200_000 * d * draw.uniform(0.99, 1.01)) for d in drift]
    b = [int(1_000_000 * d * draw.uniform(0.99, 1.01)) for d in drift]
    paired = ratio_interval(a, b, paired=True)
    loose = ratio_interval(a, b, paired=False)
    assert paired is not None
    assert loose is not None
    assert paired[0] < 1.2 < paired[1]
    assert paired[1] - paired[0] < (loose[1] - loose[0]) / 3
    assert paired == ratio_interval(a, b, paired=True)


def test_ratio_interval_needs_samples_and_equal_rounds() -> None:
    assert ratio_interval([1] * 5, [1] * 50, paired=False) is None
    with pytest.raises(ValueError, match="unequal"):
        ratio_interval([1] * 8, [1] * 9, paired=True)


@given(st.lists(st.integers(1, 10**6), min_size=6, max_size=20))
def test_ratio_of_equals_is_one(values: list[int]) -> None:
    assert ratio_interval(values, values, paired=True) == (1.0, 1.0)

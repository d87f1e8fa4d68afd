"""Statistics of timing samples: order statistics only, without the assumption of a normal distribution.

Sources: H. A. David and H. N. Nagaraja, "Order Statistics" (3rd ed. 2003), section 7.1 (the interval of
the median); R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical Packages" (1996), type 7 (the
quantiles, NumPy's default); B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993),
section 13.3 (the percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

Number = TypeVar("Number", int, float)

CONFIDENCE = 0.95
"""Confidence of every interval in a record (``ci95_ns``)."""

FEWEST = 6
"""The fewest samples whose median has such an interval."""

_EXACT_UP_TO = 2000
"""Up to this many samples the exact binomial is used. More samples use its normal approximation, which is off by a rank
or two."""

RESAMPLES = 1000
"""Bootstrap resamples: enough that the ends of a 95 % interval move by less than a tenth of its width."""

_DRAWN_AT_ONCE = 2**18
"""Samples drawn in one step. With 8 bytes each they fit a core's second-level cache or little more."""


def median(samples: Sequence[int]) -> int:
    """The median in whole units; of an even count the mean of the middle two, rounded down.

    Raises:
        ValueError: no samples.
    """
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("the median of no samples")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2


def quantile(samples: Sequence[float], q: float) -> float:
    """The q-quantile (0 <= q <= 1), interpolated linearly between order statistics (type 7).

    Raises:
        ValueError: no samples, or q outside [0, 1].
    """
    ordered = sorted(samples)
    if not ordered or not 0 <= q <= 1:
        raise ValueError(f"quantile {q} of {len(ordered)} samples")
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@cache
def median_rank(count: int, confidence: float = CONFIDENCE) -> int | None:
    """The largest k so that [x(k), x(n+1-k)] (1-based) covers the median with at least ``confidence``.

    The coverage is 1 - 2 P(B <= k - 1) with B binomial (n, 1/2), whatever the distribution of the samples.
    None if even the extremes cover too little (n < 6 at 95 %).
    """
    tail = (1 - confidence) / 2
    if count > _EXACT_UP_TO:
        from statistics import NormalDist  # slow to import, rarely needed

        z = NormalDist().inv_cdf(1 - tail)
        return math.floor(count / 2 - z * math.sqrt(count) / 2)
    allowed = int(tail * 2**53) * 2**count // 2**53
    term, total, rank = 1, 0, 0
    while total + term <= allowed:
        total += term
        term = term * (count - rank) // (rank + 1)
        rank += 1
    return rank or None


def median_interval(samples: Sequence[Number], confidence: float = CONFIDENCE) -> tuple[Number, Number] | None:
    """The distribution-free confidence interval of the median, or None for too few samples.

    It assumes independent samples of one distribution; ``sampling`` warns if they drift.
    """
    rank = median_rank(len(samples), confidence)
    if rank is None:
        return None
    ordered = sorted(samples)
    return ordered[rank - 1], ordered[-rank]


def relative_width(samples: Sequence[int]) -> float:
    """Width of the median's interval as a share of the median; infinite for too few samples."""
    interval = median_interval(samples)
    if interval is None:
        return math.inf
    low, high = interval
    return (high - low) / max(1, median(samples))


def ratio_interval(above: Sequence[int], below: Sequence[int], *, paired: bool) -> tuple[float, float] | None:
    """Bootstrap percentile interval of median(above) / median(below). The same samples give the same interval.

    Args:
        paired: the i-th samples were taken together (interleaved A/B), so rounds are resampled, which removes a shared
            drift from the ratio. Otherwise each side is resampled separately.

    Returns:
        None for fewer than 6 samples on a side: then even the median has no interval.

    Raises:
        ValueError: paired samples of unequal counts.
    """
    if paired and len(above) != len(below):
        raise ValueError(f"paired samples of unequal counts: {len(above)} and {len(below)}")
    if median_rank(min(len(above), len(below)), CONFIDENCE) is None:
        return None
    import numpy as np  # slow to import, and most documents need none

    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    draw = np.random.default_rng(0)
    rows = max(1, _DRAWN_AT_ONCE // max(len(top), len(bottom)))
    ratios: list[float] = []
    while len(ratios) < RESAMPLES:
        count = min(rows, RESAMPLES - len(ratios))
        first = draw.integers(len(top), size=(count, len(top)))
        second = first if paired else draw.integers(len(bottom), size=(count, len(bottom)))
        below_medians = np.maximum(np.median(bottom[second], axis=1), 1.0)
        ratios += (np.median(top[first], axis=1) / below_medians).tolist()
    tail = (1 - CONFIDENCE) / 2
    return quantile(ratios, tail), quantile(ratios, 1 - tail)

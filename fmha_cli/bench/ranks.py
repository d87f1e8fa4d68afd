"""The exact Mann-Whitney test, and its correction for many rows that are tested at once.

Sources: H. B. Mann and D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the
Other" (1947); with ties, the distribution is that of the midranks under all ways to split them (E. L. Lehmann,
"Nonparametrics" (1975), section 1.4). Y. Benjamini and Y. Hochberg, "Controlling the False Discovery Rate" (1995). S. Holm, "A
Simple Sequentially Rejective Multiple Test Procedure" (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

ALPHA = 0.05
"""Share of false ones among the differences that are called sure; with ``holm``, the chance that there is any."""

FEWEST_PROCESSES = 5
"""With fewer processes a side the test would need a difference that no single process contradicts, and would rarely have it."""

_EXACT_UP_TO = 200
"""Up to this many values of both sides together the distribution is counted out. More use the normal approximation."""

_KEPT = 256
"""Distributions kept: without ties there is one for each pair of counts."""


def two_sided(a: Sequence[float], b: Sequence[float]) -> float:
    """The probability of a split of the same values into two sides that differs as much as ``a`` and ``b`` do, or more.

    Raises:
        ValueError: a side is empty.
    """
    if not a or not b:
        raise ValueError("the test of no values")
    ranks = _doubled_midranks((*a, *b))
    rank_sum = sum(ranks[: len(a)])
    if len(ranks) > _EXACT_UP_TO:
        return _approximate(rank_sum, len(a), ranks)
    below, above = _tails(len(a), tuple(sorted(ranks)))
    return float(min(1.0, 2 * min(below[rank_sum], above[rank_sum])))


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the midrank of each value: whole numbers, also for ties."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = start + end + 1  # the mean of start + 1 ... end, twice
        start = end
    return ranks


@lru_cache(_KEPT)
def _tails(count: int, ranks: tuple[int, ...]) -> tuple[Sequence[float], Sequence[float]]:
    """P(S <= s) and P(S >= s) for every s, where S is the sum of ``count`` of the ranks, each choice equally likely."""
    import numpy as np  # slow to import, and most commands need none

    ways = np.zeros((count + 1, sum(ranks) + 1))
    ways[0, 0] = 1
    for done, rank in enumerate(ranks, 1):
        for chosen in range(min(done, count), 0, -1):
            ways[chosen, rank:] += ways[chosen - 1, :-rank]
    share = ways[count] / math.comb(len(ranks), count)
    return np.cumsum(share).tolist(), np.cumsum(share[::-1])[::-1].tolist()


def _approximate(rank_sum: int, count: int, ranks: Sequence[int]) -> float:
    """The normal approximation, with the variance of the ranks as they are and a correction for steps of one."""
    from statistics import NormalDist  # slow to import, rarely needed

    total, other = len(ranks), len(ranks) - count
    mean = sum(ranks) / total
    variance = count * other / (total * (total - 1)) * sum((rank - mean) ** 2 for rank in ranks)
    if not variance:
        return 1.0
    away = max(0.0, abs(rank_sum - count * mean) - 1)  # a step of one rank is two of doubled ones; half of it is one
    return min(1.0, 2 * NormalDist().cdf(-away / math.sqrt(variance)))


def adjusted(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p values after Benjamini and Hochberg: those up to alpha have a share of alpha false ones at most."""
    count = len(p_values)
    out, least = [1.0] * count, 1.0
    order = sorted(range(count), key=lambda i: p_values[i])
    for rank in range(count, 0, -1):
        place = order[rank - 1]
        least = min(least, p_values[place] * count / rank)
        out[place] = least
    return tuple(out)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p values after Holm: the chance that any of those up to alpha is a false one is alpha at most."""
    count = len(p_values)
    out, most = [1.0] * count, 0.0
    for done, place in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        most = max(most, min(1.0, p_values[place] * (count - done)))
        out[place] = most
    return tuple(out)


def smallest_p(a: int, b: int) -> float:
    """The least p value that so many processes can give: no value of one side lies among those of the other."""
    return min(1.0, 2 / math.comb(a + b, a))


def fewest_processes(rows: int, alpha: float = ALPHA) -> int:
    """The fewest processes a side with which a lone difference among so many rows can be sure."""
    count = FEWEST_PROCESSES
    while smallest_p(count, count) * max(1, rows) > alpha:
        count += 1
    return count

"""Which of several kernels is the fastest, from as few samples as possible: successive halving, racing, or all samples of all.

A pure function over a ``ArmSampler``; it reads no clock. Successive halving: K. Jamieson and A. Talwalkar, "Non-stochastic Best Arm
Identification and Hyperparameter Optimization" (2016). Racing: O. Maron and A. Moore, "Hoeffding Races" (1994), with the interval
of the median in place of Hoeffding's bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fmha_cli.bench.processes import LEVEL
from fmha_cli.bench.stats import CONFIDENCE, median_interval, quantile


class Method(StrEnum):
    """How samples are given to kernels."""

    HALVING = "halving"
    """The samples double and the slower half goes, round by round; surely slower kernels drop out at once."""
    RACE = "race"
    """All kernels get samples, and surely slower ones drop out."""
    EXHAUSTIVE = "exhaustive"
    """Every kernel gets all samples."""


class Stop(StrEnum):
    """Why a search ended."""

    ONE_LEFT = "one_left"
    SAMPLES = "samples"
    """The remaining ones had all their samples."""
    BUDGET = "budget"
    """The sampler had no time left."""


class OutOfTime(Exception):
    """Raised by a sampler: no time is left for more samples."""


class ArmSampler(Protocol):
    """Takes samples of kernels, which it numbers from 0."""

    def take(self, arm: int, count: int) -> Sequence[int]:
        """So many further samples of a kernel in nanoseconds; none if it failed, which takes it out of the search.

        Raises:
            Spent: no time is left.
        """


@dataclass(frozen=True)
class Policy:
    """How many samples.

    Attributes:
        first: samples of each kernel in the first round.
        most: samples after which a kernel gets no more.
        visit: samples that are taken of one kernel before the next one's turn, so a drift of the machine reaches all.
        confidence: of all intervals of a race together (Bonferroni).
    """

    first: int = 10
    most: int = 100
    visit: int = 5
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most and self.visit > 0 and 0 < self.confidence < 1):
            raise ValueError(f"a search policy that contradicts itself: {self}")


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        order: all kernels that have samples, best first: the ones that stayed longest in the race, and among them the
            fastest.
        samples: of each kernel, by number, in nanoseconds.
        rounds: the kernels that each round sampled.
        stop: why the search ended.
    """

    order: tuple[int, ...]
    samples: tuple[tuple[int, ...], ...]
    rounds: tuple[tuple[int, ...], ...]
    stop: Stop

    @property
    def taken(self) -> int:
        """Samples in all."""
        return sum(map(len, self.samples))


def level(samples: Sequence[int]) -> float:
    """The order of kernels: by the quantile that ``fmha compare`` looks at, which leaves out interruptions."""
    return quantile(samples, LEVEL)


def search(
    arms: int, sampler: ArmSampler, method: Method = Method.HALVING, policy: Policy | None = None
) -> SearchResult:
    """Sample kernels until the fastest is found, or all samples are taken.

    Raises:
        ValueError: no kernels.
    """
    if arms < 1:
        raise ValueError("a search among no kernels")
    return _Search(arms, sampler, method, policy or Policy()).go()


class _Search:
    """The state of one search."""

    def __init__(self, arms: int, sampler: ArmSampler, method: Method, policy: Policy) -> None:
        self.sampler, self.method, self.policy = sampler, method, policy
        self.alive = list(range(arms))
        self.samples: list[list[int]] = [[] for _ in range(arms)]
        self.rounds: list[tuple[int, ...]] = []
        self.gone: list[int] = []
        self.looks = arms * math.ceil(math.log2(policy.most / policy.first) + 1)

    def go(self) -> SearchResult:
        target, stop = self.policy.first, Stop.SAMPLES
        if self.method is Method.EXHAUSTIVE:
            target = self.policy.most
        try:
            while True:
                self._round(min(target, self.policy.most))
                self._drop()
                if self.method is not Method.EXHAUSTIVE and len(self.alive) <= 1:
                    stop = Stop.ONE_LEFT
                    break
                if target >= self.policy.most:
                    break
                target = target + self.policy.first if self.method is Method.RACE else 2 * target
        except OutOfTime:
            stop = Stop.BUDGET
        order = [*self._sorted(self.alive), *reversed(self.gone)]
        return SearchResult(
            order=tuple(arm for arm in order if self.samples[arm]),
            samples=tuple(map(tuple, self.samples)),
            rounds=tuple(self.rounds),
            stop=stop,
        )

    def _round(self, target: int) -> None:
        """Bring every kernel to so many samples, in visits whose order turns round each time."""
        self.rounds.append(tuple(self.alive))
        forward, failed = True, set[int]()
        while waiting := [arm for arm in self.alive if len(self.samples[arm]) < target and arm not in failed]:
            for arm in waiting if forward else reversed(waiting):
                got = self.sampler.take(arm, min(self.policy.visit, target - len(self.samples[arm])))
                self.samples[arm].extend(got)
                if not got:
                    failed.add(arm)
            forward = not forward
        for arm in failed:
            self.samples[arm].clear()
            self.alive.remove(arm)

    def _drop(self) -> None:
        """Take out surely slower kernels; with halving, at least the slower half."""
        if self.method is Method.EXHAUSTIVE or len(self.alive) < 2:
            return
        ranked = self._sorted(self.alive)
        kept = [arm for arm in ranked if arm not in self._surely_slower(ranked)]
        if self.method is Method.HALVING:
            kept = kept[: math.ceil(len(ranked) / 2)]
        self.gone.extend(arm for arm in reversed(ranked) if arm not in kept)
        self.alive = kept

    def _surely_slower(self, ranked: Sequence[int]) -> set[int]:
        confidence = 1 - (1 - self.policy.confidence) / self.looks
        intervals = {arm: median_interval(self.samples[arm], confidence) for arm in ranked}
        ends = [interval[1] for interval in intervals.values() if interval is not None]
        if not ends:
            return set()
        bar = min(ends)
        return {arm for arm, interval in intervals.items() if interval is not None and interval[0] > bar}

    def _sorted(self, arms: Sequence[int]) -> list[int]:
        return sorted(arms, key=lambda arm: (level(self.samples[arm]) if self.samples[arm] else math.inf, arm))

"""The stopping rule: the number of launches to time, as a pure function of the samples so far.

The worker only launches and returns raw nanoseconds. This module makes every decision, so they can be tested without a
kernel and replayed from the samples of a record.

Kernels timed one after the other run under different conditions (clock, temperature, neighbours). If they take turns,
they share every disturbance. Each round runs every side once, in a rotation drawn from the seed. The next round uses the
mirrored order (ABBA, or ABCCBA), so no kernel always runs first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.stats import median, median_interval, ratio_interval, relative_width


class StopReason(StrEnum):
    """The reason why sampling ended."""

    CONVERGED = "converged"
    """The 95 % interval of the median is narrower than requested."""
    BUDGET = "budget"
    """The time budget is used up, and there are the fewest samples that are wanted."""
    MAX_TIME = "max_time"
    """The longest time is used up, with fewer samples than wanted."""
    MAX_SAMPLES = "max_samples"
    """The number of samples reached its limit."""
    INTERRUPTED = "interrupted"
    """Something else ended the run (the row's timeout, Ctrl-C) before the rule did."""
    SINGLE = "single"
    """One launch was requested (``fmha run``)."""


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy:
    """When to stop.

    Attributes:
        min_samples: number of counted samples before the interval is checked, and before the budget counts (6 is the
            least that has an interval).
        max_samples: the most counted samples.
        budget_ns: time for warm-up and samples together, if there are enough samples.
        max_ns: the longest time for both, however few samples there are. One is taken even if it takes longer.
        rel_ci: stop when the 95 % interval of the median is narrower than this share of the median.
        warmup_min: the fewest launches before the first counted one.
        warmup_max: the most launches before the first counted one.
        settle: warm-up ends when the last ``SETTLED`` launches are within this share above the fastest one.
        growth: factor between the sample counts of two successive checks.
        batch_ns: the longest predicted time of one batch, which keeps progress and Ctrl-C responsive.
    """

    min_samples: int = 10
    max_samples: int = 1000
    budget_ns: int = 2_000_000_000
    max_ns: int = 30_000_000_000
    rel_ci: float = 0.02
    warmup_min: int = 3
    warmup_max: int = 50
    settle: float = 0.10
    growth: float = 1.5
    batch_ns: int = 200_000_000

    def __post_init__(self) -> None:
        sane = 1 <= self.min_samples <= self.max_samples and 0 <= self.warmup_min <= self.warmup_max
        if not (
            sane
            and self.budget_ns > 0
            and self.max_ns > 0
            and self.rel_ci >= 0
            and self.growth > 1
            and self.batch_ns > 0
        ):
            raise ValueError(f"a sampling policy that contradicts itself: {self}")

    def limit_ns(self, counted: int) -> int:
        """The time that is allowed with so many counted samples."""
        return self.max_ns if counted < self.min_samples else min(self.budget_ns, self.max_ns)

    def timeout(self, counted: int, spent_ns: int) -> StopReason | None:
        """Which limit of the time is reached, if any."""
        if spent_ns < self.limit_ns(counted):
            return None
        return StopReason.MAX_TIME if spent_ns >= self.max_ns else StopReason.BUDGET

    def room_ns(self, counted: int, spent_ns: int) -> int:
        """The time that the next batch may take."""
        return min(self.batch_ns, self.limit_ns(counted) - spent_ns)


SETTLED = 3
"""Number of consecutive launches that must agree before a kernel counts as warm."""

_WARMUP_SHARE = 5
"""Warm-up ends when it has used a fifth of the budget, or of the longest time if that is shorter."""


@dataclass(frozen=True)
class Sampler:
    """The rule of one policy over the samples so far, warm-up launches included, in the order taken.

    ``spent_ns`` is the wall time so far where it differs from the sum of the samples (cold timing also
    evicts the caches between launches).
    """

    policy: SamplingPolicy = SamplingPolicy()

    def warmup(self, samples: Sequence[int]) -> int | None:
        """How many leading launches are warm-up, or None while the kernel is not warm.

        Warm-up also ends after a fifth of the budget. A launch that alone exceeds the longest time is counted, so even
        the slowest kernel gets a time.
        """
        rule = self.policy
        if rule.warmup_max == 0:
            return 0
        fastest = spent = 0
        for done, sample in enumerate(samples, 1):
            fastest = min(fastest or sample, sample)
            spent += sample
            if done >= rule.warmup_max or spent * _WARMUP_SHARE >= min(rule.budget_ns, rule.max_ns):
                return done - 1 if spent >= rule.max_ns else done
            last = samples[max(0, done - SETTLED) : done]
            if done >= max(rule.warmup_min, SETTLED) and max(last) <= fastest * (1 + rule.settle):
                return done
        return None

    def counted(self, samples: Sequence[int]) -> tuple[int, ...]:
        """The samples after warm-up; all of them while still warming up."""
        return tuple(samples[self.warmup(samples) or 0 :])

    def stop(self, samples: Sequence[int], spent_ns: int | None = None) -> StopReason | None:
        """Why to stop here, or None to continue."""
        warm = self.warmup(samples)
        kept = self.counted(samples)
        if warm is None or not kept:
            return None
        if len(kept) >= self.policy.min_samples and relative_width(kept) <= self.policy.rel_ci:
            return StopReason.CONVERGED
        if len(kept) >= self.policy.max_samples:
            return StopReason.MAX_SAMPLES
        return self.policy.timeout(len(kept), sum(samples) if spent_ns is None else spent_ns)

    def next_batch(self, samples: Sequence[int], spent_ns: int | None = None) -> int:
        """The number of launches to make next; 0 = stop.

        Counts grow geometrically, so the interval is checked only a few times. A batch fits what is left
        of the budget and of ``batch_ns``, and has at least 1 launch.
        """
        if self.stop(samples, spent_ns) is not None:
            return 0
        rule = self.policy
        warm = self.warmup(samples)
        if warm is None:
            wanted = rule.warmup_min - len(samples) if len(samples) < rule.warmup_min else 1
            return max(1, min(wanted, self._fitting(samples, spent_ns, 0)))
        count = len(samples) - warm
        target = min(rule.max_samples, rule.min_samples if count < rule.min_samples else int(count * rule.growth) + 1)
        return max(1, min(target - count, self._fitting(samples, spent_ns, count)))

    def _fitting(self, samples: Sequence[int], spent_ns: int | None, counted: int) -> int:
        if not samples:
            return 1
        each = max(1, median(samples), 0 if spent_ns is None else spent_ns // len(samples))
        return self.policy.room_ns(counted, sum(samples) if spent_ns is None else spent_ns) // each


OUTLIER_MADS = 14.826
"""A sample this many median absolute deviations from the median is an outlier: ten standard deviations of a
normal distribution. Source: sharkdp/hyperfine, ``src/outlier_detection.rs``, ``OUTLIER_THRESHOLD``."""

_DRIFT_MIN = 20
_DRIFT = 0.05


def sanity_notes(samples: Sequence[int]) -> tuple[str, ...]:
    """Warnings about the median: outliers, and a drift during the run."""
    notes = []
    if samples:
        middle = median(samples)
        spread = median([abs(s - middle) for s in samples])
        far = [s for s in samples if spread and abs(s - middle) > OUTLIER_MADS * spread]
        if far:
            farthest = max(far, key=lambda sample: abs(sample - middle)) / max(1, middle)
            are = "is an outlier" if len(far) == 1 else "are outliers"
            extreme = f"{'slowest' if farthest > 1 else 'fastest'} {farthest:.{1 if farthest > 1 else 2}f}x the median"
            notes.append(f"{len(far)} of {len(samples)} samples {are} ({extreme})")
    if len(samples) >= _DRIFT_MIN:
        third = len(samples) // 3
        first, last = samples[:third], samples[-third:]
        a, b = median_interval(first), median_interval(last)
        change = median(last) / max(1, median(first)) - 1
        if a and b and abs(change) > _DRIFT and (a[1] < b[0] or b[1] < a[0]):
            notes.append(f"times drifted by {change:+.0%} during the run: the machine was busy or throttled")
    return tuple(notes)


Order = tuple[int, ...]
"""The order of one round: (0, 1) runs A first."""


def orders(rounds: int, seed: int = 0, start: int = 0, sides: int = 2) -> tuple[Order, ...]:
    """The orders of ``rounds`` rounds from number ``start`` on; the same for the same seed."""
    draw = random.Random(seed)
    out: list[Order] = []
    while len(out) < start + rounds:
        first = draw.randrange(sides)
        order = tuple((first + place) % sides for place in range(sides))
        out += [order, order[::-1]]
    return tuple(out[start : start + rounds])


@dataclass(frozen=True)
class AbSampler:
    """The stopping rule of sides that take turns, over their samples so far (equal counts, in rounds).

    Warm-up lasts until all sides are warm. Sampling stops if the interval of each side's ratio to the first is narrower
    than ``rel_ci`` of the ratio, or if all sides together reach a limit of ``Sampler``.
    """

    policy: SamplingPolicy = field(default_factory=SamplingPolicy)

    def warmup(self, *sides: Sequence[int]) -> int | None:
        """How many leading rounds are warm-up, or None while one side is not warm."""
        each = [Sampler(self.policy).warmup(side) for side in sides]
        return None if None in each else max(n or 0 for n in each)

    def stop(self, *sides: Sequence[int], spent_ns: int | None = None) -> StopReason | None:
        """Why to stop here, or None to continue.

        Raises:
            ValueError: sides of unequal counts.
        """
        counts = [len(side) for side in sides]
        if len(set(counts)) > 1:
            raise ValueError(f"rounds of unequal counts: {' and '.join(map(str, counts))}")
        warm = self.warmup(*sides)
        if warm is None or warm >= counts[0]:
            return None
        count = counts[0] - warm
        if count >= self.policy.min_samples:
            ratios = [ratio_interval(sides[0][warm:], other[warm:], paired=True) for other in sides[1:]]
            if all(ends is not None and ends[1] - ends[0] <= self.policy.rel_ci * ends[0] for ends in ratios):
                return StopReason.CONVERGED
        if count >= self.policy.max_samples:
            return StopReason.MAX_SAMPLES
        return self.policy.timeout(count, _total(sides) if spent_ns is None else spent_ns)

    def next_rounds(self, *sides: Sequence[int], spent_ns: int | None = None) -> int:
        """How many rounds to run next; 0 = stop. Grows like ``Sampler.next_batch``."""
        if self.stop(*sides, spent_ns=spent_ns) is not None:
            return 0
        done = len(sides[0])
        if not done:
            return 1
        rule, warm = self.policy, self.warmup(*sides)
        count = 0 if warm is None else done - warm
        wanted = 1 if warm is None else max(rule.min_samples, int(count * rule.growth) + 1) - count
        spent = _total(sides) if spent_ns is None else spent_ns
        fitting = rule.room_ns(count, spent) // max(1, sum(map(median, sides)))
        return max(1, min(wanted, fitting, rule.max_samples - count))


def _total(sides: Sequence[Sequence[int]]) -> int:
    return sum(map(sum, sides))


def ab_ratios(a: Sequence[int], b: Sequence[int], names: tuple[str, str]) -> tuple[Ratio, Ratio]:
    """A against B for A's record, and B against A for B's, from the counted rounds."""
    return Ratio.of(a, b, against=names[1], paired=True), Ratio.of(b, a, against=names[0], paired=True)

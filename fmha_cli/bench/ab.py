"""Interleaved timing: which kernel runs next, when to stop, and the result.

Kernels timed one after the other run under different conditions (clock, temperature, neighbours). If they take turns,
they share every disturbance. Each round runs every side once, in a rotation drawn from the seed. The next round uses the
mirrored order (ABBA, or ABCCBA), so no kernel always runs first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.sampling import Sampler, SamplingPolicy, StopReason
from fmha_cli.bench.stats import median, ratio_interval

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

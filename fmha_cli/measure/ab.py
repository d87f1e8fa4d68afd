"""Interleaved A/B timing: which kernel runs next, when to stop, and the result.

Two kernels timed one after the other run under different conditions (clock, temperature, neighbours). If they take
turns, they share every disturbance. Each round runs both once, in an order drawn from the seed. The next round uses the
mirrored order (ABBA), so neither kernel always runs first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from fmha_cli.measure.compare import Ratio
from fmha_cli.measure.sampling import Sampler, SamplingPolicy, StopReason
from fmha_cli.measure.stats import median, ratio_interval

Order = tuple[int, int]
"""The order of one round: (0, 1) runs A first."""


def orders(rounds: int, seed: int = 0, start: int = 0) -> tuple[Order, ...]:
    """The orders of ``rounds`` rounds from number ``start`` on; the same for the same seed."""
    draw = random.Random(seed)
    out: list[Order] = []
    while len(out) < start + rounds:
        first = draw.randrange(2)
        out += [(first, 1 - first), (1 - first, first)]
    return tuple(out[start : start + rounds])


@dataclass(frozen=True)
class AbSampler:
    """The stopping rule of an A/B run, over the samples of both sides so far (equal counts, in rounds).

    Warm-up lasts until both sides are warm. Sampling stops if the interval of the ratio is narrower than ``rel_ci`` of
    the ratio, or if both sides together reach a limit of ``Sampler``.
    """

    policy: SamplingPolicy = field(default_factory=SamplingPolicy)

    def warmup(self, a: Sequence[int], b: Sequence[int]) -> int | None:
        """How many leading rounds are warm-up, or None while one side is not warm."""
        each = [Sampler(self.policy).warmup(side) for side in (a, b)]
        return None if None in each else max(n or 0 for n in each)

    def stop(self, a: Sequence[int], b: Sequence[int], spent_ns: int | None = None) -> StopReason | None:
        """Why to stop here, or None to continue.

        Raises:
            ValueError: sides of unequal counts.
        """
        if len(a) != len(b):
            raise ValueError(f"rounds of unequal counts: {len(a)} and {len(b)}")
        warm = self.warmup(a, b)
        if warm is None or warm >= len(a):
            return None
        count = len(a) - warm
        if count >= self.policy.min_samples:
            ends = ratio_interval(a[warm:], b[warm:], paired=True)
            if ends is not None and ends[1] - ends[0] <= self.policy.rel_ci * ends[0]:
                return StopReason.CONVERGED
        if count >= self.policy.max_samples:
            return StopReason.MAX_SAMPLES
        spent = sum(a) + sum(b) if spent_ns is None else spent_ns
        return self.policy.timeout(count, spent)

    def next_rounds(self, a: Sequence[int], b: Sequence[int], spent_ns: int | None = None) -> int:
        """How many rounds to run next; 0 = stop. Grows like ``Sampler.next_batch``."""
        if self.stop(a, b, spent_ns) is not None:
            return 0
        if not a:
            return 1
        rule, warm = self.policy, self.warmup(a, b)
        count = 0 if warm is None else len(a) - warm
        wanted = 1 if warm is None else max(rule.min_samples, int(count * rule.growth) + 1) - count
        spent = sum(a) + sum(b) if spent_ns is None else spent_ns
        fitting = rule.room_ns(count, spent) // max(1, median(a) + median(b))
        return max(1, min(wanted, fitting, rule.max_samples - count))


def ab_ratios(a: Sequence[int], b: Sequence[int], names: tuple[str, str]) -> tuple[Ratio, Ratio]:
    """A against B for A's record, and B against A for B's, from the counted rounds."""
    return Ratio.of(a, b, against=names[1], paired=True), Ratio.of(b, a, against=names[0], paired=True)

"""``Ratio``: one time compared with another, with an interval and a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fmha_cli.bench.stats import median, median_interval, ratio_interval
from fmha_cli.domain.members import Count, Then

TOLERANCE = 0.02
"""A smaller difference counts as none, however certain it is. Sampling stops at the same share."""


class Speed(StrEnum):
    """The result of comparing this time with the other one."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """Any difference is below the tolerance."""
    UNSURE = "unsure"
    """The interval holds both "the same" and a difference."""


@dataclass(frozen=True, kw_only=True)
class Regret:
    """The cost of the default choice: its median / the best median - 1.

    Attributes:
        ci95: bootstrap interval, (0, 0) where the default is the best; None for fewer than 6 samples on a side.
    """

    value: float
    ci95: tuple[float, float] | None

    @staticmethod
    def of(default: Sequence[int], others: Sequence[Sequence[int]]) -> Regret:
        """The regret of the default's samples against the best of the other kernels, in nanoseconds."""
        best = min((default, *others), key=median)
        if best is default:
            return Regret(value=0.0, ci95=None if median_interval(default) is None else (0.0, 0.0))
        ends = ratio_interval(default, best, paired=False)
        value = median(default) / max(1, median(best)) - 1
        return Regret(value=value, ci95=None if ends is None else (ends[0] - 1, ends[1] - 1))


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """This median / the other median: above 1 is slower.

    Attributes:
        against: the name of the other one (a kernel, a file).
        median_ns: the median of the other one.
        ratio_ci95: bootstrap interval; None for fewer than 6 samples on a side.
    """

    against: str
    median_ns: Count
    ratio: Annotated[float, "this median / the other one"]
    ratio_ci95: tuple[float, float] | None
    paired: Annotated[bool, Then("speed"), "taken in the same interleaved rounds"]
    tolerance: float = TOLERANCE

    @staticmethod
    def of(
        mine: Sequence[int], other: Sequence[int], *, against: str, paired: bool, tolerance: float = TOLERANCE
    ) -> Ratio:
        """The ratio of two lists of samples in nanoseconds."""
        return Ratio(
            against=against,
            median_ns=median(other),
            ratio=median(mine) / max(1, median(other)),
            ratio_ci95=ratio_interval(mine, other, paired=paired),
            paired=paired,
            tolerance=tolerance,
        )

    @property
    def speed(self) -> Speed:
        """The verdict; unsure where the interval is missing."""
        if self.ratio_ci95 is None:
            return Speed.UNSURE
        low, high = self.ratio_ci95
        slow, fast = 1 + self.tolerance, 1 / (1 + self.tolerance)
        if low > slow:
            return Speed.SLOWER
        if high < fast:
            return Speed.FASTER
        return Speed.SAME if fast <= low and high <= slow else Speed.UNSURE

    @property
    def text(self) -> str:
        """One line for people: ``1.31x slower (1.28-1.35) than X``."""
        if self.speed in (Speed.SAME, Speed.UNSURE):
            shown = "" if self.ratio_ci95 is None else f", {self.ratio_ci95[0]:.3f}-{self.ratio_ci95[1]:.3f}"
            words = {Speed.SAME: "the same speed", Speed.UNSURE: "no sure difference"}
            return f"{words[self.speed]} as {self.against} (time ratio {self.ratio:.3f}{shown})"
        low, high = self.ratio_ci95 or (self.ratio, self.ratio)
        ends = (inverse(high), inverse(low)) if self.speed is Speed.FASTER else (low, high)
        return f"{in_words(self.speed, self.ratio)} ({ends[0]:.2f}-{ends[1]:.2f}) than {self.against}"


def in_words(speed: Speed, ratio: float) -> str:
    """A verdict with its factor, which is above 1 in either direction: ``1.14x faster``, ``1.30x slower``."""
    match speed:
        case Speed.FASTER:
            return f"{inverse(ratio):.2f}x faster"
        case Speed.SLOWER:
            return f"{ratio:.2f}x slower"
        case Speed.SAME:
            return "same speed"
    return f"unsure ({ratio:.2f}x the time)"


def inverse(ratio: float) -> float:
    """How many times as fast a ratio of times is; infinite for no time at all."""
    return 1 / ratio if ratio else float("inf")

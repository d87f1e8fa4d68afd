"""``Ratio``: one time against another, with an interval and a verdict in words; and the regret of a choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fmha_cli.measure.stats import median, ratio_interval

TOLERANCE = 0.02
"""A difference of less than this counts as none, however sure: the same share at which sampling stops."""


class Speed(StrEnum):
    """How this time compares with the other one."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """Any difference is below the tolerance."""
    UNSURE = "unsure"
    """The interval holds both "the same" and a difference."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """This median / the other median: above 1 is slower.

    Attributes:
        against: what the other one is (a kernel's name, a file).
        median_ns: of the other one.
        ratio_ci95: bootstrap interval, None for fewer than 6 samples on a side.
        paired: both were taken in the same interleaved rounds.
    """

    against: str
    median_ns: int
    ratio: float
    ratio_ci95: tuple[float, float] | None
    paired: bool
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
        words = {Speed.SAME: "the same speed", Speed.UNSURE: "no sure difference"}
        if self.speed in words:
            shown = "" if self.ratio_ci95 is None else f", {self.ratio_ci95[0]:.3f}-{self.ratio_ci95[1]:.3f}"
            return f"{words[self.speed]} as {self.against} (time ratio {self.ratio:.3f}{shown})"
        faster = self.speed is Speed.FASTER
        factor = 1 / self.ratio if faster else self.ratio
        low, high = self.ratio_ci95 or (self.ratio, self.ratio)
        ends = (1 / high, 1 / low) if faster else (low, high)
        return f"{factor:.2f}x {self.speed.value} ({ends[0]:.2f}-{ends[1]:.2f}) than {self.against}"

    def to_dict(self) -> dict[str, Any]:
        """The ``baseline`` or ``ab`` member of a record."""
        return {
            "against": self.against,
            "median_ns": self.median_ns,
            "paired": self.paired,
            "ratio": self.ratio,
            "ratio_ci95": None if self.ratio_ci95 is None else list(self.ratio_ci95),
            "speed": self.speed.value,
            "tolerance": self.tolerance,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Ratio:
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError: not a ratio.
        """
        ends = data["ratio_ci95"]
        return Ratio(
            against=data["against"],
            median_ns=data["median_ns"],
            ratio=data["ratio"],
            ratio_ci95=None if ends is None else (ends[0], ends[1]),
            paired=data["paired"],
            tolerance=data["tolerance"],
        )


def regret(default_ns: int, others_ns: Iterable[int]) -> float:
    """Median of the default choice / best median of all - 1; 0 when the default is the best."""
    return default_ns / max(1, min([default_ns, *others_ns])) - 1

"""``Difference``: the difference of two sides of several processes each, and whether it is sure.

A row is slower or faster if the exact test over its processes finds a difference that survives the correction for all rows,
and if the difference is larger than the tolerance. It is the same if the whole bootstrap interval is within the tolerance.
Otherwise it is unsure, and ``could_see`` states the smallest difference that the data would have shown.

``Against`` is the difference of a row that was just timed from the same row of an earlier run, as its record has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fmha_cli.bench.compare import TOLERANCE, Speed
from fmha_cli.bench.processes import LEAST_SAMPLES, ProcessSide
from fmha_cli.bench.ranks import ALPHA, FEWEST_PROCESSES, adjusted, holm, two_sided
from fmha_cli.bench.stats import CONFIDENCE, median, quantile
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.members import Count

if TYPE_CHECKING:
    from numpy.typing import NDArray


PLANTED = tuple(
    share / 1000 for share in (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 100, 120, 150, 200, 250, 300, 400, 600, 1000)
)
"""The slow-downs that are tried for ``could_see``."""

SUSPICIOUS = 0.20
"""Up to this p value, uncorrected, a difference beyond the tolerance is worth another look with fresh processes."""


@dataclass(frozen=True, kw_only=True)
class SureRule:
    """When a difference is sure.

    Attributes:
        tolerance: a smaller difference counts as none, however certain it is.
        alpha: share of false ones among the sure differences, or the chance of any (``any_false``).
        interleaved: whether the processes of the two sides took turns. If not, the movement between the runs adds to
            the tolerance (``drift``).
        family: number of rows that are tested, where only some of them are at hand: then p values are multiplied by it
            (Bonferroni), which is never less strict.
        any_false: bound the chance that there is any false one among the sure differences (Holm), not their share (Benjamini and
            Hochberg). Where many rows are truly slower, a share lets some others be called slower too.
    """

    tolerance: float = TOLERANCE
    alpha: float = ALPHA
    interleaved: bool = True
    family: int | None = None
    any_false: bool = False


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two sides compared.

    Attributes:
        before_ns, after_ns: the median over the processes of their 10 % quantiles; None without a process.
        spread: the share that the processes of the more uneven side differ by.
        drift: how far, as a share, the machine may have moved between the sides, which adds to the tolerance; None if
            they took turns.
        p: of the exact test; None with too few processes.
        p_adjusted: corrected for all rows.
        could_see: the least slow-down that these data would have shown; None if none would have.
        suspicious: whether fresh processes might make the difference sure.
        why: the obstacle to being sure, for an unsure row.
    """

    processes_before: Annotated[Count, "that count: with at least 10 samples"]
    processes_after: Count
    before_ns: Annotated[float | None, "median over the processes of their 10 % quantiles"]
    after_ns: float | None
    ratio: Annotated[float | None, "after_ns / before_ns: above 1 is slower"]
    ratio_ci95: Annotated[tuple[float, float] | None, "hierarchical bootstrap: processes, then samples within them"]
    spread: Annotated[float, "by what share the processes of the more uneven side differ"]
    drift: Annotated[float | None, "what the machine may have moved between the sides; null: they took turns"]
    p: Annotated[float | None, "exact Mann-Whitney test over the processes; null: too few of them"]
    p_adjusted: Annotated[
        float | None, "corrected over all rows (Benjamini and Hochberg), or over those that were run again (Holm)"
    ]
    could_see: Annotated[float | None, "the least slow-down that these data would have shown; null: none"]
    suspicious: Annotated[bool, "fresh processes might make it sure: it is beyond the tolerance, and p is low"]
    speed: Speed
    why: Annotated[str | None, "what keeps an unsure row from being sure"]


@dataclass(frozen=True)
class SidePair:
    """The two sides of one row."""

    before: ProcessSide
    after: ProcessSide

    @property
    def testable(self) -> bool:
        """Whether both sides have enough processes."""
        return min(len(self.before.processes), len(self.after.processes)) >= FEWEST_PROCESSES

    @property
    def both(self) -> bool:
        """Whether both sides have times."""
        return bool(self.before.processes and self.after.processes)

    @property
    def shift(self) -> float:
        """Logarithm of the ratio."""
        return self.after.middle - self.before.middle

    @property
    def drift(self) -> float:
        """Logarithm of the machine's possible movement between the sides: the movement of either side by itself, or of
        the machine's own best rate.
        """
        rates = (self.before.ceiling, self.after.ceiling)
        moved = abs(math.log(rates[1] / rates[0])) if rates[0] and rates[1] else 0.0
        return max(self.before.wander, self.after.wander, moved)

    def draws(self, row: int) -> NDArray[Any]:
        """Bootstrap draws of ``shift``."""
        drawn: NDArray[Any] = self.after.resampled(1, row) - self.before.resampled(0, row)
        return drawn


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer of the test for one row.

    Attributes:
        p, p_adjusted: of the exact test, and corrected for all rows; None with too few processes.
        least: the p value that one more row would need.
        drift: logarithm of the machine's possible movement between the sides; 0 if they took turns.
        sure: the difference, if it is one and sure.
        suspicious: whether fresh processes might make it sure.
    """

    p: float | None
    p_adjusted: float | None
    least: float
    drift: float
    sure: Speed | None
    suspicious: bool


def decided(pairs: Sequence[SidePair], rule: SureRule) -> tuple[Decision, ...]:
    """Which rows differ surely, corrected over all that have enough processes."""
    p_values = [two_sided(pair.before.levels, pair.after.levels) if pair.testable else None for pair in pairs]
    tested = [p for p in p_values if p is not None]
    many = rule.family or len(tested)
    correct = holm if rule.any_false else adjusted
    corrected = iter(correct(tested) if rule.family is None else [min(1.0, p * many) for p in tested])
    p_adjusted = [None if p is None else next(corrected) for p in p_values]
    found = sum(p is not None and p <= rule.alpha for p in p_adjusted) if rule.family is None else 0
    least = rule.alpha / max(1, many - found) if rule.any_false else rule.alpha * min(many, found + 1) / max(1, many)
    return tuple(
        _decided(pair, p, corrected_p, least, rule)
        for pair, p, corrected_p in zip(pairs, p_values, p_adjusted, strict=True)
    )


def _decided(pair: SidePair, p: float | None, p_adjusted: float | None, least: float, rule: SureRule) -> Decision:
    drift = 0.0 if rule.interleaved or not pair.both else pair.drift
    beyond = math.log1p(rule.tolerance)
    sure = None
    if p_adjusted is not None and p_adjusted <= rule.alpha and abs(pair.shift) > beyond + drift:
        sure = Speed.SLOWER if pair.shift > 0 else Speed.FASTER
    suspicious = p is not None and p <= SUSPICIOUS and abs(pair.shift) > beyond
    return Decision(p=p, p_adjusted=p_adjusted, least=least, drift=drift, sure=sure, suspicious=suspicious)


def judged(pairs: Sequence[SidePair], rule: SureRule) -> tuple[Difference, ...]:
    """The difference of each row, with its interval and what it could have shown."""
    return tuple(
        _judged(pair, row, decision, rule)
        for row, (pair, decision) in enumerate(zip(pairs, decided(pairs, rule), strict=True))
    )


def _judged(pair: SidePair, row: int, decision: Decision, rule: SureRule) -> Difference:
    before, after, within = pair.before, pair.after, math.log1p(rule.tolerance)
    ends, speed, sight = None, decision.sure or Speed.UNSURE, None
    if decision.p is not None:
        draws = pair.draws(row).tolist()
        ends = (quantile(draws, (1 - CONFIDENCE) / 2), quantile(draws, (1 + CONFIDENCE) / 2))
        sight = _could_see(pair, decision.least, within + decision.drift)
        if decision.sure is None and max(abs(ends[0]), abs(ends[1])) + decision.drift <= within:
            speed = Speed.SAME
    return Difference(
        processes_before=len(before.processes),
        processes_after=len(after.processes),
        before_ns=math.exp(before.middle) if before.processes else None,
        after_ns=math.exp(after.middle) if after.processes else None,
        ratio=math.exp(pair.shift) if pair.both else None,
        ratio_ci95=None if ends is None else (math.exp(ends[0]), math.exp(ends[1])),
        spread=max(before.spread, after.spread),
        drift=None if rule.interleaved else math.exp(decision.drift) - 1,
        p=decision.p,
        p_adjusted=decision.p_adjusted,
        could_see=sight,
        suspicious=decision.suspicious,
        speed=speed,
        why=_why(pair, decision.drift) if speed is Speed.UNSURE else None,
    )


def _could_see(pair: SidePair, least: float, beyond: float) -> float | None:
    """The least planted slow-down that the rule finds in the two sides after their difference is removed."""
    alike = [level - pair.shift for level in pair.after.levels]
    for share in PLANTED:
        factor = math.log1p(share)
        if factor > beyond and two_sided(pair.before.levels, [level + factor for level in alike]) <= least:
            return share
    return None


def _why(pair: SidePair, drift: float) -> str:
    """The obstacles to a sure row, the gravest first."""
    fewest = min(len(pair.before.processes), len(pair.after.processes))
    if not pair.testable:
        short = max(pair.before.short, pair.after.short)
        less = f", {short} more with fewer than {LEAST_SAMPLES} samples" if short else ""
        return f"{fewest} of {FEWEST_PROCESSES} processes{less}"
    spread = max(pair.before.spread, pair.after.spread)
    if drift > spread:
        return f"the machine moved by {math.expm1(drift) * 100:.0f} %"
    return f"processes differ by {spread * 100:.0f} %"


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The geometric mean of the ratios of several rows.

    Attributes:
        ratio_ci95: bootstrap interval, in which rows of one run draw the same processes, because they ran in them together.
    """

    rows: Count
    ratio: Annotated[float, "geometric mean of the rows' ratios"]
    ratio_ci95: tuple[float, float]


def mean_of(pairs: Sequence[SidePair]) -> Mean:
    """The mean of rows that can be tested.

    Raises:
        ValueError: no rows.
    """
    if not pairs:
        raise ValueError("the mean of no rows")
    drawn = pairs[0].draws(0)
    for row, pair in enumerate(pairs[1:], 1):
        drawn = drawn + pair.draws(row)
    shift = sum(pair.shift for pair in pairs) / len(pairs)
    ends = [math.exp(quantile((drawn / len(pairs)).tolist(), q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)]
    return Mean(rows=len(pairs), ratio=math.exp(shift), ratio_ci95=(ends[0], ends[1]))


@dataclass(frozen=True, kw_only=True)
class Against:
    """This row's time compared with that of an earlier run, by the rule of ``Difference``.

    Attributes:
        against: the file of the earlier run.
        median_ns: the median of the earlier run.
        ratio: of the processes' 10 % quantiles; of the medians where no process has enough samples.
        processes, other_processes: that count; None in rows that an earlier version compared by their samples.
    """

    against: str
    median_ns: Count
    ratio: Annotated[float, "this row's time / the other one's"]
    ratio_ci95: Annotated[tuple[float, float] | None, "hierarchical bootstrap: processes, then samples within them"]
    paired: Annotated[bool, "taken in the same interleaved rounds"] = False
    tolerance: float
    processes: Annotated[Count | None, "of this row; null: compared by its samples, as earlier versions did"] = None
    other_processes: Count | None = None
    p_adjusted: Annotated[float | None, "of the exact test, times the number of rows"] = None
    drift: Annotated[float | None, "what the machine may have moved meanwhile, which adds to the tolerance"] = None
    could_see: Annotated[float | None, "the least slow-down that these data would have shown; null: none"] = None
    speed: Speed
    why: Annotated[str | None, "what keeps an unsure row from being sure"] = None

    @staticmethod
    def of(mine: Sequence[Sequence[int]], other: Sequence[Sequence[int]], *, against: str, rule: SureRule) -> Against:
        """The comparison of the samples of each process, in nanoseconds.

        Raises:
            ValueError: a side has no samples.
        """
        (found,) = judged([SidePair(ProcessSide.of(other), ProcessSide.of(mine))], rule)
        middles = [median([ns for process in side for ns in process]) for side in (mine, other)]
        return taken_from(
            found,
            Against,
            against=against,
            median_ns=middles[1],
            ratio=middles[0] / max(1, middles[1]) if found.ratio is None else found.ratio,
            paired=False,
            tolerance=rule.tolerance,
            processes=found.processes_after,
            other_processes=found.processes_before,
        )

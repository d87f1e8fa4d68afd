"""``Against``: a row that was just timed, compared with the same row of an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import SidePair, SureRule, judged
from fmha_cli.bench.processes import ProcessSide
from fmha_cli.bench.stats import median
from fmha_cli.domain.members import Count


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
        return Against(
            against=against,
            median_ns=middles[1],
            ratio=middles[0] / max(1, middles[1]) if found.ratio is None else found.ratio,
            ratio_ci95=found.ratio_ci95,
            tolerance=rule.tolerance,
            processes=found.processes_after,
            other_processes=found.processes_before,
            p_adjusted=found.p_adjusted,
            drift=found.drift,
            could_see=found.could_see,
            speed=found.speed,
            why=found.why,
        )

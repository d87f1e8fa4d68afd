"""``ProcessSide``: the times of one row in several processes, which are the units of a comparison.

Two processes differ by more than the samples of one do: memory placement, clock and neighbours stay the same within a
process. Each process therefore counts once, by the logarithm of its 10 % quantile. A low quantile leaves out interruptions,
which are the largest part of the noise on a shared machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fmha_cli.bench.stats import RESAMPLES, quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.10
"""The quantile that stands for a process."""

LEAST_SAMPLES = 10
"""A process with fewer samples does not count: its quantile would be hardly more than its fastest sample."""


LEAST_PART = 2
"""The fewest processes of a part; one slow process is no shift."""


def split(samples_ns: Sequence[int], process_of_sample: Sequence[int] | None) -> tuple[tuple[int, ...], ...]:
    """The samples of each process, in the order in which the processes began; without numbers there is one process."""
    if process_of_sample is None:
        return (tuple(samples_ns),)
    found: dict[int, list[int]] = {}
    for sample, process in zip(samples_ns, process_of_sample, strict=True):
        found.setdefault(process, []).append(sample)
    return tuple(map(tuple, found.values()))


@dataclass(frozen=True)
class ProcessSide:
    """One side of a comparison.

    Attributes:
        processes: the samples of each process that counts, in nanoseconds; the processes in the order in which they ran.
        short: number of processes with too few samples.
        ceiling: the machine's best rate around the launches, the median over the processes; None if it was not
            measured.
    """

    processes: tuple[tuple[int, ...], ...]
    short: int = 0
    ceiling: float | None = None

    @staticmethod
    def of(processes: Iterable[Sequence[int]], ceilings: Sequence[float] = ()) -> ProcessSide:
        """The side of all processes, of which those with too few samples are only counted."""
        every = [tuple(process) for process in processes]
        enough = tuple(process for process in every if len(process) >= LEAST_SAMPLES)
        return ProcessSide(enough, len(every) - len(enough), quantile(ceilings, 0.5) if ceilings else None)

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """Logarithm of each process's 10 % quantile in nanoseconds."""
        return tuple(math.log(max(1.0, quantile(process, LEVEL))) for process in self.processes)

    @property
    def middle(self) -> float:
        """Median of the levels.

        Raises:
            ValueError: no process.
        """
        return quantile(self.levels, 0.5)

    @property
    def spread(self) -> float:
        """How much slower, as a share, the slowest process is than the fastest."""
        return math.exp(max(self.levels) - min(self.levels)) - 1 if self.levels else 0.0

    @property
    def wander(self) -> float:
        """How far the levels moved while the side ran.

        A step is the largest distance between the medians of two parts. For a steady drift it is the distance between the
        halves, doubled, because the middles of two successive runs lie twice as far apart as those of the halves of one.
        """
        count = len(self.levels)
        steps = [self._step(at) for at in range(LEAST_PART, count - LEAST_PART + 1)]
        return max([*steps, 2 * self._step(count // 2, count - count // 2)], default=0.0) if steps else 0.0

    def _step(self, end: int, start: int | None = None) -> float:
        """Distance between the medians of the first processes up to ``end`` and of those from ``start`` on."""
        later = self.levels[end if start is None else start :]
        return abs(quantile(later, 0.5) - quantile(self.levels[:end], 0.5))

    def resampled(self, stream: int, row: int) -> NDArray[Any]:
        """The medians of ``RESAMPLES`` hierarchical bootstrap samples: processes are drawn first, then samples within them.

        Args:
            stream: rows with one stream draw the same processes, because they ran in them together.
            row: gives each row samples of its own.
        """
        import numpy as np  # slow to import, and most documents need none

        counts = np.array([len(process) for process in self.processes])
        ordered = np.zeros((len(counts), counts.max()))
        for place, process in enumerate(self.processes):
            ordered[place, : len(process)] = sorted(process)
        chosen = np.random.default_rng([stream]).integers(len(counts), size=(RESAMPLES, len(counts)))
        draw = np.random.default_rng([stream, row])
        count = counts[chosen]
        at = LEVEL * (count - 1)
        low = np.floor(at).astype(int)  # from 0, so it is order statistic low + 1
        # An order statistic of a bootstrap sample is the value at a uniform order statistic, which has a beta distribution;
        # the next one divides the remainder (David and Nagaraja, section 2.5).
        first = draw.beta(low + 1, count - low)
        second = 1 - (1 - first) * draw.random(first.shape) ** (1 / (count - low - 1))
        ends = [ordered[chosen, np.minimum((u * count).astype(int), count - 1)] for u in (first, second)]
        level = ends[0] + (ends[1] - ends[0]) * (at - low)
        medians: NDArray[Any] = np.median(np.log(np.maximum(level, 1.0)), axis=1)
        return medians

"""``Track``: the times of one row over many runs, and the runs in which they surely changed.

A run is compared with the last five before it, by the rule of ``fmha compare`` between stored runs: an exact test over processes,
corrected for the number of runs, and a difference beyond the tolerance and what the machine moved by itself. Runs of few
processes are merged with the following ones, until there are enough. After a change, what came before it counts no
more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import SidePair, SureRule, decided
from fmha_cli.bench.processes import ProcessSide
from fmha_cli.bench.ranks import FEWEST_PROCESSES, smallest_p
from fmha_cli.results.queries import TimePoint

LAST = 5
"""Runs before a run with which it is compared."""


@dataclass(frozen=True)
class SureChange:
    """A sure change.

    Attributes:
        ratio: the time from here on / the time before.
    """

    speed: Speed
    ratio: float


@dataclass(frozen=True)
class Track:
    """The times of one row.

    Attributes:
        points: in the order of the runs.
        changes: place among the points -> the change that begins there.
    """

    points: tuple[TimePoint, ...]
    changes: Mapping[int, SureChange]


def tracked(points: Sequence[TimePoint]) -> Track:
    """The track of points whose samples are at hand."""
    changes: dict[int, SureChange] = {}
    start, rule = 0, SureRule(interleaved=False, family=max(1, len(points) - 1))
    for place in range(1, len(points)):
        before = _side(points[max(start, place - LAST) : place])
        after = _enough(points, place, len(before.processes), rule)
        if after is None:
            continue
        pair = SidePair(before, after)
        (found,) = decided([pair], rule)
        if found.sure is not None:
            changes[place] = SureChange(found.sure, math.exp(pair.shift))
            start = place
    return Track(tuple(points), changes)


def _enough(points: Sequence[TimePoint], place: int, before: int, rule: SureRule) -> ProcessSide | None:
    """The processes of a run, with those of as many further runs as a sure difference needs; None if there are not enough."""
    if before < FEWEST_PROCESSES:
        return None
    for end in range(place + 1, len(points) + 1):
        side = _side(points[place:end])
        count = len(side.processes)
        if count >= FEWEST_PROCESSES and smallest_p(before, count) * (rule.family or 1) <= rule.alpha:
            return side
    return None


def _side(points: Sequence[TimePoint]) -> ProcessSide:
    return ProcessSide.of(process for point in points for process in point.processes_ns)

"""Time one case on both sides, interleaved, under the same clock, temperature and load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fmha_cli.bench.compare import Ratio
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.problem import Problem
from fmha_cli.run.events import Done, Event
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run

BUDGET_S = 0.2
"""Seconds that this tool launches in one round. The upstream program launches 5 times to warm up, then 20 times."""


@dataclass(frozen=True)
class Times:
    """Mean nanoseconds of one pass over all kernels, one entry for each round, in the order taken.

    Attributes:
        against: the name of the upstream program.
    """

    ours_ns: tuple[int, ...]
    upstream_ns: tuple[int, ...]
    against: str

    @property
    def ratio(self) -> Ratio:
        """Our median / the upstream program's: above 1, this tool is slower."""
        return Ratio.of(self.ours_ns, self.upstream_ns, against=self.against, paired=True)


def timed(
    problem: Problem, request: Request, registry: Registry, theirs: Callable[[], int], rounds: int
) -> tuple[list[int], list[int]] | None:
    """Time both sides ``rounds`` times, in the order ours, theirs, theirs, ours, ... None if the user interrupted.

    Args:
        theirs: runs the upstream program once and returns its mean nanoseconds.

    Raises:
        ValueError: a side gave no time.
    """
    ours_ns: list[int] = []
    theirs_ns: list[int] = []

    bench = replace(request, command=Command.BENCH, check=False, budget_s=BUDGET_S, peak="spec")

    def take(event: Event) -> None:
        if not isinstance(event, Done):
            return
        if event.record.measurement is None:
            raise ValueError(f"this tool did not time: {event.record.verdict.value}")
        samples = event.record.measurement.samples_ns
        ours_ns.append(sum(samples) // len(samples))
        while len(theirs_ns) < _due(len(ours_ns), rounds):
            theirs_ns.append(theirs())

    ended = Run([problem] * rounds, bench, registry).finish(take)
    return None if ended.interrupted else (ours_ns, theirs_ns)


def _due(ours: int, rounds: int) -> int:
    """How often the other side should have run after our run number ``ours``: twice after every odd one."""
    return min(rounds, ours + 1 if ours % 2 else ours)

"""Time something on a shared machine: wait for quiet, measure the load of other processes, try again.

The others' use during a sample is the machine's busy time (``/proc/stat``, stolen time included) minus this process's
own. Without ``/proc/stat``, every sample counts as quiet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.run.timing import LEAD_NS, LONG_NS

_STAT = Path("/proc/stat")
_TICK = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1
_LOOK_S = 0.1
LEAST_S = 0.06
"""The least duration of a sample, at which ticks of 10 ms are meaningful; short runs are repeated."""


@dataclass(frozen=True)
class Sample:
    """Nanoseconds of one run (mean over the sample), and the share of the machine that others used meanwhile."""

    ns: float
    others: float


@dataclass
class Clock:
    """Takes samples.

    Attributes:
        limit: the share of the machine that others may use in an accepted sample.
        tries: most samples taken for one; if none is quiet enough, the quietest one counts.
        patience: the total seconds that may be spent waiting.
        cpu: measure this process's processor time instead of wall time, without waiting. This suits a single thread on
            a machine that is never quiet. Other processes then still share caches and memory.
    """

    limit: float = 0.05
    tries: int = 5
    patience: float = 600.0
    cpu: bool = False

    def sample(self, run: Callable[[], object], repeats: int) -> Sample:
        """One sample of ``repeats`` runs. As in ``fmha bench``, the run's own launches lead it: a processor that rested, or did
        other work, is slower for some tens of milliseconds, and not for every kernel alike."""
        if self.cpu:
            start = time.process_time_ns()
            for _ in range(repeats):
                run()
            return Sample((time.process_time_ns() - start) / repeats, 0.0)
        best: Sample | None = None
        for _ in range(self.tries):
            self._wait()
            lead(run)
            busy, own, start = busy_seconds(), _own(), time.perf_counter_ns()
            for _ in range(repeats):
                run()
            elapsed = time.perf_counter_ns() - start
            others = max(0.0, (busy_seconds() - busy) - (_own() - own)) / (elapsed * 1e-9 * CPUS)
            taken = Sample(elapsed / repeats, others)
            if best is None or taken.others < best.others:
                best = taken
            if best.others <= self.limit or self.patience <= 0:
                break
        assert best is not None
        return best

    def _wait(self) -> None:
        """Wait until others have used little of the machine for a moment, or patience ends."""
        while self.patience > 0:
            busy, own, start = busy_seconds(), _own(), time.perf_counter()
            time.sleep(_LOOK_S)
            passed = time.perf_counter() - start
            if max(0.0, (busy_seconds() - busy) - (_own() - own)) / (passed * CPUS) <= 2 * self.limit:
                return
            self.patience -= passed


def lead(run: Callable[[], object]) -> None:
    """Run, uncounted, until the processor is at work; once, if a run takes long enough to hold its own slow beginning."""
    start = time.perf_counter_ns()
    run()
    if time.perf_counter_ns() - start < LONG_NS:
        while time.perf_counter_ns() - start < LEAD_NS:
            run()


def repeats_for(run: Callable[[], object]) -> int:
    """The number of repeats of a run in one sample."""
    start = time.perf_counter()
    run()
    return max(1, round(LEAST_S / max(time.perf_counter() - start, 1e-6)))


def busy_seconds() -> float:
    """The busy seconds of all processors together."""
    try:
        fields = [int(x) for x in _STAT.read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return _own()
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / _TICK


def _own() -> float:
    times = os.times()
    return times.user + times.system

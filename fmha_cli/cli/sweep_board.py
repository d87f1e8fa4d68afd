"""``SweepBoard``: the state of a sweep on stderr: rows done, rows per minute, the time left, and every worker's task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from fmha_cli.cli.progress import Shown
from fmha_cli.cli.streams import UNKNOWN
from fmha_cli.domain.quantities import span
from fmha_cli.sweeps.driver import SweepDriver

WORKERS = 10
"""Lines for workers. A terminal has 24, and the rest is counted."""

WINDOW_S = 300.0
"""The rate is that of the last minutes: rows differ, and the first ones wait for their kernels."""

_BACK, _UP = "\r\x1b[K", "\x1b[A\r\x1b[K"


class SweepBoard(Shown):
    """On a terminal the lines are rewritten in place; elsewhere one line comes every ten seconds.

    Args:
        write: takes text for stderr.
        terminal: whether lines are rewritten.
        width: columns of the terminal now; None where it cannot be asked.
        clock: seconds.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        terminal: bool,
        width: Callable[[], int | None] = lambda: UNKNOWN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._terminal, self._width, self._clock = write, terminal, width, clock
        self._lock = threading.RLock()
        self._began = clock()
        self._done = self._total = self._lost = self._lines = 0
        self._marks: list[tuple[float, int]] = []
        self._workers: Sequence[tuple[str, str]] = ()

    def show(self, driver: SweepDriver) -> None:
        """Take the state of a sweep."""
        self.update(len(driver.ledger.done), driver.ledger.total, driver.ledger.lost, driver.working)

    def update(self, done: int, total: int, lost: int, workers: Sequence[tuple[str, str]]) -> None:
        """``done`` of ``total`` rows have a record, ``lost`` workers died; each worker's place and task."""
        with self._lock:
            now = self._clock()
            if not self._marks or done != self._marks[-1][1]:
                self._marks.append((now, done))
            while len(self._marks) > 2 and now - self._marks[1][0] > WINDOW_S:
                del self._marks[0]
            self._done, self._total, self._lost, self._workers = done, total, lost, workers

    def summary(self) -> str:
        """``sweep: 312/1000 rows, 48 rows/min, 6 min 30 s, about 14 min left, 1 worker lost``."""
        now = self._clock()
        parts = [f"{self._done}/{self._total} rows", *self._rate(now), span(now - self._began)]
        if left := self._left(now):
            parts.append(left)
        if self._lost:
            parts.append(f"{self._lost} worker{'s' if self._lost > 1 else ''} lost")
        return f"sweep: {', '.join(parts)}"

    def _per_second(self, now: float) -> float:
        if not self._marks or now <= self._marks[0][0]:
            return 0.0
        return (self._done - self._marks[0][1]) / (now - self._marks[0][0])

    def _rate(self, now: float) -> Iterator[str]:
        if rate := self._per_second(now):
            yield f"{rate * 60:.3g} rows/min"

    def _left(self, now: float) -> str | None:
        rate = self._per_second(now)
        return f"about {span((self._total - self._done) / rate)} left" if rate and self._done < self._total else None

    def lines(self) -> list[str]:
        """The summary, and a line for each worker, as far as there is room."""
        shown = [f"  {place}: {what}" for place, what in self._workers[:WORKERS]]
        more = len(self._workers) - WORKERS
        return [self.summary(), *shown, *([f"  and {more} more workers"] if more > 0 else [])]

    def tick(self) -> None:
        """Show the state as it is now."""
        with self._lock:
            if not self._total:
                return
            if not self._terminal:
                self._write(f"{self.summary()}\n")
                return
            self.erase()
            room = max((self._width() or UNKNOWN) - 1, 1)
            lines = [line[:room] for line in self.lines()]
            self._write("\n".join(lines))
            self._lines = len(lines)

    def erase(self) -> None:
        """Make room for other output; the next tick shows the lines again."""
        with self._lock:
            if self._lines:
                self._write(_BACK + _UP * (self._lines - 1))
                self._lines = 0

"""``ProgressLine``: one line about long work on stderr: what is done, the phase, the time so far, and how much is left.

On a terminal the line is rewritten in place. Elsewhere a new line comes every ten seconds, so short commands print none.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from fmha_cli.cli.streams import UNKNOWN
from fmha_cli.domain.phases import Phase
from fmha_cli.domain.quantities import size, span
from fmha_cli.report.fitting import folded

TERMINAL_S = 0.5
"""Seconds between two looks of the terminal's line; the first one comes after as many."""

PIPED_S = 10.0
"""Seconds between two lines where there is no terminal."""

_BACK = "\r\x1b[K"
"""To the beginning of the line, which is erased."""


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that have ended."""
    return sum(os.times()[:4])


@dataclass
class PhaseTime:
    """Seconds that one phase has taken so far, by the clock and of the CPU."""

    wall: float = 0.0
    cpu: float = 0.0


class Shown(ABC):
    """What a console shows while long work goes on."""

    _lock: AbstractContextManager[object]

    @abstractmethod
    def tick(self) -> None:
        """Show it as it is now."""

    @abstractmethod
    def erase(self) -> None:
        """Make room for other output."""

    @contextmanager
    def room(self) -> Iterator[None]:
        """Other output, during which nothing is shown."""
        with self._lock:
            self.erase()
            yield


class ProgressLine(Shown):
    """The state of the work, and the line that shows it. Calls may come from several threads.

    Args:
        title: the name of the work.
        write: takes text for stderr.
        terminal: whether the line is rewritten in place.
        width: columns of the terminal now; None where it cannot be asked.
        clock, cpu: seconds.
    """

    def __init__(
        self,
        title: str,
        write: Callable[[str], None],
        terminal: bool,
        width: Callable[[], int | None] = lambda: UNKNOWN,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = cpu_seconds,
    ) -> None:
        self._title, self._write, self._terminal, self._width = title, write, terminal, width
        self._clock, self._cpu = clock, cpu
        self._lock = threading.RLock()
        self._began = clock()
        self._counting = self._counted = self._began
        self._done = self._total = 0
        self._what = ""
        self._phase: Phase | None = None
        self._phase_began, self._phase_done, self._phase_total = self._began, 0, 0
        self._interrupted: Phase | None = None
        self._last = self._began, cpu()
        self._shown = False
        self.spent: dict[str, PhaseTime] = {}
        """By phase; ``setup`` is what came before the first one."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` rows, cases or kernels are done (0: unknown how many), ``what`` is being done."""
        with self._lock:
            if not self._total:
                self._counting = self._clock()
            if done != self._done:
                self._counted = self._clock()
            self._done, self._total, self._what = done, total, what

    def phase(self, phase: Phase, done: int = 0, total: int = 0) -> None:
        """A phase begins or goes on. A fetch interrupts another phase, which goes on once all bytes are here."""
        with self._lock:
            if phase is not self._phase or not done:
                if phase is Phase.FETCH and self._phase is not phase:
                    self._interrupted = self._phase
                self._begin(phase)
            self._phase_done, self._phase_total = done, total
            if phase is Phase.FETCH and done >= total:
                self._begin(self._interrupted)

    def _begin(self, phase: Phase | None) -> None:
        self._account()
        self._phase, self._phase_began = phase, self._clock()
        self._phase_done = self._phase_total = 0

    def _account(self) -> None:
        now, before = (self._clock(), self._cpu()), self._last
        spent = self.spent.setdefault(self._phase or "setup", PhaseTime())
        spent.wall, spent.cpu, self._last = spent.wall + now[0] - before[0], spent.cpu + now[1] - before[1], now

    def tick(self) -> None:
        """Show the line as it is now."""
        with self._lock:
            text = self.text()
            if not self._terminal:
                self._write("\n".join(folded(text, self._width(), hang=4)) + "\n")
                return
            self._write(_BACK + text[: max((self._width() or UNKNOWN) - 1, 1)])
            self._shown = True

    def erase(self) -> None:
        """Make room for other output; the next tick shows the line again."""
        with self._lock:
            if self._shown:
                self._write(_BACK)
                self._shown = False

    def text(self) -> str:
        """``run: row 3/12, reference 40 %, 1 min 5 s, about 2 min left: -s 4096 --causal``."""
        now = self._clock()
        count = f" {min(self._done + 1, self._total)}/{self._total}" if self._total > 1 else ""
        left = self._left(now)
        parts = [
            self._title + count,
            "" if self._phase == self._title else self._phase_text(),
            span(now - self._began),
            f"about {span(left)} left" if left else "",
        ]
        told = ", ".join(part for part in parts if part)
        return f"{told}: {self._what}" if self._what else told

    def _phase_text(self) -> str:
        phase, done, total = self._phase, self._phase_done, self._phase_total
        if phase is None or not total:
            return phase or ""
        if phase is Phase.BUILD:
            return f"{phase} {min(done + 1, total)}/{total}" if total > 1 else phase
        if phase is Phase.FETCH:
            return f"{phase} {size(done)} of {size(total)}"
        return f"{phase} {min(100 * done // total, 100)} %"

    def _left(self, now: float) -> float | None:
        """Seconds until all rows are done, estimated from the finished ones; for a single row, until its phase is done.
        None if nothing tells, or if it takes longer than was expected.
        """
        if self._total > 1:
            if not self._done or self._done >= self._total:
                return None
            each = (self._counted - self._counting) / self._done
            left = each * (self._total - self._done) - (now - self._counted)
            return left if left >= 1 else None
        if not self._phase_done or not self._phase_total or self._phase is Phase.TIME:
            return None  # sampling ends when the samples agree
        rate = (now - self._phase_began) / self._phase_done
        return rate * max(0, self._phase_total - self._phase_done)

    def summary(self) -> str:
        """``took 12 s (CPU 14 s): setup 0.8 s (0.7 s), build 2.1 s (2.0 s)``: by the clock, and of the CPU in brackets."""
        with self._lock:
            self._account()
            own = [f"{name} {s.wall:.1f} s ({s.cpu:.1f} s)" for name, s in self.spent.items()]
            wall, cpu = (sum(getattr(s, unit) for s in self.spent.values()) for unit in ("wall", "cpu"))
            return f"took {wall:.1f} s (CPU {cpu:.1f} s): {', '.join(own)}"


@contextmanager
def ticking(line: Shown, period: float) -> Iterator[None]:
    """Show the line every ``period`` seconds while the work goes on, and erase it at the end."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(period):
            line.tick()

    thread = threading.Thread(target=tick, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        line.erase()

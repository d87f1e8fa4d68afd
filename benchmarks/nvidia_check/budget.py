"""The time budget of one call, divided among its parts in order. A part that does not fit is left out and reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """A number of seconds from now on, which the parts of a run share in order.

    Attributes:
        seconds: of the whole run. clock: a monotonic clock, in seconds.
        spent: part -> seconds, for the completed parts.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    spent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = self._mark = self.clock()

    @property
    def left(self) -> float:
        """Seconds until the end; never below 0."""
        return max(0.0, self._start + self.seconds - self.clock())

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._start

    def share(self, least: float, most: float, keep: float = 0.0) -> float | None:
        """Seconds that a part may take: at most ``most``, leaving ``keep`` to later parts.

        None if that is less than ``least``, below which the part is not worth beginning.
        """
        found = min(most, self.left - keep)
        return found if found >= least else None

    def done(self, part: str) -> None:
        """Mark a part as done; it gets the time since the previous one."""
        now = self.clock()
        self.spent[part] = round(self.spent.get(part, 0.0) + now - self._mark, 3)
        self._mark = now


def out_of_time(budget: Budget, part: str) -> str:
    """Why a part was not begun."""
    return f"{part} was not begun: {budget.left:.0f} s of {budget.seconds:.0f} s were left"

"""What is said during long work, to one listener: lines for people, and the phases of the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The current work."""

    FETCH = "fetch"
    """Counts bytes."""
    BUILD = "build"
    """Counts kernels, or the files of an emulator."""
    INPUTS = "inputs"
    REFERENCE = "reference"
    """Counts query rows."""
    LAUNCH = "launch"
    JUDGE = "judge"
    TIME = "time"
    """Counts nanoseconds of the time that the samples may take."""
    PEAKS = "peaks"


Tell = Callable[[Phase, int, int], None]
"""tell(phase, done, total): a phase begins (done 0) or goes on. The total is 0 where it is unknown."""


def silent(phase: Phase, done: int, total: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Voice:
    """A listener to long work, which speaks from any thread.

    Attributes:
        say: takes one line for people.
        phase: takes the phases of the work.
    """

    say: Callable[[str], None] = lambda text: None
    phase: Tell = silent


SILENT = Voice()

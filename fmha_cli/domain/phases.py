"""The phases of a command's work, reported to one listener."""

from __future__ import annotations

from collections.abc import Callable
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

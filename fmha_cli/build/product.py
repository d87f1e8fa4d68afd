"""What a builder hands to the cache: a product, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BuildProduct:
    """A finished build, not yet in the cache.

    Attributes:
        artifact: the built file, inside the directory that the builder was given; the cache moves it away.
        log: the build's log, likewise.
        seconds: how long the compiler took (wall clock).
        peak_bytes: the compiler's peak memory; None when unknown.
    """

    artifact: Path
    log: Path
    seconds: float
    peak_bytes: int | None = None


class BuildError(Exception):
    """A build that failed for a reason in the kernel or the compiler, not in the environment.

    The cache keeps the log and turns this into a ``KernelFailure``.

    Attributes:
        summary: the first error line of the compiler, or what else happened, in one line.
        why: what the compiler did (its exit status, a signal, a timeout).
        log: the full log, or None when nothing was written.
    """

    def __init__(self, summary: str, *, why: str, log: Path | None) -> None:
        super().__init__(summary)
        self.summary = summary
        self.why = why
        self.log = log


Builder = Callable[[Path], BuildProduct]
"""Builds into the empty directory it is given. Raises ``BuildError`` or any ``FmhaError``."""

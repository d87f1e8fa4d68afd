"""``FirstLaunch``: what a worker observed of a row's first launch besides its times."""

from __future__ import annotations

from dataclasses import dataclass

SPINNING = 0.25
"""Cores in use after a launch from which on threads count as spinning."""


@dataclass(frozen=True, kw_only=True)
class FirstLaunch:
    """What a worker observed of the first launch of a job.

    Attributes:
        peak_bytes: the worker's largest resident memory during the launch, less what it had right before. The tensors are
            in it before; memory of a device is not counted. None where the system does not tell.
        idle_cores: cores that the worker kept busy some milliseconds after the launch, when it had nothing to do.
    """

    peak_bytes: int | None = None
    idle_cores: float = 0.0

    def lines(self) -> tuple[str, ...]:
        """The notes for people."""
        if self.idle_cores < SPINNING:
            return ()
        spins = f"its threads keep spinning after a launch ({self.idle_cores:.1f} cores), which slows what runs in turns with it"
        return (spins,)

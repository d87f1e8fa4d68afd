"""``FirstLaunch``: a worker's observations of a row's first launch, apart from its times."""

from __future__ import annotations

from dataclasses import dataclass

SPINNING = 0.25
"""Cores in use after a launch from which on threads count as spinning."""

IDLE_S = 0.005
"""Seconds for which a worker is watched doing nothing after a job's first launch; as long before, threads may still come to rest."""


@dataclass(frozen=True, kw_only=True)
class FirstLaunch:
    """A worker's observations of the first launch of a job.

    Attributes:
        peak_bytes: the worker's largest resident memory during the launch, less what it had right before. The tensors are
            in it before; memory of a device is not counted. None where the system does not tell.
        idle_cores: cores that the worker kept busy from ``IDLE_S`` to twice that after the launch, when it had nothing to do. Nothing
            later was looked at: pools of some libraries spin for milliseconds and then sleep.
    """

    peak_bytes: int | None = None
    idle_cores: float = 0.0

    def lines(self) -> tuple[str, ...]:
        """The notes for people."""
        if self.idle_cores < SPINNING:
            return ()
        seen = f"from {IDLE_S * 1e3:.0f} to {2 * IDLE_S * 1e3:.0f} ms after its first launch, its threads kept {self.idle_cores:.1f} cores busy"
        return (f"{seen}; a kernel that starts in that time is slower",)

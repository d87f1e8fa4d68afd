"""``Scheduler``: where the workers of a sweep are, and what they say. ``local`` and ``cluster`` are the two implementations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fmha_cli.sweeps.jobs import ChunkJob, Event
from fmha_cli.sweeps.places import WorkerPlace


@dataclass(frozen=True)
class News:
    """Something that happened at a place: an event of its worker; ``died`` (why, chunk), or ``waits`` (text) for a lease."""

    place: WorkerPlace
    event: Event


class Scheduler(Protocol):
    """Gives chunks to workers. Used by one thread.

    Attributes:
        shared_cache: whether all workers have one build cache, which keeps two of them from building the same kernel.
        patience_s: how long rows wait for a place when there is none; a worker that died may be replaced.
    """

    shared_cache: bool
    patience_s: float

    def places(self) -> Sequence[WorkerPlace]:
        """The places that are not set aside."""

    def free(self) -> Sequence[WorkerPlace]:
        """Places whose worker has no chunk."""

    def give(self, place: WorkerPlace, job: ChunkJob) -> None:
        """Give a free place a chunk."""

    def news(self, timeout_s: float) -> Iterable[News]:
        """What happened since the last call, after at most ``timeout_s`` seconds."""

    def set_aside(self, place: WorkerPlace) -> None:
        """Give a place no more chunks, and end its worker."""

    def close(self) -> None:
        """End all workers."""

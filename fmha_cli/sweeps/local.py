"""The devices of this machine: a process for each, under the lease of its device."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.device import usable_cores
from fmha_cli.sweeps.jobs import ChunkJob
from fmha_cli.sweeps.leases import file_name, holder_of, take
from fmha_cli.sweeps.places import WorkerPlace
from fmha_cli.sweeps.process import ChildProcess
from fmha_cli.sweeps.scheduler import News

_LONGEST_TICK_S = 1.0
"""A longer time between two looks does not count against the workers: this process was asleep too."""

_LEASE_S = 0.2
"""Seconds between two tries to get a lease."""


@dataclass
class _Slot:
    """A place, its worker, and the chunk that the worker has."""

    place: WorkerPlace
    child: ChildProcess | None = None
    chunk: int | None = None
    ready: bool = False
    silent_s: float = 0.0
    told: bool = False
    tried: float = float("-inf")
    killed: str | None = None


class LocalScheduler:
    """See ``Scheduler``.

    Args:
        states: the folder of states, where leases are.
        folder: of the sweep, for its workers' output.
        run: the id of the sweep.
        silence_s: seconds without a sign of life after which a worker is ended. It gives one every second, whatever its
            kernels do.
    """

    shared_cache = True
    patience_s = 0.0

    def __init__(self, places: Sequence[WorkerPlace], states: Path, folder: Path, run: str, silence_s: float) -> None:
        self._slots = [_Slot(place) for place in places]
        self._states, self._folder, self._run, self._silence_s = states, folder, run, silence_s
        self._selector = selectors.DefaultSelector()
        self._jobs = max(1, usable_cores() // max(1, len(places)))
        self._looked = time.monotonic()

    def places(self) -> Sequence[WorkerPlace]:
        """The places that are not set aside."""
        return [slot.place for slot in self._slots]

    def free(self) -> Sequence[WorkerPlace]:
        """Places whose worker is ready and has no chunk."""
        return [slot.place for slot in self._slots if slot.ready and slot.chunk is None]

    def give(self, place: WorkerPlace, job: ChunkJob) -> None:
        """Give a free place a chunk."""
        slot = self._slot(place)
        assert slot.child is not None
        slot.chunk = job.number
        slot.child.send(job.on(place.device, self._jobs))

    def news(self, timeout_s: float) -> Iterator[News]:
        """Start workers where leases are free, and pass on the messages of all of them. A worker that is silent is
        ended.
        """
        for slot in self._slots:
            yield from self._started(slot)
        found = self._selector.select(timeout_s)
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, _LONGEST_TICK_S), now
        heard = {id(key.data) for key, _ in found}
        for slot in list(self._slots):
            if id(slot) in heard:
                slot.silent_s = 0.0
                yield from self._said(slot)
            elif slot.child is not None:
                slot.silent_s += passed
                if slot.silent_s > self._silence_s and slot.killed is None:
                    slot.killed = f"no sign of life for {self._silence_s:g} s"
                    slot.child.kill()

    def _started(self, slot: _Slot) -> Iterator[News]:
        if slot.child is not None or time.monotonic() - slot.tried < _LEASE_S:
            return
        slot.tried = time.monotonic()
        lease = take(self._states, slot.place.lease, self._run, shared=slot.place.shared)
        if lease is None:
            if not slot.told and (holder := holder_of(self._states, slot.place.lease)) is not None:
                slot.told = holder.run != self._run
                if slot.told:
                    yield News(slot.place, {"event": "waits", "text": holder.text})
            return
        slot.told, slot.silent_s, slot.ready, slot.killed = False, 0.0, False, None
        try:
            slot.child = ChildProcess(lease, self._folder / f"{file_name(slot.place.name)}.log")
        except OSError as fault:
            yield News(slot.place, {"event": "died", "chunk": None, "why": f"no process: {fault.strerror}"})
            return
        self._selector.register(slot.child.answers, selectors.EVENT_READ, slot)

    def _said(self, slot: _Slot) -> Iterator[News]:
        assert slot.child is not None
        events = slot.child.hear()
        for event in events or ():
            if event["event"] == "ready":
                slot.ready = True
            elif event["event"] in ("done", "refused"):
                slot.chunk = None
            yield News(slot.place, event)
        if events is None:
            child, chunk = slot.child, slot.chunk
            self._selector.unregister(child.answers)
            slot.child, slot.chunk, slot.ready = None, None, False
            how = child.bury()
            yield News(slot.place, {"event": "died", "chunk": chunk, "why": slot.killed or how})

    def set_aside(self, place: WorkerPlace) -> None:
        """Give a place no more chunks, and end its worker."""
        slot = self._slot(place)
        self._slots.remove(slot)
        if slot.child is not None:
            self._selector.unregister(slot.child.answers)
            slot.child.kill()
            slot.child.bury()

    def close(self) -> None:
        """End all workers: an idle one closes its device, one in the middle of a chunk ends at once."""
        children = [slot.child for slot in self._slots if slot.child is not None]
        self._slots.clear()
        self._selector.close()
        for child in children:
            child.dismiss()
        for child in children:
            child.close()

    def _slot(self, place: WorkerPlace) -> _Slot:
        return next(slot for slot in self._slots if slot.place == place)

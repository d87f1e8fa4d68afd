"""The workers of a Dask cluster. Every chunk is given to a certain worker; its future is released as soon as it is done."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.run.request import Request
from fmha_cli.sweeps.addresses import need_dask
from fmha_cli.sweeps.jobs import ChunkJob
from fmha_cli.sweeps.places import NamedDevice, PlaceKind, WorkerPlace, described
from fmha_cli.sweeps.remote import MARK, describe, found_of, run_chunk, topic_of
from fmha_cli.sweeps.scheduler import News

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.security import Security

WAIT_S = 120.0
"""Seconds to wait for the first worker, and for the answer of one about its device."""

_LOOK_S = 1.0
_LONGEST_TICK_S = 1.0


@dataclass
class _Seat:
    """A worker of the cluster, and the chunk that it has.

    Attributes:
        silent: it was given up until it answers again.
        told: rows of the chunk whose records arrived.
    """

    place: WorkerPlace
    address: str
    chunk: int | None = None
    future: Future[Any] | None = None
    builds: str = ""
    silent_s: float = 0.0
    silent: bool = False
    told: set[int] = field(default_factory=set)


class ClusterScheduler:
    """See ``Scheduler``.

    Args:
        url: of the Dask scheduler.
        run: the id of the sweep.
        security: certificates; None for a scheduler on this machine.
        silence_s: seconds without a word after which a worker's chunk is given to another one. A chunk that runs gives a
            sign every second.
        wait_s: seconds to wait for the first worker, and for the answer of one about its device.

    Raises:
        EnvironmentProblem: X063, Dask is not installed; X064, nobody answers at the address.
    """

    shared_cache = False
    patience_s = WAIT_S

    def __init__(
        self,
        url: str,
        run: str,
        request: Request,
        security: Security | None = None,
        *,
        silence_s: float,
        wait_s: float = WAIT_S,
    ) -> None:
        need_dask()
        from distributed import Client

        self._run, self._request, self._silence_s, self._wait_s = run, request, silence_s, wait_s
        try:
            self._client: Client = Client(url, security=security, timeout="20s", set_as_default=False)
        except (OSError, TimeoutError) as fault:
            help = "`dask scheduler` starts one, and `fmha worker` its workers"
            what = f"no scheduler answers at {url}"
            raise EnvironmentProblem(what, code="X064", where="--scheduler", why=str(fault), help=help) from fault
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._client.subscribe_topic(topic_of(run), lambda event: self._events.put(("said", event[1])))
        self._seats: dict[str, _Seat] = {}
        self._aside: set[str] = set()
        self._strange: set[str] = set()
        self._asking: dict[str, Future[Any]] = {}
        self._answers: dict[str, str | None] = {}
        self._kinds: list[PlaceKind] = []
        self._asked: Sequence[NamedDevice] = ()
        self._archives: dict[str, bytes] = {}
        self._have: dict[str, set[str]] = {}
        self._looked = self._ticked = time.monotonic()

    def find(self, asked: Sequence[NamedDevice]) -> tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]:
        """Wait for workers, and ask them about their devices. Workers that come later may only bring devices of these kinds.

        Raises:
            EnvironmentProblem: X062, no worker with such a device comes.
        """
        self._asked = asked
        end = time.monotonic() + self._wait_s
        while (not self._seats or self._asking) and time.monotonic() < end:
            self._look(new_kinds=True)
            time.sleep(0.1)
        if not self._seats:
            wanted = ", ".join(one.device for one in asked) or "a device"
            help = "start `fmha worker --scheduler ADDRESS --devices ID` on the hosts"
            what = f"no worker with {wanted} came within {self._wait_s:g} s"
            raise EnvironmentProblem(what, code="X062", where="--scheduler", help=help)
        return tuple(self._kinds), tuple(self.places())

    def _look(self, *, new_kinds: bool = False) -> Sequence[News]:
        """The workers that exist now; new ones report their devices. Returns the outcomes of the lost ones."""
        there: Mapping[str, Any] = self._client.scheduler_info()["workers"]
        gone = [self._left(address) for address in [*self._seats] if address not in there]
        for address, about in there.items():
            name = str(about.get("name", "")).split("|")
            if address in self._seats or address in self._strange or len(name) != 4 or name[0] != MARK:
                continue
            _, host, device, copy = name
            if self._asked and all(device != one.device for one in self._asked):
                self._strange.add(address)
            elif address not in self._asking:  # one that is busy answers later
                self._ask(address, device)
            elif address in self._answers:
                self._asking.pop(address).release()
                self._take_in(address, host, device, copy, self._answers.pop(address), new_kinds)
        for address in [address for address in self._asking if address not in there]:
            self._asking.pop(address).release()
            self._answers.pop(address, None)
        return [news for news in gone if news is not None]

    def _ask(self, address: str, device: str) -> None:
        answer = self._asking[address] = self._client.submit(
            describe, json.dumps(to_json(self._request)), device, workers=[address], pure=False, retries=0
        )

        def heard(text: str | None) -> None:
            if self._asking.get(address) is answer:
                self._answers[address] = text

        self._fetch(answer, heard)

    def _fetch(self, future: Future[Any], then: Callable[[Any], None]) -> None:
        """Call ``then`` with the result of a future when it is here, or with None if there is none.

        Each waits in its own thread: a result that lies on a host that was cut off may never come, and Dask does not
        make it again, because the future belongs to that host.
        """

        def bring() -> None:
            closed = (OSError, RuntimeError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
            with suppress(*closed):  # the client left the cluster
                found = self._client.gather([future], errors="skip")
                then(found[0] if found else None)

        future.add_done_callback(lambda done: Thread(target=bring, daemon=True).start())

    def _take_in(self, address: str, host: str, device: str, copy: str, answer: str | None, new_kinds: bool) -> None:
        found = found_of(answer) if answer is not None else {}
        alike = described(found, device)
        kind = next((n for n, one in enumerate(self._kinds) if described(one.found, one.first) == alike), None)
        if kind is None and new_kinds and alike:
            kind = len(self._kinds)
            self._kinds.append(PlaceKind(first=device, found=found))
        place = WorkerPlace(device=device, name=f"{device}#{copy}" if copy else device, kind=kind or 0, host=host)
        if kind is None or place.text in self._aside:
            self._strange.add(address)
        else:
            self._seats[address] = _Seat(place, address)

    def _left(self, address: str) -> News | None:
        """A worker is gone; returns the outcome of its chunk."""
        seat = self._seats.pop(address)
        if seat.chunk is None:
            return None
        chunk = seat.chunk
        self._release(seat)
        return News(seat.place, {"event": "died", "chunk": chunk, "why": "it left the cluster"})

    @staticmethod
    def _release(seat: _Seat) -> None:
        future, seat.future, seat.chunk, seat.told = seat.future, None, None, set()
        if future is not None:
            future.cancel()
            future.release()

    def places(self) -> Sequence[WorkerPlace]:
        """The places that are not set aside."""
        return [seat.place for seat in self._seats.values()]

    def free(self) -> Sequence[WorkerPlace]:
        """Places whose worker has no chunk."""
        return [seat.place for seat in self._seats.values() if seat.chunk is None and not seat.silent]

    def give(self, place: WorkerPlace, job: ChunkJob) -> None:
        """Give a free place a chunk, with the kernels for it that another host has built."""
        seat = next(seat for seat in self._seats.values() if seat.place == place and seat.chunk is None)
        seat.builds = digest_of(list(job.builds))
        seat.chunk, seat.silent_s, seat.told = job.number, 0.0, set()
        have = self._have.setdefault(place.host, set())
        archive = self._archives.get(seat.builds)
        sent = {seat.builds: archive} if archive and seat.builds not in have else {}
        have.update(sent)
        own = replace(job.request, device=place.device, cache_root=None)  # each host has its own build cache
        future = seat.future = self._client.submit(
            run_chunk,
            replace(job, request=own).line().decode(),
            self._run,
            place.name,
            sent,
            archive is None,
            workers=[seat.address],
            allow_other_workers=False,
            retries=0,
            pure=False,
            key=f"fmha-{self._run[:8]}-{job.number}-{place.name}",
        )
        address = seat.address
        self._fetch(future, lambda result: self._events.put(("ended", (address, job.number, future, result))))

    def news(self, timeout_s: float) -> Iterator[News]:
        """What workers said, which chunks ended, and which workers are gone or silent."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._looked = time.monotonic()
            yield from self._look()
        try:
            events = [self._events.get(timeout=timeout_s)]
        except queue.Empty:
            events = []
        while not self._events.empty():
            events.append(self._events.get())
        for kind, what in events:
            yield from self._said(what) if kind == "said" else self._ended(*what)
        now = time.monotonic()
        passed, self._ticked = min(now - self._ticked, _LONGEST_TICK_S), now
        for seat in self._seats.values():
            seat.silent_s += passed
            if seat.chunk is not None and seat.silent_s > self._silence_s:
                chunk, seat.silent = seat.chunk, True
                self._release(seat)
                yield News(
                    seat.place, {"event": "died", "chunk": chunk, "why": f"no sign of life for {self._silence_s:g} s"}
                )

    def _said(self, message: Mapping[str, Any]) -> Iterator[News]:
        seat = self._seats.get(str(message["worker"]))
        if seat is None:
            return
        event = json.loads(message["text"])
        seat.silent_s = 0.0
        seat.silent = False  # it is back: it may have a chunk again, and its reports on the old one are dropped
        if event["event"] == "ended" and event["chunk"] == seat.chunk:
            seat.told.add(event["row"])
        yield News(seat.place, event)

    def _ended(self, address: str, chunk: int, future: Future[Any], result: Any) -> Iterator[News]:
        seat = self._seats.get(address)
        if seat is None or seat.chunk != chunk or seat.future is None:
            future.release()
            return
        if result is None:
            why = (
                f"the cluster gave it up ({type(future.exception()).__name__})"
                if future.status == "error"
                else "cancelled"
            )
            self._release(seat)
            yield News(seat.place, {"event": "died", "chunk": chunk, "why": why})
            return
        told, builds = set(seat.told), seat.builds
        self._release(seat)
        for row, record in result["records"].items():
            if int(row) not in told:
                yield News(seat.place, {"event": "ended", "chunk": chunk, "row": int(row), "record": record})
        if result["archive"]:
            self._archives[builds] = result["archive"]
            self._have.setdefault(seat.place.host, set()).add(builds)
        yield News(seat.place, {**result["end"], "chunk": chunk})

    def set_aside(self, place: WorkerPlace) -> None:
        """Give a place no more chunks."""
        self._aside.add(place.text)
        for address in [address for address, seat in self._seats.items() if seat.place.text == place.text]:
            self._release(self._seats.pop(address))
            self._strange.add(address)

    def close(self) -> None:
        """Take the chunks back that are out, and leave the cluster; its workers stay."""
        for seat in self._seats.values():
            self._release(seat)
        for asking in self._asking.values():
            asking.release()
        self._client.close()

"""``Ledger``: which rows are done, which chunks wait, and which rows took workers with them. It opens no file and no process.

A row is executed at least once and recorded exactly once: the first record of a row counts, and later ones are dropped. A
row that was running when a worker died is given out again, alone in a chunk, so it cannot take others with it; after
``retries`` further deaths its record is CRASHED.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fmha_cli.report.record import Record
from fmha_cli.sweeps.plan import Chunk, SweepUnit

FAILURES = 3
"""Deaths of workers at a place, with no row recorded between them, after which the place is set aside."""


@dataclass
class Out:
    """A chunk that a worker has.

    Attributes:
        running: numbers of the rows that run now.
    """

    chunk: Chunk
    place: str
    running: tuple[int, ...] = ()


@dataclass
class Ledger:
    """The state of a sweep.

    Attributes:
        total: number of rows.
        retries: how often a row is given out again after a worker died with it.
        done: number of a row -> its record.
        deaths: number of a row -> the workers that died while it ran.
        lost: workers that died.
    """

    total: int
    retries: int = 2
    done: dict[int, Record] = field(default_factory=dict)
    deaths: dict[int, list[str]] = field(default_factory=dict)
    lost: int = 0
    _waiting: deque[Chunk] = field(default_factory=deque)
    _out: dict[int, Out] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _barren: dict[frozenset[int], list[str]] = field(default_factory=dict)
    _built: set[frozenset[str]] = field(default_factory=set)
    _next: int = 0

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Queue chunks without the units that are done."""
        for chunk in chunks:
            self._next = max(self._next, chunk.number + 1)
            if units := self._left(chunk.units):
                self._waiting.append(Chunk(chunk.number, chunk.kind, units))

    def _left(self, units: Sequence[SweepUnit]) -> tuple[SweepUnit, ...]:
        return tuple(unit for unit in units if any(number not in self.done for number in unit.numbers))

    @property
    def open(self) -> bool:
        """Whether a chunk waits or is out."""
        return bool(self._waiting or self._out)

    @property
    def running(self) -> dict[str, int]:
        """Place -> number of the row that runs there."""
        return {out.place: out.running[0] for out in self._out.values() if out.running}

    def give(self, kind: int, place: str, *, alone: bool = False) -> Chunk | None:
        """The next chunk for a device of a kind; rather one whose kernels nobody builds at this moment.

        Args:
            alone: give no chunk whose kernels another worker is the first to build: there is no common cache, and they are
                sent to the others when its chunk is done.
        """
        building = {
            out.chunk.builds
            for out in self._out.values()
            if (out.chunk.builds not in self._built if alone else not out.running)
        }
        fitting = [chunk for chunk in self._waiting if chunk.kind == kind and chunk.place in ("", place)]
        chosen = next((chunk for chunk in fitting if chunk.builds not in building), None)
        if chosen is None and fitting and not alone:
            chosen = fitting[0]
        if chosen is not None:
            self._waiting.remove(chosen)
            self._out[chosen.number] = Out(chosen, place)
        return chosen

    def began(self, chunk: int, rows: Sequence[int]) -> tuple[int, ...]:
        """Rows of a chunk run now: their numbers among all rows. A chunk that is not out has nothing to say."""
        out = self._out.get(chunk)
        if out is None:
            return ()
        out.running = tuple(out.chunk.numbers[row] for row in rows)
        return out.running

    def ended(self, chunk: int, row: int, record: Record) -> int | None:
        """A record came: the number of its row, or None if the row has one, or the chunk was taken from the worker."""
        out = self._out.get(chunk)
        number = None if out is None else out.chunk.numbers[row]
        if out is None or number is None or number in self.done:
            return None
        self.done[number] = record
        out.running = tuple(one for one in out.running if one != number)
        self._failures.pop(out.place, None)
        self._barren.pop(frozenset(out.chunk.numbers), None)
        return number

    def closed(self, chunk: int) -> tuple[int, ...]:
        """A worker has run all of a chunk: the numbers of the rows that are given up.

        A row without a record, as when its record could not be read, counts as one that the worker died with.
        """
        out = self._out.pop(chunk, None)
        if out is None:
            return ()
        self._built.add(out.chunk.builds)
        left = self._left(out.chunk.units)
        given_up = self._blame([n for unit in left for n in self._open(unit)], f"{out.place} (gave no readable record)")
        self._again(out.chunk.kind, [units] if (units := self._kept(left, given_up)) else [])
        return given_up

    def died(self, place: str, chunk: int | None, why: str) -> tuple[int, ...]:
        """A worker died, with the chunk that it had: the numbers of the rows that are given up.

        Without a running row the worker died while it built or planned; then the whole chunk is to blame, if that happens
        to it as often as a row may.
        """
        self.lost += 1
        self._failures[place] = self._failures.get(place, 0) + 1
        out = None if chunk is None else self._out.pop(chunk, None)
        if out is None:
            return ()
        worker = f"{place} ({why})"
        blamed = [number for number in out.running if number not in self.done]
        given_up: list[int] = []
        if blamed:
            given_up = list(self._blame(blamed, worker))
        else:
            before = self._barren.setdefault(frozenset(out.chunk.numbers), [])
            before.append(worker)
            if len(before) > self.retries:
                given_up = [number for number in out.chunk.numbers if number not in self.done]
                self.deaths |= {number: list(before) for number in given_up}
        left = self._kept(self._left(out.chunk.units), given_up)
        suspects = tuple(unit for unit in left if any(number in blamed for number in unit.numbers))
        rest = tuple(unit for unit in left if unit not in suspects)
        self._again(out.chunk.kind, [part for part in (rest, *((unit,) for unit in suspects)) if part])
        return tuple(given_up)

    def _blame(self, numbers: Sequence[int], worker: str) -> tuple[int, ...]:
        """Add a failure to rows; return the rows with more failures than retries."""
        for number in numbers:
            self.deaths.setdefault(number, []).append(worker)
        return tuple(number for number in numbers if len(self.deaths[number]) > self.retries)

    def _kept(self, units: Sequence[SweepUnit], given_up: Sequence[int]) -> tuple[SweepUnit, ...]:
        return tuple(unit for unit in units if any(number not in given_up for number in self._open(unit)))

    def _open(self, unit: SweepUnit) -> list[int]:
        return [number for number in unit.numbers if number not in self.done]

    def _again(self, kind: int, parts: Iterable[tuple[SweepUnit, ...]]) -> None:
        for units in parts:
            self._waiting.append(Chunk(self._next, kind, units))
            self._next += 1

    def failing(self, place: str) -> bool:
        """Whether a place has failed so often in a row that it is set aside."""
        return self._failures.get(place, 0) >= FAILURES

    def stuck(self, places: Iterable[tuple[int, str]]) -> bool:
        """Whether all chunks that wait do so for places that are no more.

        Args:
            places: the kind and the text of each place that there is.
        """
        there = list(places)
        return (
            bool(self._waiting)
            and not self._out
            and not any(
                chunk.kind == kind and chunk.place in ("", text) for chunk in self._waiting for kind, text in there
            )
        )

"""The driver: gives chunks to workers until every row has its record. It alone writes the journal and the store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.report.target import Unread
from fmha_cli.results.journal import Journal
from fmha_cli.run.records import Outcome, record_of
from fmha_cli.sweeps.ledger import FAILURES, Ledger
from fmha_cli.sweeps.places import WorkerPlace
from fmha_cli.sweeps.plan import SweepPlan, SweepUnit
from fmha_cli.sweeps.scheduler import News, Scheduler

TICK_S = 0.25
"""The longest time that the driver waits for news before it looks whether it can do something."""


@dataclass(frozen=True)
class SweepEnd:
    """What a sweep came to.

    Attributes:
        records: one for each planned row, in order.
        interrupted: whether the user ended it, or nobody takes the rows.
        stranded: whether rows are left because no place was left for them. late: because the time was over.
        where: number of a row -> the place that ran it; not of rows of earlier sessions.
        lost: workers that died.
    """

    records: tuple[Record, ...]
    interrupted: bool
    stranded: bool
    late: bool
    where: Mapping[int, WorkerPlace]
    lost: int

    @property
    def whole(self) -> bool:
        """Whether every row was done."""
        return not (self.interrupted or self.stranded or self.late)


@dataclass(kw_only=True)
class SweepDriver:
    """One sweep.

    Attributes:
        run: what the records say of it.
        chunk: rows of one chunk.
        retries: see ``Ledger``.
        seconds, end: the longest time, and when it is over by ``time.monotonic``; running rows are then ended, and the
            rest is left.
        on_record: takes each record once, in the order in which they come; may raise ``Unread``.
        tell: takes a line for people.
        changed: called after every event, to show the state.
    """

    plan: SweepPlan
    scheduler: Scheduler
    registry: Registry
    journal: Journal
    run: RunRow
    chunk: int
    retries: int
    on_record: Callable[[Record], None]
    tell: Callable[[str], None]
    changed: Callable[[SweepDriver], None] = lambda driver: None
    seconds: float | None = None
    end: float = math.inf

    def __post_init__(self) -> None:
        self.rows = self.plan.rows
        self.ledger = Ledger(len(self.rows), self.retries)
        self.where: dict[int, WorkerPlace] = {}
        self._stuck_since: float | None = None
        self.phases: dict[str, str] = {}
        """Place -> its worker's task, if that is not a row."""

    def go(self, past: Mapping[str, Record]) -> SweepEnd:
        """Run the remaining rows.

        Args:
            past: records of earlier sessions, by row key.
        """
        interrupted = stranded = late = False
        try:
            for number, row in enumerate(self.rows):
                if row.key in past:
                    self.ledger.done[number] = past[row.key]
                    self.on_record(past[row.key])
            for unit in self.plan.units:
                self._settle_unserved(unit)
            self.ledger.add(self.plan.chunks(self.chunk))
            while self.ledger.open and not (late := time.monotonic() >= self.end):
                self._give()
                for news in self.scheduler.news(TICK_S):
                    self._take(news)
                self.changed(self)
                if self._stranded():
                    stranded = True
                    break
        except (KeyboardInterrupt, Unread):
            interrupted = True
        finally:
            self.scheduler.close()
        why = "no worker was left for this row" if stranded else "interrupted before this row was done"
        why = f"the {self.seconds:g} s of the sweep were over before this row was done" if late else why
        kept = self.journal.state.records  # a row whose writing was interrupted runs again
        records = tuple(kept.get(row.key) or self._made(n, Verdict.NOT_RUN, why) for n, row in enumerate(self.rows))
        return SweepEnd(records, interrupted, stranded, late, self.where, self.ledger.lost)

    def _stranded(self) -> bool:
        """Whether the rows that are left have had no place for longer than the scheduler's patience."""
        if not self.ledger.stuck((place.kind, place.text) for place in self.scheduler.places()):
            self._stuck_since = None
            return False
        now = time.monotonic()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        return now - self._stuck_since >= self.scheduler.patience_s

    def _settle_unserved(self, unit: SweepUnit) -> None:
        """Rows without a kernel need no worker."""
        for number, row in zip(unit.numbers, unit.rows, strict=True):
            if not unit.runs and number not in self.ledger.done:
                record = self._made(number, row.unserved)
                self._keep(number, record)

    def _give(self) -> None:
        for place in self.scheduler.free():
            chunk = self.ledger.give(place.kind, place.text, alone=not self.scheduler.shared_cache)
            if chunk is not None:
                self.phases[place.text] = "plans"
                self.scheduler.give(place, self.plan.job(chunk, self.ledger.done.get))

    def _take(self, news: News) -> None:
        place, event = news.place, news.event
        match event["event"]:
            case "began":
                for number in self.ledger.began(event["chunk"], event["rows"]):
                    if number not in self.ledger.done:
                        self.journal.planned(self.rows[number].key)
            case "ended":
                self._ended(place, event)
            case "phase":
                self.phases[place.text] = str(event["name"])
            case "done":
                self._give_up(self.ledger.closed(event["chunk"]), "tried this row")
            case "waits":
                self.tell(f"waiting: {event['text']}")
            case "said":
                self.tell(f"{place.text}: {event['text']}")
            case "refused" | "died":
                self._lost(place, event["chunk"], str(event["why"]))

    def _ended(self, place: WorkerPlace, event: Mapping[str, Any]) -> None:
        try:
            record = Record.from_dict(event["record"])
        except DecodeError as fault:
            self.tell(f"{place.text}: a record that cannot be read ({fault}); its row runs again")
            return
        number = self.ledger.ended(event["chunk"], event["row"], record)
        if number is None:
            return
        died = self.ledger.deaths.get(number, ())
        notes = (f"given out {len(died) + 1} times, because workers failed: {'; '.join(died)}",) if died else ()
        record = replace(record, run=self.run, row=self.rows[number].key, notes=(*record.notes, *notes))
        self.where[number] = place
        self._keep(number, record)

    def _lost(self, place: WorkerPlace, chunk: int | None, why: str) -> None:
        self.phases.pop(place.text, None)
        given_up = self.ledger.died(place.text, chunk, why)
        self.tell(f"worker lost: {place.text} ({why})")
        self._give_up(given_up, "died with this row")
        if self.ledger.failing(place.text):
            self.tell(f"set aside: {place.text}, where {FAILURES} workers in a row died")
            self.scheduler.set_aside(place)

    def _give_up(self, numbers: Sequence[int], what: str) -> None:
        """Rows that no worker brings to an end are CRASHED; ``what`` says what their workers did."""
        for number in numbers:
            workers = self.ledger.deaths[number]
            note = f"{counted(len(workers), 'worker')} {what}: {'; '.join(workers)}"
            record = self._made(number, Verdict.CRASHED, note)
            self._keep(number, record)

    def _made(self, number: int, verdict: Verdict, note: str | None = None) -> Record:
        """A record that no worker made."""
        row = self.rows[number]
        kind = next(unit.kind for unit in self.plan.units if number in unit.numbers)
        outcome = Outcome(verdict=verdict, notes=() if note is None else (note,))
        record = record_of(row, outcome, self.plan.request_of(kind), self.registry, {})
        return replace(record, run=self.run)

    def _keep(self, number: int, record: Record) -> None:
        self.ledger.done[number] = record
        self.journal.done({self.rows[number].key: record})
        self.on_record(record)

    @property
    def working(self) -> Sequence[tuple[str, str]]:
        """Every worker's place and task."""
        running = self.ledger.running
        words = {place: self.rows[number].problem.repro() for place, number in running.items()}
        return [(p.text, words.get(p.text) or self.phases.get(p.text, "starts")) for p in self.scheduler.places()]

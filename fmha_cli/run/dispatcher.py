"""``Dispatcher``: takes the rows of a run through build, launch, judge and record, and yields each as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fmha_cli.bench.roofline import PeakKind, impossible
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal
from fmha_cli.run.arena import shortage
from fmha_cli.run.baseline import Baseline
from fmha_cli.run.builds import KernelOutcome, build_orders, ready_of
from fmha_cli.run.events import Built, Done, Ended, Event, Judged, Started
from fmha_cli.run.execute import Executor
from fmha_cli.run.input_files import InputFiles
from fmha_cli.run.journals import keys_of
from fmha_cli.run.origin import GitRevision, Origin, now
from fmha_cli.run.peaks import PeakBook
from fmha_cli.run.records import Outcome, beside, lead_of, ratios_of, record_of, with_regret
from fmha_cli.run.refusals import sources_of
from fmha_cli.run.request import Command, Context
from fmha_cli.run.rows import Row

PEAK_TRIES = 5
"""Measurements of the peak before a time counts as impossible. On a busy machine the measured peak is too low."""


class Dispatcher:
    """The planned rows of one ``Run``, and their records so far.

    Args:
        files: the tensors that were read.
        origin: of this invocation's rows.
        revision: the question about the user's repository.
        baseline: earlier results to compare with.
        journal: takes each record.
        past: records of earlier sessions, by row key.
    """

    def __init__(
        self,
        context: Context,
        rows: Sequence[Row],
        files: InputFiles,
        *,
        origin: Origin,
        revision: GitRevision,
        baseline: Baseline | None,
        journal: Journal | None,
        past: Mapping[str, Record],
    ) -> None:
        self._context, self._request, self._rows, self._files = context, context.request, rows, files
        self._origin, self._revision, self._baseline, self._journal = origin, revision, baseline, journal
        self._records = {index: past[row.key] for index, row in enumerate(rows) if row.key in past}
        self._told: set[int] = set()
        self._started: dict[str, str] = {}
        self._book = PeakBook(context)
        self._executor = Executor(context, files, self._book)

    def go(self) -> Generator[Event, None, bool]:
        """Build, then run; True when the user interrupted."""
        try:
            orders = [order for row in self._rows for order in row.orders]
            with self._book.building(self._rows):
                built = build_orders(orders, self._context.registry, self._context.building)
            # the rows of earlier sessions too: their kernels must be the ones built now
            self._journalled(lambda journal: journal.built(keys_of(built)))
            if built:
                yield Built(tuple(one.value.digest for one in built.values() if one.value is not None))
            self._revision.wait()
            self._origin = self._origin.at(self._revision)
            for indices in turns_of(self._rows):
                if any(index not in self._records for index in indices):
                    yield from self._together(indices, built)
                yield from self._complete_rows()
        except KeyboardInterrupt:
            yield from self._complete_rows()
            return True
        return False

    def _together(self, indices: Sequence[int], built: Mapping[str, KernelOutcome]) -> Iterator[Event]:
        """Run one row, or several interleaved rows. Rows that cannot be interleaved, and one that is left alone, run by
        themselves.
        """
        ready = {index: ready_of(self._rows[index], built) for index in indices}
        turns = {index: one for index, one in ready.items() if not isinstance(one, Outcome)}
        for index in indices:
            if index not in turns or len(turns) == 1:
                yield from self._single(index, ready[index])
        if len(turns) > 1:
            yield from self._in_turns(turns)

    def _start(self, indices: Sequence[int]) -> Iterator[Event]:
        yield Started(tuple(indices), len(self._records))
        keys = [self._rows[index].key for index in indices]
        self._started |= dict.fromkeys(keys, now())
        self._journalled(lambda journal: journal.planned(*keys))

    def _single(self, index: int, ready: tuple[Artifact, ...] | Outcome, *notes: str) -> Iterator[Event]:
        yield from self._start([index])
        row = self._rows[index]
        outcome = (
            ready if isinstance(ready, Outcome) else self._believed(row, self._executor.run([row], [ready], index)[0])
        )
        self._keep({index: replace(outcome, notes=(*outcome.notes, *notes), outputs={})})
        yield Judged(index, outcome.outputs)

    def _in_turns(self, turns: Mapping[int, tuple[Artifact, ...]]) -> Iterator[Event]:
        rows = [self._rows[index] for index in turns]
        yield from self._start(list(turns))
        try:
            outcomes = self._executor.run(rows, list(turns.values()))
        except MemoryError as fault:
            reason = shortage(fault, f"{len(rows)} sets of inputs and outputs")
            if rows[0].asked is not None:  # apart, their times still say something
                for index, artifacts in turns.items():
                    yield from self._single(index, artifacts, f"timed by itself: {reason.text}")
                return
            outcomes = [Outcome(verdict=Verdict.OUT_OF_MEMORY, artifacts=a, reasons=(reason,)) for a in turns.values()]
        outcomes = [self._believed(row, outcome) for row, outcome in zip(rows, outcomes, strict=True)]
        self._keep(dict(zip(turns, beside(rows, outcomes), strict=True)))

    def _believed(self, row: Row, outcome: Outcome) -> Outcome:
        """Distrust a time below the roofline floor, after the peak was measured ``PEAK_TRIES`` times more."""
        measured, tries = outcome.measurement, PEAK_TRIES
        if measured is None:
            return outcome
        while reason := impossible(measured.samples_ns, measured.floor):
            # a data sheet does not change
            if not tries or (measured.floor is not None and measured.floor.kind is PeakKind.SPEC):
                return replace(
                    outcome, measurement=measured, verdict=Verdict.MISTRUSTED, reasons=(*outcome.reasons, reason)
                )
            measured, tries = replace(measured, floor=self._book.floor_again(row)), tries - 1
        return replace(outcome, measurement=measured)

    def _keep(self, outcomes: Mapping[int, Outcome]) -> None:
        """Keep the records of rows that ran, each with its ratio to the row that it is compared with."""
        done = {index: self._record(self._rows[index], outcome) for index, outcome in outcomes.items()}
        shared = {index for index, outcome in outcomes.items() if outcome.in_turns and outcome.measurement is not None}
        ratios = ratios_of(list(done), self._rows, {**self._records, **done}, shared)
        done = {index: replace(record, ab=ratios.get(index)) for index, record in done.items()}
        self._journalled(lambda journal: journal.done({self._rows[index].key: one for index, one in done.items()}))
        self._records.update(done)

    def _record(self, row: Row, outcome: Outcome) -> Record:
        record = record_of(row, outcome, self._request, self._context.registry, sources_of(row.problem, self._files))
        key = replace(row.problem, lse=False, splits=0, deterministic=False)
        record = replace(record, notes=(*record.notes, *self._executor.input_notes.get(key, ())))
        record = self._origin.stamped(record, self._started.get(row.key))
        return record if self._baseline is None else replace(record, baseline=self._baseline.ratio(record))

    def _journalled(self, write: Callable[[Journal], None]) -> None:
        """Write into the journal, which writes no more when all its places fail. The rows go on."""
        if self._journal is None:
            return
        try:
            write(self._journal)
        except EnvironmentProblem as fault:
            told = f"{fault.what} any more, and the rows go on without it ({fault.where}: {fault.why})"
            if self._request.journal or self._request.resume:
                self._executor.unwritten.append(told)
            else:
                self._context.voice.say(told)

    def _complete_rows(self) -> Iterator[Event]:
        """Every complete record that was not told yet. With ``--all-kernels`` the default's regret needs its whole group, and of
        several backends the fastest is known when all were timed."""
        for index, row in enumerate(self._rows):
            if index in self._told or index not in self._records:
                continue
            group = [i for i, other in enumerate(self._rows) if other.group == row.group and other.cache is row.cache]
            rivals = [] if row.asked is None else [i for i, other in enumerate(self._rows) if row.compares(other)]
            if any(i not in self._records for i in (*(group if self._request.all_kernels else ()), *rivals)):
                continue
            lead = lead_of([self._rows[i] for i in rivals], [self._records[i] for i in rivals])
            if lead is not None and rivals[lead[0]] == index:
                self._records[index] = replace(self._records[index], lead=lead[1])
            known = [self._records[i] for i in group if i in self._records]
            if self._request.command is Command.BENCH:  # the time of one launch says little
                self._records[index] = with_regret(self._records[index], known)
            self._journalled(partial(Journal.amend, key=row.key, record=self._records[index]))
            self._told.add(index)
            yield Done(index, self._records[index])

    def end(self, *, interrupted: bool) -> Ended:
        """The last event, with one record for every row: rows that did not run are NOT_RUN."""
        outcome = Outcome(verdict=Verdict.NOT_RUN, notes=("interrupted before this row was done",))
        records = tuple(self._records.get(i) or self._record(row, outcome) for i, row in enumerate(self._rows))
        if len(records) != len(self._rows):
            raise InternalError(f"{len(self._rows)} rows were planned, {len(records)} came out")
        journal = self._journal
        return Ended(
            records,
            interrupted,
            journal=None if journal is None else journal.place,
            unwritten=tuple(self._executor.unwritten),
            outside=None if journal is None else journal.outside,
        )


def turns_of(rows: Sequence[Row]) -> list[list[int]]:
    """The numbers of the rows that run together, in the order of the first of each; a row alone is a group of one."""
    groups: dict[object, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(index if row.turns is None else row.turns, []).append(index)
    return list(groups.values())

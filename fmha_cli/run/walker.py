"""``Walker``: takes the rows of a run through build, launch, judge and record, and yields each as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fmha_cli.bench.compare import Regret
from fmha_cli.bench.roofline import PeakKind, impossible
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal
from fmha_cli.run.baseline import Baseline
from fmha_cli.run.builds import KernelOutcome, artifacts_of, build_orders
from fmha_cli.run.completeness import sources_of
from fmha_cli.run.demand import shortage
from fmha_cli.run.events import Built, Done, Event, Judged, Started
from fmha_cli.run.execute import Executor
from fmha_cli.run.input_files import InputFiles
from fmha_cli.run.journals import keys_of
from fmha_cli.run.origin import Origin, now
from fmha_cli.run.outcome import Outcome
from fmha_cli.run.peaks import PeakBook
from fmha_cli.run.records import record_of
from fmha_cli.run.request import Command, Context
from fmha_cli.run.revision import GitRevision
from fmha_cli.run.rows import Row
from fmha_cli.run.turns import beside, lead_of, ratios_of, turns_of

PEAK_TRIES = 5
"""Measurements of the peak before a time counts as impossible. On a busy machine the measured peak is too low."""


@dataclass(kw_only=True)
class Walker:
    """The state of one ``Run`` whose rows are planned.

    Attributes:
        origin: of this invocation's rows.
        revision: the question about the user's repository.
        files: the tensors that were read.
        baseline: earlier results to compare with.
        journal: takes each record.
        past: records of earlier sessions, by row key.
    """

    context: Context
    origin: Origin
    revision: GitRevision
    rows: Sequence[Row]
    files: InputFiles
    baseline: Baseline | None
    journal: Journal | None
    past: Mapping[str, Record]

    def __post_init__(self) -> None:
        self.request, self.registry = self.context.request, self.context.registry
        self.records: dict[int, Record] = {i: self.past[r.key] for i, r in enumerate(self.rows) if r.key in self.past}
        self.told: set[int] = set()
        self.started: dict[str, str] = {}
        self.book = PeakBook(self.context)
        self.executor = Executor(self.context, self.files, self.book)

    def go(self) -> Generator[Event, None, bool]:
        """Build, then run; True when the user interrupted."""
        try:
            built = self._build()
            if built:
                yield Built(tuple(one.value.digest for one in built.values() if one.value is not None))
            self.revision.wait()
            self.origin = self.origin.at(self.revision)
            for indices in turns_of(self.rows):
                if any(index not in self.records for index in indices):
                    yield from self._together(indices, built)
                yield from self._complete_rows()
        except KeyboardInterrupt:
            yield from self._complete_rows()
            return True
        return False

    def _build(self) -> Mapping[str, KernelOutcome]:
        orders = [order for row in self.rows for order in row.orders]
        with self.book.building(self.rows):
            built = build_orders(orders, self.registry, self.context.building)
        # the rows of earlier sessions too: their kernels must be the ones built now
        self._journalled(lambda journal: journal.built(keys_of(built)))
        return built

    def _start(self, indices: Sequence[int]) -> Iterator[Event]:
        yield Started(tuple(indices), len(self.records))
        for key in (self.rows[index].key for index in indices):
            self.started[key] = now()
            self._journalled(partial(Journal.planned, key=key))

    def _single(self, index: int, built: Mapping[str, KernelOutcome], *notes: str) -> Iterator[Event]:
        yield from self._start([index])
        outcome = self._outcome(self.rows[index], built, index)
        self._keep_compared({index: replace(outcome, notes=(*outcome.notes, *notes), outputs={})})
        yield Judged(index, outcome.outputs)

    def _outcome(self, row: Row, built: Mapping[str, KernelOutcome], index: int) -> Outcome:
        if row.choice is None:
            return Outcome(verdict=row.unserved)
        artifacts, failed = artifacts_of(row, built)
        if failed is not None:
            return failed
        if not row.choice.runnable:
            note = f"no device here accepts {row.choice.kernel.arch}; the kernel was built"
            return Outcome(verdict=Verdict.NOT_RUN, artifacts=artifacts, notes=(note,))
        return self._believed(row, self.executor.run(row, artifacts, index))

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
            measured, tries = replace(measured, floor=self.book.floor_again(row)), tries - 1
        return replace(outcome, measurement=measured)

    def _together(self, indices: Sequence[int], built: Mapping[str, KernelOutcome]) -> Iterator[Event]:
        """Run one row, or several interleaved rows. Rows that cannot be interleaved, and one that is left alone, run by
        themselves.
        """
        ready = {index: self._ready(self.rows[index], built) for index in indices}
        turns = {index: artifacts for index, artifacts in ready.items() if artifacts is not None}
        for index in indices:
            if index not in turns or len(turns) == 1:
                yield from self._single(index, built)
        if len(turns) > 1:
            yield from self._in_turns(turns, built)

    def _ready(self, row: Row, built: Mapping[str, KernelOutcome]) -> tuple[Artifact, ...] | None:
        """The inputs of a row's run; None if it does not get so far."""
        if row.choice is None or not row.choice.runnable:
            return None
        artifacts, failed = artifacts_of(row, built)
        return artifacts if failed is None else None

    def _in_turns(
        self, turns: Mapping[int, tuple[Artifact, ...]], built: Mapping[str, KernelOutcome]
    ) -> Iterator[Event]:
        rows = [self.rows[index] for index in turns]
        yield from self._start(list(turns))
        try:
            outcomes = self.executor.run_in_turns(rows, list(turns.values()))
        except MemoryError as fault:
            reason = shortage(fault, f"{len(rows)} sets of inputs and outputs")
            if rows[0].asked is not None:  # apart, their times still say something
                for index in turns:
                    yield from self._single(index, built, f"timed by itself: {reason.text}")
                return
            outcomes = [Outcome(verdict=Verdict.OUT_OF_MEMORY, artifacts=a, reasons=(reason,)) for a in turns.values()]
        outcomes = [self._believed(row, outcome) for row, outcome in zip(rows, outcomes, strict=True)]
        self._keep_compared(dict(zip(turns, beside(rows, outcomes), strict=True)))

    def _keep_compared(self, outcomes: Mapping[int, Outcome]) -> None:
        """Keep the records of rows that ran, each with its ratio to the row that it is compared with."""
        done = {index: self._record(self.rows[index], outcome) for index, outcome in outcomes.items()}
        shared = {index for index, outcome in outcomes.items() if outcome.in_turns and outcome.measurement is not None}
        ratios = ratios_of(list(done), self.rows, {**self.records, **done}, shared)
        self._keep({index: replace(record, ab=ratios.get(index)) for index, record in done.items()})

    def _record(self, row: Row, outcome: Outcome) -> Record:
        record = record_of(row, outcome, self.request, self.registry, sources_of(row.problem, self.files))
        key = replace(row.problem, lse=False, splits=0, deterministic=False)
        record = replace(record, notes=(*record.notes, *self.executor.input_notes.get(key, ())))
        record = self.origin.stamped(record, self.started.get(row.key))
        return record if self.baseline is None else replace(record, baseline=self.baseline.ratio(record))

    def _keep(self, records: Mapping[int, Record]) -> None:
        self._journalled(
            lambda journal: journal.done({self.rows[index].key: one.to_dict() for index, one in records.items()})
        )
        self.records.update(records)

    def _journalled(self, write: Callable[[Journal], None]) -> None:
        """Write into the journal. A disk that is full ends the journal and no row."""
        if self.journal is None:
            return
        try:
            write(self.journal)
        except EnvironmentProblem as fault:
            self.journal = None
            told = f"{fault.what} any more, and the rows go on without it ({fault.where}: {fault.why})"
            if self.request.journal or self.request.resume:
                self.executor.unwritten.append(told)
            else:
                self.context.voice.say(told)

    def _complete_rows(self) -> Iterator[Event]:
        """Every complete record that was not told yet. With ``--all-kernels`` the default's regret needs its whole group, and of
        several backends the fastest is known when all were timed."""
        for index, row in enumerate(self.rows):
            if index in self.told or index not in self.records:
                continue
            group = [i for i, other in enumerate(self.rows) if other.group == row.group and other.cache is row.cache]
            rivals = [] if row.asked is None else [i for i, other in enumerate(self.rows) if row.compares(other)]
            if any(i not in self.records for i in (*(group if self.request.all_kernels else ()), *rivals)):
                continue
            lead = lead_of([self.rows[i] for i in rivals], [self.records[i] for i in rivals])
            if lead is not None and rivals[lead[0]] == index:
                self.records[index] = replace(self.records[index], lead=lead[1])
            known = [self.records[i] for i in group if i in self.records]
            if self.request.command is Command.BENCH:  # the time of one launch says little
                self.records[index] = _with_regret(self.records[index], known)
            self.told.add(index)
            yield Done(index, self.records[index])

    def complete(self) -> tuple[Record, ...]:
        """One record for every row: rows that did not run are NOT_RUN."""
        outcome = Outcome(verdict=Verdict.NOT_RUN, notes=("interrupted before this row was done",))
        out = tuple(self.records.get(i) or self._record(row, outcome) for i, row in enumerate(self.rows))
        if len(out) != len(self.rows):
            raise InternalError(f"{len(self.rows)} rows were planned, {len(out)} came out")
        return out


def _with_regret(record: Record, group: Sequence[Record]) -> Record:
    """The default choice of a group with its regret, if its time and another's can be believed."""
    if not record.default_choice or record.measurement is None:
        return record
    good = [r for r in group if r.measurement is not None and r.verdict is Verdict.PASSED]
    others = [r.measurement.samples_ns for r in good if r.measurement is not None and r is not record]
    if not good:
        return record
    regret = Regret.of(record.measurement.samples_ns, others)
    return replace(record, regret=regret.value, regret_ci95=regret.ci95)

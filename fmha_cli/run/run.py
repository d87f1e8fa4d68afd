"""``Run``: probe, select and plan; then the ``Dispatcher`` takes the rows on. Every requested row gets a record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.report.parts import environment
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal
from fmha_cli.run.baseline import load_baseline, planned_keys
from fmha_cli.run.builds import build_context, emulation_of, refuse_timing
from fmha_cli.run.dispatcher import Dispatcher
from fmha_cli.run.dry_run import dry_outcomes
from fmha_cli.run.events import Ended, Event, Found, Planned
from fmha_cli.run.given_cache import stored
from fmha_cli.run.input_files import InputFiles, read_input_files
from fmha_cli.run.invocation import parts_of
from fmha_cli.run.journals import open_journal
from fmha_cli.run.origin import GitRevision, Origin, now, this_host
from fmha_cli.run.probing import notices, probe_backends
from fmha_cli.run.process import WorkerProcess
from fmha_cli.run.records import record_of
from fmha_cli.run.refusals import check_outputs, generated, refuse_misfits, sources_of
from fmha_cli.run.request import Command, Context, Request
from fmha_cli.run.rows import KnownRows, Row, plan_rows
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.tuned_choice import EntriesOf, chooser_of


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a run has from others: from a sweep, whose driver keeps the journal, or from earlier calls.

    Attributes:
        supervisor: of the worker process, which goes on after the run.
        known: the rows of a run of one problem that was planned before; None plans it.
        past: records of rows that are done already, by number.
    """

    supervisor: Supervisor
    known: KnownRows | None = None
    past: Mapping[int, Record] = field(default_factory=dict)


class Run(Iterator[Event], AbstractContextManager["Run"]):
    """An iterator over the events of one run. It works while it is asked for the next event.

    Ctrl-C ends it: the rows that are done are told, and then the end. ``interrupt`` asks for the same from outside. ``close`` stops it where
    it is, with nothing more told; ``ended`` has all rows then too.

    Args:
        layers: the layers of a model for which each problem stands; empty without a model.
        given: the tensors that are not filled, if they do not come from the files of the request.
        tuned: what ``fmha tune`` remembered of a family of problems; None without a store of it.
        share: set in a worker of a sweep.
        worker: a worker process that was started before; the run ends it.
        voice: hears what is said during long work.
        store: of all runs, which takes the rows; None to keep none.

    Attributes:
        ended: the last event, once there is one.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: by the first call of ``next``, before anything runs.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        request: Request,
        registry: Registry,
        *,
        layers: Sequence[Layer | None] = (),
        given: InputFiles | None = None,
        tuned: EntriesOf | None = None,
        share: Share | None = None,
        worker: WorkerProcess | None = None,
        voice: Voice = SILENT,
        store: Path | None = None,
    ) -> None:
        self._request, self._registry, self._voice, self._share = request, registry, voice, share
        self._store = store
        self._dispatcher: Dispatcher | None = None
        self._journal: Journal | None = None
        self._interrupted = self._over = False
        self.ended: Ended | None = None
        self._events = self._go(problems, layers, given, tuned, worker)

    def __next__(self) -> Event:
        interrupted, self._interrupted = self._interrupted, False
        try:
            return self._events.throw(KeyboardInterrupt()) if interrupted else next(self._events)
        except BaseException:
            self._over = True
            raise

    def interrupt(self) -> bool:
        """Make the next event what it is after Ctrl-C; False if there will be none."""
        self._interrupted = not self._over
        return self._interrupted

    def close(self) -> None:
        """Stop now. The run can be resumed."""
        self._over = True
        self._events.close()
        if self.ended is None and self._dispatcher is not None:
            self.ended = self._dispatcher.end(interrupted=True)

    def __exit__(self, *exc: object) -> None:
        self.close()

    def finish(self, take: Callable[[Event], None] = lambda event: None) -> Ended:
        """Go on to the end, and hand every event to ``take``. Ctrl-C while it has one counts as in the run itself; an error of it closes
        the run."""
        with self:
            while not self._over:
                try:
                    for event in self:
                        take(event)
                except KeyboardInterrupt:
                    if not self.interrupt():
                        raise
        assert self.ended is not None
        return self.ended

    def records(self) -> tuple[Record, ...]:
        """Go on to the end: the record of every row.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        ended = self.finish()
        if ended.interrupted:
            raise KeyboardInterrupt
        return ended.records

    def _go(
        self,
        problems: Sequence[Problem],
        layers: Sequence[Layer | None],
        given: InputFiles | None,
        tuned: EntriesOf | None,
        worker: WorkerProcess | None,
    ) -> Generator[Event, None, None]:
        request, registry, voice, share = self._request, self._registry, self._voice, self._share
        with ExitStack() as kept, ExitStack() as stack:
            supervisor = share.supervisor if share else stack.enter_context(Supervisor(first=worker))
            check_outputs(problems, request)
            refuse_timing(request)
            files = read_input_files(request.files) if given is None else given
            points = [stored(problem, files.arrays) for problem in problems]
            refuse_misfits(points, files)
            baseline = None if request.dry_run or not request.baseline else load_baseline(Path(request.baseline))
            revision = stack.enter_context(GitRevision())
            if not request.dry_run:
                supervisor.start()  # it starts while rows are planned and kernels are built
            found = probe_backends(registry, wanted_backends(registry, request.wanted), supervisor, request.device)
            yield Found(found)
            if share is not None and share.known is not None:
                rows = share.known.plan(points[0], request, registry, found)
            else:
                chooser = chooser_of(request, registry, found, tuned, voice)
                rows = plan_rows(points, request, registry, found, voice, layers, chooser)
            yield Planned(tuple(rows))
            check_outputs(points, request, len(rows))
            if request.dry_run:
                self.ended = self._show(rows, files)
                yield self.ended
                return
            for line in notices(rows, registry, found):
                voice.say(line)
            context = self._context(rows, files, supervisor)
            if baseline is not None:
                planned = planned_keys(rows, context.threads)
                for line in baseline.coverage(planned):
                    voice.say(line)
                baseline = baseline.among(planned)
            origin = Origin.new(this_host(), request)
            parts = partial(parts_of, rows, context, files, found, origin.host)
            if share is None:
                seen = partial(environment, found)
                self._journal = open_journal(rows, request, origin.run, parts, self._store, seen)
            past = {rows[number].key: record for number, record in share.past.items()} if share else {}
            if self._journal is not None:
                kept.enter_context(self._journal)
                stack.callback(lambda journal: journal.settle(now()), self._journal)
                origin, past = origin.within(self._journal.state.start), self._journal.state.records
            self._dispatcher = dispatcher = Dispatcher(
                context,
                rows,
                files,
                origin=origin,
                revision=revision,
                baseline=baseline,
                journal=self._journal,
                past=past,
            )
            interrupted = yield from dispatcher.go()
            stack.close()
            self.ended = dispatcher.end(interrupted=interrupted)
            yield self.ended
            if self._journal is not None and not interrupted:
                self._journal.complete()

    def _context(self, rows: Sequence[Row], files: InputFiles, supervisor: Supervisor) -> Context:
        """What the rows share. An emulator that they need is built."""
        request, registry = self._request, self._registry
        building = build_context(request, self._voice)
        runs = any(row.choice is not None and row.choice.runnable for row in rows)
        if request.command is Command.VALIDATE and files.arrays:
            # where no tensor is generated there is only one data set, whichever fills were requested
            filled = any(generated(row.problem, files) for row in rows if row.choice is not None)
            request = request if filled else replace(request, fills=request.fills[:1])
        return Context(
            request=request,
            registry=registry,
            supervisor=supervisor,
            building=building,
            emulation=emulation_of(request, registry, building) if runs else None,
            voice=self._voice,
            dbias_shape=files.arrays["bias"].shape if "bias" in files.arrays else None,
        )

    def _show(self, rows: Sequence[Row], files: InputFiles) -> Ended:
        """The end of a dry run. Nothing is stamped or written, and a kernel is built only to show its launches."""
        outcomes, missing = dry_outcomes(rows, self._request, self._registry, self._voice)
        pairs = zip(rows, outcomes, strict=True)
        sources = [sources_of(row.problem, files) for row in rows]
        made = (record_of(*pair, self._request, self._registry, of) for pair, of in zip(pairs, sources, strict=True))
        return Ended(tuple(made), interrupted=False, missing=missing)

"""``fmha tune``: every problem in turn: build its candidates, search, confirm the fastest, and remember it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from fmha_cli.bench.entry import RememberedChoice, Result
from fmha_cli.bench.roofline import CacheState
from fmha_cli.bench.search import Method, Policy, search
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.report.documents.tune import Tuned, TuneRow
from fmha_cli.run.builds import build_context, refuse_timing
from fmha_cli.run.execute import Executor
from fmha_cli.run.origin import Origin, now, this_host
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.records import record_of
from fmha_cli.run.request import Context, Request
from fmha_cli.run.rows import Row
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.tuned_choice import Scopes
from fmha_cli.tune.candidates import Candidates, build_within, candidates_of
from fmha_cli.tune.confirming import Confirmer, gain_of
from fmha_cli.tune.course import Course
from fmha_cli.tune.resuming import Chosen, Notes, Searched, notes_of
from fmha_cli.tune.sampling import KernelSampler, Ring, timed

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """The options of ``fmha tune``, without its problems.

    Attributes:
        request: of ``bench``; its budget is that of each process of a confirmation.
        budget_s: time for the search of one problem; None = until it ends.
        build_budget_s: time for the builds of one problem; None = all.
        min_gain: the least gain of a winner, as a share.
        processes: fresh processes of each kernel in a confirmation.
        environ: the variables that they inherit.
        states: the folder in which an interrupted run keeps its state, and from which the same run continues; None to
            keep none.
        anew: discard what an earlier session kept.
        place: the store; a run with another store is another run.
    """

    request: Request
    method: Method = Method.HALVING
    policy: Policy = field(default_factory=Policy)
    budget_s: float | None = None
    build_budget_s: float | None = None
    min_gain: float = 0.02
    processes: int = 5
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    states: Path | None = None
    anew: bool = False
    place: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Everything except ``request`` that could change a choice, by readable names."""
        apart = {"request", "environ", "states", "anew"}
        return {one.name: str(getattr(self, one.name)) for one in fields(self) if one.name not in apart}


@dataclass(frozen=True)
class TuneResult:
    """One row for each problem, in order; ``outside`` says why the store does not have the records."""

    rows: tuple[TuneRow, ...]
    interrupted: bool
    outside: str | None = None


def tune(
    points: Sequence[Problem],
    asked: TuneRequest,
    registry: Registry,
    *,
    on_entry: Callable[[RememberedChoice], None] = lambda entry: None,
    progress: Progress = lambda done, total, what: None,
    voice: Voice = SILENT,
) -> TuneResult:
    """Tune every problem.

    Args:
        on_entry: receives each entry to remember, as soon as it is known.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: before anything runs.
    """
    request = asked.request
    refuse_timing(request)
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor())
        supervisor.start()
        found = probe_backends(registry, wanted_backends(registry, request.wanted), supervisor, request.device)
        every = [candidates_of(problem, registry, found, request.wanted) for problem in points]
        building = build_context(request, voice)
        context = Context(request=request, registry=registry, supervisor=supervisor, building=building, voice=voice)
        host = this_host()
        scopes = Scopes(registry=registry, found=found, building=building, host=host, threads=context.threads)
        origin = Origin.new(host, request)
        origin = replace(origin, run=replace(origin.run, command="tune"))
        store = None if asked.place is None else Path(asked.place)
        notes = notes_of(every, asked.states, asked.parts, context, scopes, origin, stack, store=store, anew=asked.anew)
        if notes.journal is not None:
            origin = origin.within(notes.journal.state.start)
        tuner = _Tuner(asked, context, scopes, origin, notes, on_entry, progress)
        rows, interrupted = list[TuneRow](), False
        for number, candidates in enumerate(every):
            row, interrupted = tuner.row(candidates, number, len(every), skip=interrupted)
            rows.append(row)
        if notes.journal is not None:
            notes.journal.settle(now())
            if not interrupted:
                notes.journal.complete()
    return TuneResult(tuple(rows), interrupted, None if notes.journal is None else notes.journal.outside)


@dataclass
class _Tuner:
    """The common part of all problems of an invocation."""

    asked: TuneRequest
    context: Context
    scopes: Scopes
    origin: Origin
    notes: Notes
    on_entry: Callable[[RememberedChoice], None]
    progress: Progress

    def row(self, candidates: Candidates, number: int, total: int, *, skip: bool) -> tuple[TuneRow, bool]:
        """The row of a problem, and whether the user interrupted.

        Args:
            skip: the user interrupted before.
        """
        course = Course.of(candidates)
        if candidates.default is None:
            return course.end(Tuned.UNSUPPORTED), skip
        if (row := self._kept(candidates, number)) is not None:
            return row, skip
        if skip or self.asked.request.dry_run:
            return course.end(Tuned.INTERRUPTED if skip else Tuned.PLANNED), skip
        what = candidates.problem.repro()
        self.progress(number, total, what)
        try:
            state = self._tuned(course, number)
        except KeyboardInterrupt:
            state = Tuned.INTERRUPTED
        self.progress(number + 1, total, what)
        row = course.end(state)
        if state is not Tuned.INTERRUPTED:
            entry = None if course.entry is None else course.entry.to_dict()
            self.notes.keep_choice(number, Chosen(row=row, entry=entry))
        return row, state is Tuned.INTERRUPTED

    def _kept(self, candidates: Candidates, number: int) -> TuneRow | None:
        """The row of a problem that an earlier session finished; None if it is to be tuned."""
        chosen = self.notes.choices.get(number)
        if chosen is None:
            return None
        entry = None if chosen.entry is None else RememberedChoice.from_dict(chosen.entry)
        if entry is not None and (differs := self._differences(candidates, entry)):
            self.context.voice.say(f"{chosen.row.flags} is tuned anew: {'; '.join(differs)}")
            self.notes.forget(number)
            return None
        if entry is not None:
            self.on_entry(entry)
        return chosen.row

    def _differences(self, candidates: Candidates, entry: RememberedChoice) -> tuple[str, ...]:
        """The differences between now and the time of a choice: the kernels' sources, in particular."""
        named = {choice.kernel.name: choice for choice in candidates.choices}
        if not {entry.kernel, entry.default} <= named.keys():
            return ("its kernels are others now",)
        choices = named[entry.kernel], named[entry.default]
        return entry.scope.differences(self.scopes.of(entry.problem, choices, CacheState(entry.scope.cache)))

    def _tuned(self, course: Course, number: int) -> Tuned:
        """Process a problem as far as possible; ``course`` keeps the findings. Raises KeyboardInterrupt."""
        course.rows = course.candidates.rows(self.context.registry, CacheState(self.asked.request.cache), number)
        searched = self._searched(course, number)
        if not searched.order:
            course.add(why="no kernel ran and was right")
            return Tuned.FAILED
        named = {row.choice.kernel.digest: row for row in course.rows if row.choice is not None}
        best, default = named[searched.order[0]], course.rows[0]
        if default.choice is None or default.choice.kernel.digest not in searched.running:
            course.add(why="the default did not run, so that nothing can be compared with it")
            return Tuned.FAILED
        if best.default:
            course.add(why=f"the default is the fastest of {searched.good}")
        else:
            self._confirm(course, default, best)
        state = Tuned.TUNED if course.row.why is None else Tuned.KEPT
        self._remember(course, default, best if state is Tuned.TUNED else default)
        return state

    def _searched(self, course: Course, number: int) -> Searched:
        """The search of a problem, now or in an earlier session. Raises KeyboardInterrupt."""
        asked = self.asked
        past = self.notes.searches.get(number)
        if past is not None:
            course.row = past.row
            course.add(why=None)
            return past
        self.notes.begin(number)
        try:
            with _timing(course, "build_ns"):
                course.built = build_within(
                    course.rows, self.context.registry, self.context.building, asked.build_budget_s
                )
            with _timing(course, "search_ns"):
                self._search(course)
        finally:
            course.count(asked.policy, asked.build_budget_s)
            with suppress(KeyboardInterrupt):
                self._keep_records(course, number)
        searched = course.searched()
        self.notes.keep_search(number, searched)
        return searched

    def _search(self, course: Course) -> None:
        asked, context = self.asked, self.context
        executor = Executor(context)
        ready = [row for row in course.rows if all(order.key in course.built for order in row.orders)]
        with Ring(context, executor) as ring, context.supervisor.holding(len(ready)):
            try:
                for row in ready:
                    course.contenders.append(ring.enter(row, course.built))
                course.good = [one for one in course.contenders if one.launch is not None]
                if course.good:
                    sampler = KernelSampler(course.good, asked.budget_s)
                    course.found = search(len(course.good), sampler, asked.method, asked.policy)
            finally:
                for one in course.contenders:
                    times = timed(one, whole=course.found is not None)
                    if times is not None:
                        one.outcome = replace(one.outcome, measurement=executor.measurement(one.row, times))

    def _confirm(self, course: Course, default: Row, best: Row) -> None:
        """Keep the difference, and why the default is kept; no reason if it is not."""
        asked = self.asked
        confirmer = Confirmer(
            request=asked.request,
            registry=self.context.registry,
            environ=asked.environ,
            processes=asked.processes,
            min_gain=asked.min_gain,
        )
        with _timing(course, "confirm_ns"):
            self.context.supervisor.close()  # nothing of this process runs while they are timed
            difference, why = confirmer.confirm(default, best)
        course.add(difference=difference, why=why)

    def _remember(self, course: Course, default: Row, winner: Row) -> None:
        assert winner.choice is not None
        assert default.choice is not None
        row = course.row
        tuned = row.why is None
        gain, ends = gain_of(row.difference) if tuned and row.difference is not None else (None, None)
        course.add(kernel=winner.choice.kernel.digest, gain=gain, gain_ci95=ends)
        course.entry = RememberedChoice(
            problem=winner.problem,
            scope=self.scopes.of(winner.problem, (winner.choice, default.choice), winner.cache),
            result=Result.TUNED if tuned else Result.KEPT,
            default=default.choice.kernel.name,
            kernel=winner.choice.kernel.name,
            gain=gain,
            gain_ci95=ends,
            run=self.origin.run.id,
            made=now(),
            why=row.why,
        )
        self.on_entry(course.entry)

    def _keep_records(self, course: Course, number: int) -> None:
        """Keep the record of every candidate that was built or failed to be."""
        request = replace(self.asked.request, all_kernels=True)  # as the rows of bench --all-kernels
        records = []
        for one in course.contenders:
            record = self.origin.stamped(record_of(one.row, one.outcome, request, self.context.registry, {}), None)
            if one.row.choice is not None:
                record = replace(record, row=self.notes.row_of(number, one.row.choice.kernel.digest))
            records.append(record)
        self.notes.keep_records(records)


@contextmanager
def _timing(course: Course, name: str) -> Iterator[None]:
    """Keep the wall time of the body, also if it is interrupted."""
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        course.add(**{name: time.perf_counter_ns() - start})

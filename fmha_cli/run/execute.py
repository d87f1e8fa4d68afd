"""Run one row: judge it, time it (alone or interleaved), keep the requested outputs, and return its Outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.conditions import Ceiling, between, look
from fmha_cli.bench.measurement import Measurement, measurement_of
from fmha_cli.bench.roofline import CONTRADICTED, Bound, CacheState
from fmha_cli.domain.device import CPU
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.phases import Phase
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.dropout import STREAMS
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array, Inputs
from fmha_cli.report.parts import OUTPUTS
from fmha_cli.report.target import refused
from fmha_cli.run.arena import Arena, check_device, reference_bytes, shortage
from fmha_cli.run.builds import UNTIMED
from fmha_cli.run.cases import Cases
from fmha_cli.run.input_files import NONE_GIVEN, InputFiles, fitted
from fmha_cli.run.job import JobResult, WorkerJob, untimed
from fmha_cli.run.judge import JudgePolicy, judge, recheck
from fmha_cli.run.layout import layout_of
from fmha_cli.run.peaks import PeakBook, settings_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.refusals import out_path
from fmha_cli.run.request import Command, Context
from fmha_cli.run.rows import Row
from fmha_cli.run.tensor_files import write_tensors
from fmha_cli.run.timing import (
    LONG_NS,
    Launcher,
    Mistimed,
    RowFailed,
    Timed,
    in_processes,
    policy_of,
    sample,
    sample_turns,
)

_TIMED = (Verdict.PASSED, Verdict.UNCHECKED, Verdict.MISTRUSTED)
"""Verdicts after which a time is meaningful."""

_AGAIN_NS = 500_000_000
"""``run`` times a second launch, judged like the first, unless the first took longer than this."""


class Executor:
    """Runs rows in one worker; rows of one problem share inputs and reference.

    Args:
        given: the tensors that are not filled.
        book: where the peaks of a row are looked up; None: times are compared with no peak.

    Attributes:
        unwritten: files of ``--out`` and ``--save-failures`` that could not be written, each with the reason.
        input_notes: what was done to given tensors, by the problem of their case.
    """

    def __init__(self, context: Context, given: InputFiles = NONE_GIVEN, book: PeakBook | None = None) -> None:
        self._context, self._given, self._book = context, given, book
        self._request, self._registry, self._supervisor = context.request, context.registry, context.supervisor
        self.unwritten: list[str] = []
        self.input_notes: dict[Problem, tuple[str, ...]] = {}
        self._cases = Cases(
            self._inputs,
            oracle_s=context.request.oracle_s,
            seed=context.request.fill_seed,
            streams={**STREAMS, **context.registry.dropout_streams},
            given=frozenset(given.arrays),
            voice=context.voice,
        )

    def _inputs(self, problem: Problem, kind: str) -> Inputs:
        arrays, notes = fitted(problem, self._given)
        self.input_notes[problem] = tuple(notes)
        custom = self._registry.fills if kind in self._registry.fills else None
        return fill(problem, kind, self._request.fill_seed, given=arrays, custom=custom)

    def run(self, rows: Sequence[Row], artifacts: Sequence[tuple[Artifact, ...]], index: int = 0) -> list[Outcome]:
        """Judge a row, or rows of one problem that take turns; time the good ones, and judge what the timed launches left.

        Args:
            index: number of a row alone, whose outputs and failures are written to files.

        Raises:
            MemoryError: the tensors of several rows do not fit into memory together; none of them is kept.
            KeyboardInterrupt: the user interrupted; the rows are not done.
        """
        settings = [settings_of(row, built, self._context) for row, built in zip(rows, artifacts, strict=True)]
        jobs = [self.job(*of) for of in zip(rows, artifacts, settings, strict=True)]
        alone = len(rows) == 1
        with ExitStack() as stack:
            try:
                arenas = [stack.enter_context(self.arena(job)) for job in jobs]
            except MemoryError as fault:
                if not alone:
                    raise
                reason = shortage(fault, "inputs, outputs and reference")
                return [Outcome(verdict=Verdict.OUT_OF_MEMORY, artifacts=artifacts[0], reasons=(reason,))]
            stack.enter_context(self._supervisor.holding(len(jobs)))
            judged = [self.judge(job, arena) for job, arena in zip(jobs, arenas, strict=True)]
            if not alone and any(one.verdict is Verdict.OUT_OF_MEMORY for one in judged):
                raise MemoryError("; ".join(note for one in judged for note in one.notes) or "on the device")
            timed: list[Timed | None] = [None for _ in rows]
            if not jobs[0].device.emulated:  # times on an emulated device mean nothing
                judged, timed = self._timed(rows, jobs, arenas, judged)
                if any(one.verdict is Verdict.OUT_OF_BOUNDS for one in judged):
                    self._supervisor.retire()  # a kernel wrote where it must not
            if alone:
                judged = [self._with_files(rows[0], judged[0], index)]
        shared = sum(one is not None for one in timed) > 1
        outcomes = [self.with_times(*of) for of in zip(rows, judged, timed, strict=True)]
        return [
            replace(
                one,
                artifacts=built,
                settings=used,
                in_turns=shared and one.measurement is not None,
                outputs=one.outputs if alone else {},
            )
            for one, built, used in zip(outcomes, artifacts, settings, strict=True)
        ]

    def _with_files(self, row: Row, judged: Outcome, index: int) -> Outcome:
        """The outcome with its outputs as they are handed out: dBias in the shape of a given bias. The files of a row are written."""
        known, outputs, shape = len(self.unwritten), judged.outputs, self._context.dbias_shape
        if shape is not None and "dbias" in outputs:
            outputs = {**outputs, "dbias": outputs["dbias"].reshape(shape)}
        out = self._written(lambda: self._write_out(outputs, index))
        saved = self._written(lambda: self._save_failure(row, judged))
        return replace(judged, outputs=outputs, out=out, saved=saved, notes=(*judged.notes, *self.unwritten[known:]))

    def _timed(
        self, rows: Sequence[Row], jobs: Sequence[WorkerJob], arenas: Sequence[Arena], judged: list[Outcome]
    ) -> tuple[list[Outcome], list[Timed | None]]:
        """The rows after their timed launches. ``run`` times a judged launch, ``bench`` the launches after it."""
        command, first = self._request.command, judged[0].stage_ns
        if command is Command.VALIDATE:
            return judged, [Timed(one.stage_ns[-1:]) if one.stage_ns else None for one in judged]
        if command is Command.RUN:
            again = sum(sum(stages) for stages in first) < _AGAIN_NS
            judged = [self._rechecked(*of, again=again) for of in zip(jobs, arenas, judged, strict=True)]
            return judged, [Timed(one.stage_ns[-1:], warmup=len(one.stage_ns) - 1) for one in judged]
        launchers = [self.launcher(*of) for of in zip(jobs, arenas, rows, strict=True)]
        # kernels of one backend disturb each other alike, and evicted caches have no warm state to come back to
        lead = rows[0].asked is not None if len(rows) > 1 else bool(first) and sum(first[-1]) <= LONG_NS
        good = [row if one.verdict in _TIMED else None for row, one in zip(rows, judged, strict=True)]
        before, start = [self._ceiling(row) for row in good], look()
        judged, timed = self._sampled(launchers, judged, lead=lead and rows[0].cache is CacheState.HOT)
        if any(one is not None for one in timed):
            here = between(start, look())
            ends = zip(before, [self._ceiling(row) for row in good], strict=True)
            ceilings = [Ceiling(bound=a[0], before=a[1], after=b[1]) if a and b else None for a, b in ends]
            cpu = [row is not None and row.choice is not None and row.choice.device.id == CPU for row in good]
            timed = [
                one and replace(one, ceiling=ceiling, conditions=here if on_cpu else None)
                for one, ceiling, on_cpu in zip(timed, ceilings, cpu, strict=True)
            ]
        judged = [
            # the worker of a launch that failed alone is gone
            one if launcher.failed is not None and len(rows) == 1 else self._rechecked(job, arena, one, launcher)
            for job, arena, one, launcher in zip(jobs, arenas, judged, launchers, strict=True)
        ]
        return judged, timed

    def _sampled(
        self, launchers: Sequence[Launcher], judged: list[Outcome], *, lead: bool
    ) -> tuple[list[Outcome], list[Timed | None]]:
        """The times of the good ones, interleaved. One whose launch fails, or whose times cannot be true, drops out,
        and the others start again.
        """
        judged = list(judged)
        good = [n for n, one in enumerate(judged) if one.verdict in _TIMED]
        found: Sequence[Timed] = ()
        while good and not found:
            try:
                found = self._samples([launchers[n] for n in good], lead=lead)
            except (RowFailed, Mistimed):
                broken = next(n for n in good if launchers[n].failed is not None or launchers[n].mistimed is not None)
                fault = launchers[broken].failed
                judged[broken] = judged[broken] if fault is None else _failed(judged[broken], fault)
                good.remove(broken)
        return judged, [found[good.index(n)] if n in good else None for n in range(len(judged))]

    def _samples(self, sides: Sequence[Launcher], *, lead: bool = False) -> tuple[Timed, ...]:
        """The samples of interleaved rows, or of one row alone, in as many processes as the request wants.

        Args:
            lead: as for ``sample`` and ``sample_turns``.
        """
        request = self._request
        policy = policy_of(request.budget_s, request.max_time_s, request.processes)

        def once(process: int) -> tuple[Timed, ...]:
            def told(spent: int, limit: int) -> None:  # of all processes
                self._context.voice.phase(Phase.TIME, process * limit + min(spent, limit), request.processes * limit)

            if len(sides) == 1:
                return (sample(sides[0], policy, told, lead=lead),)
            return sample_turns(sides, policy, request.fill_seed + process, told, lead=lead)

        return in_processes(request.processes, self._supervisor.renew, once)

    def _ceiling(self, row: Row | None) -> tuple[Bound, float] | None:
        return None if row is None or self._book is None else self._book.ceiling(row)

    def arena(self, job: WorkerJob) -> Arena:
        """The memory of a job's tensors. Raises MemoryError: it, the copies of its tensors and the reference do not fit; nothing was allocated."""
        problem, request = job.plan.problem, self._request
        check_device(job.plan, job.device)
        layout = layout_of(problem, job.plan.workspaces, gaps=request.command is Command.VALIDATE)
        return Arena(layout, also=reference_bytes(problem) if request.check else 0)

    def job(self, row: Row, artifacts: tuple[Artifact, ...], settings: Settings | None) -> WorkerJob:
        """The worker's input to run a row that has a kernel."""
        assert row.choice is not None
        assert row.plan is not None
        backend = row.choice.kernel.backend
        values = () if settings is None else tuple(sorted(settings.values.items()))
        return WorkerJob(
            entry=self._registry.entry_point(backend),
            device=replace(row.choice.device, settings=values),
            plan=row.plan,
            artifacts=artifacts,
            threads=self._context.threads,
            emulation=self._context.emulation if row.choice.device.emulated else None,
        )

    def judge(self, job: WorkerJob, arena: Arena) -> Outcome:
        """Run a job once for each fill and repeat that the request wants, and judge it."""
        request = self._request
        validating = request.command is Command.VALIDATE
        policy = replace(
            self._policy(job),
            fills=request.fills if validating else request.fills[:1],
            repeats=max(1, request.repeats) if validating else 1,
            all_rows=validating and request.fills == FILLS,
            late=validating,
        )
        return judge(self._supervisor, job, arena, self._cases, policy, self._context.voice)

    def _policy(self, job: WorkerJob) -> JudgePolicy:
        request, stream = self._request, self._registry.backend(job.backend).dropout_stream
        return JudgePolicy(check=request.check, timeout=request.timeout or None, stream=stream)

    def _rechecked(
        self, job: WorkerJob, arena: Arena, judged: Outcome, launcher: Launcher | None = None, *, again: bool = True
    ) -> Outcome:
        """The judgement after the launches of ``launcher``, if there were any; a row that has failed stays as it is."""
        if judged.verdict not in _TIMED:
            return judged
        after = recheck(
            self._supervisor,
            job,
            arena,
            self._cases,
            self._policy(job),
            judged,
            timed=0 if launcher is None else len(launcher.waited_ns),
            again=again,
            voice=self._context.voice,
        )
        if launcher is None:
            return after
        note = untimed(launcher.totals_ns, launcher.waited_ns)
        notes = (*after.notes, note) if note else after.notes
        return replace(after, notes=notes, mistimed=launcher.mistimed or after.mistimed)

    def launcher(self, job: WorkerJob, arena: Arena, row: Row) -> Launcher:
        """The launcher of a judged job, in the cache mode of its row."""
        cold, timeout = row.cache is CacheState.COLD, self._request.timeout or None

        def run(count: int) -> JobResult:
            return self._supervisor.run(
                job, arena, launches=count, cold=cold, upload=False, download=False, timeout=timeout
            )

        return Launcher(run)

    def with_times(self, row: Row, judged: Outcome, timed: Timed | None) -> Outcome:
        """The outcome of a row that was judged, with its times if they can be believed."""
        if row.choice is not None and row.choice.device.emulated:
            untimed = (UNTIMED,) if self._request.command is Command.BENCH else ()
            return replace(judged, reasons=(*judged.reasons, *untimed))
        if judged.verdict not in _TIMED:
            return judged
        if judged.mistimed:
            reason = Reason(CONTRADICTED, judged.mistimed, "the session's timer is wrong: no time of this row counts")
            return replace(judged, verdict=Verdict.MISTRUSTED, reasons=(*judged.reasons, reason))
        return judged if timed is None else replace(judged, measurement=self.measurement(row, timed))

    def measurement(self, row: Row, timed: Timed) -> Measurement:
        """The times of a row, with its peaks."""
        return measurement_of(
            row.problem,
            timed.launches,
            warmup=timed.warmup,
            stop=timed.stop,
            cache=row.cache,
            threads=self._context.threads,
            peaks=None if self._book is None else self._book.peaks(row),
            dense=self._request.flops_dense,
            ceiling=timed.ceiling,
            process_of_sample=timed.processes,
            conditions=timed.conditions,
        )

    def _written(self, write: Callable[[], str | None]) -> str | None:
        """The file that ``write`` wrote, None if there was none to write or it could not be written. Amid a sweep, a disk
        that is full costs the row a note and not the other rows."""
        try:
            return write()
        except EnvironmentProblem as fault:
            self.unwritten.append(fault.in_one_line)
        except (BrokenPipeError, MemoryError) as fault:
            self.unwritten.append(f"the tensors could not be written: {fault or type(fault).__name__}")
        return None

    def _write_out(self, outputs: Mapping[str, Array], index: int) -> str | None:
        if self._request.out is None or not outputs:
            return None
        path = out_path(self._request.out, index)
        write_tensors(path, {name: outputs[name] for name in OUTPUTS if name in outputs})
        return str(path)

    def _save_failure(self, row: Row, judged: Outcome) -> str | None:
        folder, fill = self._request.save_failures, judged.fill
        if folder is None or judged.verdict in (Verdict.PASSED, Verdict.UNCHECKED) or not judged.outputs or not fill:
            return None
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise refused("--save-failures", folder, fault) from fault
        path = Path(folder) / f"{row.key}.safetensors"
        assert row.choice is not None
        stream = self._registry.backend(row.choice.kernel.backend).dropout_stream
        inputs = self._cases.case(row.problem, fill, stream=stream, check=False).inputs
        write_tensors(path, {**inputs, **{f"out.{k}": v for k, v in judged.outputs.items()}}, "--save-failures")
        return str(path)


def _failed(judged: Outcome, fault: RowFailed) -> Outcome:
    notes = (*judged.notes, str(fault))
    return replace(judged, verdict=fault.verdict, notes=notes, log=fault.log or judged.log)

"""Running one row: judge it, time it (alone or in turns with another), keep the requested outputs, and return its Fate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.verdict import Verdict
from fmha_cli.execution.arena import Arena
from fmha_cli.execution.cases import Cases
from fmha_cli.execution.job import Job
from fmha_cli.execution.judge import Judged, JudgePolicy, judge
from fmha_cli.execution.layout import layout_of
from fmha_cli.measure.ab import AbSampler, orders
from fmha_cli.measure.measurement import Measurement, measurement_of
from fmha_cli.measure.roofline import CacheState, Peaks
from fmha_cli.measure.sampling import Sampler, SamplingPolicy
from fmha_cli.walk.builds import Built
from fmha_cli.walk.records import Fate
from fmha_cli.walk.request import Command, Context
from fmha_cli.walk.rows import Row
from fmha_cli.walk.tensor_io import write_tensors

_TIMED = (Verdict.PASSED, Verdict.UNCHECKED, Verdict.MISTRUSTED)
"""Verdicts after which a time is meaningful."""

_AGAIN_NS = 500_000_000
"""``run`` launches once more for its sample unless the judged launch took longer than this."""

_TENSORS_KEPT = ("o", "lse", "dq", "dk", "dv", "dbias")

Launch = Callable[[int], tuple[tuple[int, ...], ...]]
"""Launches n times in a row: nanoseconds per launch and stage. Raises ``RowFailed`` if the kernel does not survive."""


@dataclass(frozen=True)
class Timed:
    """Raw launches, warm-up included, and the wall time they took with everything around them (evictions)."""

    launches: tuple[tuple[int, ...], ...]
    spent_ns: int


class RowFailed(Exception):
    """A launch of a row that is being timed did not survive."""

    def __init__(self, verdict: Verdict, note: str, log: str) -> None:
        super().__init__(note)
        self.verdict = verdict
        self.log = log


class Executor:
    """Runs rows in one worker; rows of one problem share inputs and reference.

    Args:
        cases: inputs and references.
        peaks: the peaks for a row, None if they are unknown; called after the row passed.
    """

    def __init__(self, context: Context, cases: Cases, peaks: Callable[[Row], Peaks | None]) -> None:
        self._context, self._cases, self._peaks = context, cases, peaks
        self._request, self._registry, self._supervisor = context.request, context.registry, context.supervisor

    def run(self, row: Row, artifacts: tuple[Artifact, ...], index: int) -> Fate:
        """Judge a row, then time it.

        Raises:
            KeyboardInterrupt: the user interrupted; the row is not done.
        """
        request = self._request
        job = self._job(row, artifacts)
        try:
            arena = Arena(layout_of(job.plan.problem, job.plan.workspaces, gaps=request.command is Command.VALIDATE))
        except MemoryError as fault:
            return Fate(verdict=Verdict.OUT_OF_MEMORY, artifacts=artifacts, notes=(f"no memory for tensors: {fault}",))
        with arena:
            judged = self._judge(job, arena)
            out, saved = self._write_out(judged, index), self._save_failure(row, judged)
            fate = replace(Fate.of(judged, artifacts), out=out, saved=saved)
            if judged.verdict not in _TIMED or job.device.emulated:  # times on an emulated device mean nothing
                return fate
            try:
                return replace(fate, measurement=self._measured(row, job, arena, judged))
            except RowFailed as fault:
                return replace(fate, verdict=fault.verdict, notes=(*fate.notes, str(fault)), log=fault.log or None)

    def run_pair(
        self, rows: tuple[Row, Row], artifacts: tuple[tuple[Artifact, ...], tuple[Artifact, ...]]
    ) -> tuple[Fate, Fate]:
        """Judge two rows of one problem, then time them in turns."""
        jobs = [self._job(row, built) for row, built in zip(rows, artifacts, strict=True)]
        fates: list[Fate] = []
        try:
            with ExitStack() as stack:
                arenas = [stack.enter_context(Arena(layout_of(job.plan.problem, job.plan.workspaces))) for job in jobs]
                judged = [self._judge(job, arena) for job, arena in zip(jobs, arenas, strict=True)]
                fates = [Fate.of(j, built) for j, built in zip(judged, artifacts, strict=True)]
                if all(j.verdict in _TIMED for j in judged):
                    launches = [
                        self._launch(job, arena, rows[0].cache) for job, arena in zip(jobs, arenas, strict=True)
                    ]
                    timed = sample_pair(launches[0], launches[1], self._policy(), self._request.fill_seed)
                    warm = AbSampler(self._policy()).warmup(*([sum(t) for t in side.launches] for side in timed)) or 0
                    counted = [replace(side, launches=side.launches[warm:] or side.launches) for side in timed]
                    fates = [
                        replace(fate, measurement=self._measurement(row, side))
                        for fate, row, side in zip(fates, rows, counted, strict=True)
                    ]
        except MemoryError as fault:
            note = f"no memory for two sets of tensors: {fault}"
            fates = [Fate(verdict=Verdict.OUT_OF_MEMORY, artifacts=a, notes=(note,)) for a in artifacts]
        except RowFailed as fault:
            fates = [replace(f, verdict=fault.verdict, notes=(*f.notes, str(fault))) for f in fates]
        return fates[0], fates[1]

    def _job(self, row: Row, artifacts: tuple[Artifact, ...]) -> Job:
        assert row.choice is not None
        assert row.plan is not None
        backend = row.choice.kernel.backend
        return Job(
            entry=self._registry.entry_point(backend),
            device=row.choice.device,
            plan=row.plan,
            artifacts=artifacts,
            threads=self._context.threads,
            emulation=self._context.emulation if row.choice.device.emulated else None,
        )

    def _judge(self, job: Job, arena: Arena) -> Judged:
        request = self._request
        validating = request.command is Command.VALIDATE
        policy = JudgePolicy(
            fills=request.fills if validating else request.fills[:1],
            repeats=max(1, request.repeats) if validating else 1,
            check=request.check,
            timeout=request.timeout or None,
        )
        stream = self._registry.backend(job.backend).dropout_stream
        return judge(self._supervisor, job, arena, self._cases, policy, stream=stream)

    def _policy(self) -> SamplingPolicy:
        return SamplingPolicy(budget_ns=int(self._request.budget_s * 1e9))

    def _launch(self, job: Job, arena: Arena, cache: CacheState) -> Launch:
        def launch(count: int) -> tuple[tuple[int, ...], ...]:
            result = self._supervisor.run(
                job,
                arena,
                launches=count,
                cold=cache is CacheState.COLD,
                transfer=False,
                timeout=self._request.timeout or None,
            )
            if result.verdict is not None:
                raise RowFailed(result.verdict, result.note or result.verdict.value, result.log_tail)
            if result.distrust:
                raise RowFailed(Verdict.MISTRUSTED, result.distrust, result.log_tail)
            return result.stage_ns

        return launch

    def _measured(self, row: Row, job: Job, arena: Arena, judged: Judged) -> Measurement | None:
        launch = self._launch(job, arena, row.cache)
        if self._request.command is Command.BENCH:
            timed = sample(launch, self._policy())
            return self._measurement(row, timed, Sampler(self._policy()))
        first = judged.stage_ns[-1:]
        warm = 0
        if self._request.command is Command.RUN and first and sum(first[0]) < _AGAIN_NS:
            first, warm = launch(1), len(judged.stage_ns)  # the judged launch includes page faults
        return replace(self._measurement(row, Timed(first, 0)), warmup=warm) if first else None

    def _measurement(self, row: Row, timed: Timed, sampler: Sampler | None = None) -> Measurement:
        return measurement_of(
            row.problem,
            timed.launches,
            sampler=sampler,
            spent_ns=timed.spent_ns,
            cache=row.cache,
            threads=self._context.threads,
            peaks=self._peaks(row),
            dense=self._request.flops_dense,
        )

    def _write_out(self, judged: Judged, index: int) -> str | None:
        if self._request.out is None or not judged.outputs:
            return None
        path = out_path(self._request.out, index)
        write_tensors(path, {name: judged.outputs[name] for name in _TENSORS_KEPT if name in judged.outputs})
        return str(path)

    def _save_failure(self, row: Row, judged: Judged) -> str | None:
        folder, fill = self._request.save_failures, judged.fill
        if folder is None or judged.verdict in (Verdict.PASSED, Verdict.UNCHECKED) or not judged.outputs or not fill:
            return None
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{row.key}.safetensors"
        assert row.choice is not None
        stream = self._registry.backend(row.choice.kernel.backend).dropout_stream
        inputs = self._cases.case(row.problem, fill, stream=stream, check=False).inputs
        write_tensors(path, {**inputs, **{f"out.{k}": v for k, v in judged.outputs.items()}})
        return str(path)


def sample(launch: Launch, policy: SamplingPolicy) -> Timed:
    """Launch until the stopping rule of ``policy`` is satisfied."""
    sampler = Sampler(policy)
    launches: list[tuple[int, ...]] = []
    totals: list[int] = []
    start = time.perf_counter_ns()
    while count := sampler.next_batch(totals, time.perf_counter_ns() - start):
        batch = launch(count)
        launches.extend(batch)
        totals.extend(sum(stages) for stages in batch)
    return Timed(tuple(launches), time.perf_counter_ns() - start)


def sample_pair(first: Launch, second: Launch, policy: SamplingPolicy, seed: int) -> tuple[Timed, Timed]:
    """Two kernels in interleaved rounds, in an order drawn from ``seed``, until their ratio is known."""
    sampler = AbSampler(policy)
    launches: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
    totals: tuple[list[int], list[int]] = ([], [])
    start = time.perf_counter_ns()
    while rounds := sampler.next_rounds(*totals, time.perf_counter_ns() - start):
        for order in orders(rounds, seed, len(totals[0])):
            for side in order:
                batch = (first, second)[side](1)
                launches[side].extend(batch)
                totals[side].append(sum(batch[0]))
    spent = time.perf_counter_ns() - start
    return Timed(tuple(launches[0]), spent), Timed(tuple(launches[1]), spent)


def out_path(pattern: str, index: int) -> Path:
    """The file of row ``index`` (from 0); ``{i}`` is its number from 1, as in the table."""
    return Path(pattern.replace("{i}", str(index + 1)))


def artifacts_of(row: Row, built: Mapping[str, Built]) -> tuple[tuple[Artifact, ...], Fate | None]:
    """The artifacts of a row's stages, or the Fate of a row whose build failed."""
    assert row.plan is not None
    outcomes = [built[stage.kernel.digest] for stage in row.plan.stages]
    failed = [o.error for o in outcomes if o.error is not None]
    if not failed:
        return tuple(o.value for o in outcomes if o.value is not None), None
    error = failed[0]
    verdict = Verdict.BUILD_FAILED if error.exit_code == 6 else Verdict.NOT_RUN
    return (), Fate(verdict=verdict, artifacts=tuple(o.value for o in outcomes), notes=(error.render(),))

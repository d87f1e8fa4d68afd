"""``SingleLaunches``: problems that are planned, built and launched one by one, each on inputs of the caller's."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.device import Availability
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.dropout import STREAMS
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Inputs
from fmha_cli.run.builds import artifacts_of, build_context, build_orders, emulation_of
from fmha_cli.run.cases import Cases
from fmha_cli.run.execute import Executor
from fmha_cli.run.judge import SEVERITY, JudgePolicy, judge
from fmha_cli.run.peaks import settings_of
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.process import WorkerProcess
from fmha_cli.run.records import Outcome
from fmha_cli.run.request import Context, Request
from fmha_cli.run.rows import Row, plan_rows
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.tuned_choice import EntriesOf, chooser_of

_USELESS = frozenset((*SEVERITY[SEVERITY.index(Verdict.OUT_OF_BOUNDS) :], Verdict.BUILD_FAILED))
"""Verdicts of launches whose outputs mean nothing."""


@dataclass(frozen=True)
class Launched:
    """A row that ran, or was to run: what came of it, and the threads of its kernel."""

    row: Row
    outcome: Outcome
    threads: int

    @property
    def useless(self) -> bool:
        """Whether its outputs mean nothing."""
        return self.outcome.verdict in _USELESS


class SingleLaunches:
    """Plans, builds and launches problems one by one, in one worker.

    Args:
        request: has one fill.
        tuned: what ``fmha tune`` remembered; None without a store of it.
        worker: a worker process that was started before.

    Attributes:
        found: the devices of each backend.

    Raises:
        UsageError, EnvironmentProblem: no such backend, device or emulator; an unsafe cache root.
    """

    def __init__(
        self,
        request: Request,
        registry: Registry,
        voice: Voice = SILENT,
        tuned: EntriesOf | None = None,
        worker: WorkerProcess | None = None,
    ) -> None:
        self.request, self.registry, self._supervisor = request, registry, Supervisor(first=worker)
        self._built: dict[tuple[str, ...], tuple[Artifact, ...]] = {}
        with ExitStack() as stack:
            stack.callback(self._supervisor.close)
            backends = wanted_backends(registry, request.wanted)
            self.found = probe_backends(registry, backends, self._supervisor, request.device)
            self.chooser = chooser_of(request, registry, self.found, tuned, voice)
            building = build_context(request, voice)
            self._context = Context(
                request=request,
                registry=registry,
                supervisor=self._supervisor,
                building=building,
                emulation=emulation_of(request, registry, building),
                voice=voice,
            )
            stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._supervisor.close()

    def planned(self, problem: Problem, backend: str | None, units: int | None, kernel: str | None = None) -> Row:
        """The row of a changed problem.

        Args:
            backend: the only one that may serve it; None for those of the request.
            units: of the devices; None for those that they have.
            kernel: the only one that may serve it; None for that of the request.

        Raises:
            UnsupportedError: the named kernel does not serve it.
        """
        asked = self.request
        request = replace(asked, backend=backend or asked.backend, kernel=kernel or asked.kernel)
        found = self.found if units is None else {name: _with_units(one, units) for name, one in self.found.items()}
        chooser = self.chooser if kernel is None and units is None else None
        (row, *_) = plan_rows((problem,), request, self.registry, found, chooser=chooser)
        return row

    def launched(self, row: Row, inputs: Inputs, threads: int | None, *, first: bool = False) -> Launched:
        """Build and launch a row once.

        Args:
            threads: None for those of the request.
            first: whether to compare with the reference, and to repeat it.
        """
        context = self._context
        if threads is not None:
            context = replace(context, request=replace(context.request, threads=threads))
        request = replace(context.request, check=first)
        context = replace(context, request=request)
        if row.choice is None or not row.choice.runnable:
            note = "no device here accepts the kernel" if row.choice else "no kernel serves it"
            return Launched(row, Outcome(verdict=Verdict.NOT_RUN, notes=(note,)), context.threads)
        key = tuple(order.key for order in row.orders)
        if key not in self._built:
            made = artifacts_of(row, build_orders(row.orders, self.registry, context.building))
            if isinstance(made, Outcome):
                return Launched(row, made, context.threads)
            self._built[key] = made
        executor, artifacts = Executor(context), self._built[key]
        job = executor.job(row, artifacts, settings_of(row, artifacts, context))
        cases = Cases(
            lambda problem, kind: inputs,
            oracle_s=request.oracle_s,
            seed=request.fill_seed,
            streams={**STREAMS, **self.registry.dropout_streams},
            voice=context.voice,
        )
        policy = JudgePolicy(
            fills=request.fills[:1],
            repeats=max(2, request.repeats) if first else 1,
            check=first,
            timeout=request.timeout or None,
            late=False,
            stream=self.registry.backend(job.backend).dropout_stream,
        )
        try:
            with executor.arena(job) as arena:
                outcome = judge(self._supervisor, job, arena, cases, policy, context.voice)
        except MemoryError as fault:
            outcome = Outcome(verdict=Verdict.OUT_OF_MEMORY, notes=(str(fault),))
        return Launched(row, outcome, context.threads)

    def filled(self, problem: Problem, seed: int) -> Inputs:
        """The inputs of a problem, by the request's fill."""
        kind = self.request.fills[0]
        custom = self.registry.fills if kind in self.registry.fills else None
        return fill(problem, kind, self.request.fill_seed + seed, custom=custom)


def _with_units(found: Availability, units: int) -> Availability:
    return replace(found, devices=tuple(replace(device, units=units) for device in found.devices))

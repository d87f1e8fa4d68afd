"""``AttentionSession``: one chosen kernel, called again and again. The choice, the build, the worker and the arena of tensors are kept.

The first call of a kernel goes the way of ``fmha run`` and is judged. Later calls only write the inputs, launch, and read the outputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import RLock
from typing import Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.arguments import Texts, flag_texts, in_python
from fmha_cli.domain.decision import Trace
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import FmhaError, KernelFailure, UsageError
from fmha_cli.domain.features import Direction
from fmha_cli.domain.fields import flags_in
from fmha_cli.domain.phases import Tell, Voice, silent
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array, Inputs
from fmha_cli.report.record import Record
from fmha_cli.run.arena import Arena
from fmha_cli.run.attention import failure_of, named_tensors
from fmha_cli.run.builds import artifacts_of, build_context, build_orders, emulation_of
from fmha_cli.run.events import Ended, Found, Judged, Planned
from fmha_cli.run.execute import Executor
from fmha_cli.run.given_arrays import given_tensors
from fmha_cli.run.given_cache import stored
from fmha_cli.run.input_files import InputFiles, fitted, flags_from_files
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.peaks import settings_of
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.records import Outcome
from fmha_cli.run.refusals import refuse_misfits
from fmha_cli.run.request import Context, Request
from fmha_cli.run.rows import Row, plan_rows
from fmha_cli.run.run import Run, Share
from fmha_cli.run.supervisor import Supervisor

KEPT_SHAPES = 8
"""Problems whose tensors have a place in shared memory; the oldest one loses it."""

GOOD = (Verdict.PASSED, Verdict.HAZARD)
"""Verdicts of a first call whose numbers were right."""


class CheckedCalls(StrEnum):
    """Which calls of a session are judged by the float64 reference: each kernel's first, all, or none."""

    FIRST = "first"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class ReadyJob:
    """A problem's kernel, loaded with room for the tensors."""

    job: WorkerJob
    arena: Arena
    row: Row


class AttentionSession(AbstractContextManager["AttentionSession"]):
    """Fused attention by a kernel that is chosen once; see ``open_session``.

    Calls from several threads wait for each other: a kernel uses all cores that it may use. After a crash of the worker, the
    next call starts another.

    Attributes:
        record: of the last call that was judged; None before the first.
    """

    def __init__(self, raw: Texts, request: Request, registry: Registry, check: CheckedCalls, voice: Voice) -> None:
        self._raw, self._request, self._registry, self._check, self._voice = raw, request, registry, check, voice
        self._supervisor = Supervisor()
        self._lock = RLock()
        self._found: Mapping[str, Availability] | None = None
        self._context: Context | None = None
        self._proven: dict[str, None] = {}
        self._built: dict[tuple[str, ...], tuple[Artifact, ...]] = {}
        self._ready: OrderedDict[Problem, ReadyJob] = OrderedDict()
        self._last: Problem | None = None
        self._closed = False
        self.record: Record | None = None

    def __call__(self, q: object, k: object, v: object = None, *, do: object = None, **more: Any) -> dict[str, Array]:
        """The outputs by name, as in ``Attention.outputs``; tensors and flags are those of ``fmha_cli.run.attention.attention``.

        Flags that are given here replace the session's: ``cache_seqlens`` of a cache that grows, for example.

        Raises:
            UsageError, UnsupportedError, EnvironmentProblem: as ``attention``; E044, the session is closed.
            KernelFailure: the kernel did not build, launch or end, or its first outputs are wrong. The next call goes on.
        """
        try:
            with self._lock:
                if self._closed:
                    raise UsageError("the session is closed", code="E044", where="session", help="open another one")
                return self._call(*self._problem_of({"q": q, "k": k, "v": v, "do": do}, more))
        except FmhaError as fault:
            in_python(fault)
            raise

    def explain(self) -> Trace:
        """Every candidate for the last call's problem, with Supported or all its Reasons.

        Raises:
            UsageError: E044, there was no call yet.
        """
        with self._lock:
            if self._last is None:
                raise UsageError("there was no call yet", code="E044", where="explain", help="call the session first")
            return select(self._last, self._registry, self._probed(), self._request.wanted).trace

    def close(self) -> None:
        """End the worker and give the memory back."""
        with self._lock:
            self._closed = True
            self._supervisor.close()
            while self._ready:
                self._ready.popitem()[1].arena.close()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _problem_of(self, values: Mapping[str, object], more: Mapping[str, Any]) -> tuple[Problem, InputFiles]:
        tensors, flags = named_tensors(values, more)
        given, texts = given_tensors(tensors)
        if texts:
            name = next(iter(texts))
            raise UsageError(f"{name} is a text", code="E039", where=name, help="a session takes arrays")
        raw = {**self._raw, **flag_texts(flags)}
        if values["do"] is not None:
            raw.setdefault("direction", Direction.FWD_BWD.value)
        problem = stored(Problem.from_raw(flags_from_files(raw, given)), given.arrays)
        refuse_misfits((problem,), given)
        self._last = problem
        return problem, given

    def _call(self, problem: Problem, given: InputFiles) -> dict[str, Array]:
        if self._check is CheckedCalls.ALWAYS:
            return self._judged(problem, given)[1]
        ready = self._ready.get(problem)
        if ready is None:
            row = self._row_of(problem)
            if row is None:
                row, outputs = self._judged(problem, given)
                assert row.choice is not None
                self._proven[row.choice.kernel.name] = None
                return outputs
            ready = self._prepared(row)
        self._ready.move_to_end(problem)
        return self._launched(ready, fill(problem, given=fitted(problem, given)[0]))

    def _row_of(self, problem: Problem) -> Row | None:
        """The row of a problem that needs no check: by a proven kernel that serves it, the latest first; without checks, by any kernel."""
        request = self._request
        wanted = [None] if self._check is CheckedCalls.NEVER else [*reversed(self._proven)]
        for kernel in wanted:
            asked = request if kernel is None else replace(request, kernel=kernel, backend="auto")
            (row, *_) = plan_rows((problem,), asked, self._registry, self._probed())
            if row.choice is not None and row.choice.runnable:
                return row
            if kernel is None:
                self._judged(problem, InputFiles({}, {}))  # it says why there is none
        return None

    def _judged(self, problem: Problem, given: InputFiles) -> tuple[Row, dict[str, Array]]:
        """The row of a problem and its judged outputs, as ``fmha run`` makes them."""
        row: Row | None = None
        outputs: dict[str, Array] = {}
        run = Run(
            (problem,),
            self._request,
            self._registry,
            given=given,
            share=Share(supervisor=self._supervisor),
            voice=self._voice,
        )
        with run:
            for event in run:
                match event:
                    case Found():
                        self._found = event.availability
                    case Planned():
                        row = event.rows[0]
                    case Judged():
                        outputs.update(event.outputs)
                    case Ended(interrupted=True):
                        raise KeyboardInterrupt
                    case Ended():
                        self.record = event.records[0]
        assert row is not None
        assert self.record is not None
        if not outputs or (self._check is not CheckedCalls.NEVER and self.record.verdict not in GOOD):
            raise failure_of(self.record)
        return row, outputs

    def _prepared(self, row: Row) -> ReadyJob:
        """Build and load the kernel of a row; the oldest problem makes room."""
        context = self._context = self._context or self._context_of()
        executor, key = Executor(context), tuple(order.key for order in row.orders)
        if key not in self._built:
            made = artifacts_of(row, build_orders(row.orders, self._registry, context.building))
            if isinstance(made, Outcome):
                raise KernelFailure(
                    "the kernel did not build", code="X024", where=row.problem.repro(), why=made.notes[0]
                )
            self._built[key] = made
        artifacts = self._built[key]
        job = executor.job(row, artifacts, settings_of(row, artifacts, context))
        while len(self._ready) >= KEPT_SHAPES:
            self._ready.popitem(last=False)[1].arena.close()
        self._ready[row.problem] = ready = ReadyJob(job, executor.arena(job), row)
        return ready

    def _context_of(self) -> Context:
        request, registry = replace(self._request, check=False), self._registry
        building = build_context(request, self._voice)
        return Context(
            request=request,
            registry=registry,
            supervisor=self._supervisor,
            building=building,
            emulation=emulation_of(request, registry, building),
            voice=self._voice,
        )

    def _probed(self) -> Mapping[str, Availability]:
        if self._found is None:
            request, registry = self._request, self._registry
            backends = wanted_backends(registry, request.wanted)
            self._found = probe_backends(registry, backends, self._supervisor, request.device)
        return self._found

    def _launched(self, ready: ReadyJob, inputs: Inputs) -> dict[str, Array]:
        """One launch; the outputs are copies."""
        job, arena = ready.job, ready.arena
        for name, array in inputs.items():
            arena.view(name)[...] = array
        with self._supervisor.holding(KEPT_SHAPES):
            result = self._supervisor.run(job, arena, timeout=self._request.timeout or None)
        if result.verdict is not None:
            where, what = ready.row.problem.repro(), f"the kernel ended as {result.verdict}"
            raise KernelFailure(what, code="X024", where=where, why=result.note)
        return arena.read()


def open_session(
    problem: Problem | None = None,
    *,
    backend: str = "auto",
    device: str | None = None,
    arch: str | None = None,
    kernel: str | None = None,
    check: str = "first",
    threads: int = 0,
    registry: Registry | None = None,
    phase: Tell = silent,
    **flags: Any,
) -> AttentionSession:
    """One kernel for many calls. It, its worker process and the memory of the tensors are kept.

    Sizes follow from the arrays of each call. Another kernel is chosen only where the kernels in use do not serve them.

    Args:
        problem: flags as a problem, whose sizes hold for every call; ``flags`` come on top.
        check: which calls are judged by the float64 reference: ``first`` of each kernel, ``always``, or ``never``. A judged call whose
            numbers are wrong raises KernelFailure.
        threads, phase, flags: as for ``fmha_cli.run.attention.attention``.

    Raises:
        UsageError: E002, several backends; E043, an argument that cannot be taken.
        EnvironmentProblem: no such backend here.
    """
    try:
        raw = {**({} if problem is None else flags_in(problem)), **flag_texts(flags)}
        request = Request(backend=backend, device=device, arch=arch, kernel=kernel, threads=threads, peak="spec")
        if request.wanted.several:
            what = f"one kernel computes the outputs, and backend={backend} names several"
            raise UsageError(what, code="E002", where="backend", help="api.run compares backends")
        if check not in list(CheckedCalls):
            raise UsageError(f"check={check!r}", code="E043", where="check", help=f"one of {', '.join(CheckedCalls)}")
        registry = registry or build_registry()
        wanted_backends(registry, request.wanted)
    except FmhaError as fault:
        in_python(fault)
        raise
    request = replace(request, check=check != CheckedCalls.NEVER)
    return AttentionSession(raw, request, registry, CheckedCalls(check), Voice(phase=phase))

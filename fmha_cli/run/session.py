"""``AttentionSession``: one chosen kernel, called again and again. The choice, the build, the worker and the arena of tensors are kept.

The first call of a kernel goes the way of ``fmha run`` and is judged. Later calls only write the inputs, launch, and read the outputs.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.arguments import Texts, flag_texts, in_python
from fmha_cli.domain.decision import Trace
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.features import CacheStorage, Direction
from fmha_cli.domain.fields import flags_in
from fmha_cli.domain.phases import Tell, Voice, silent
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array, Inputs
from fmha_cli.report.record import Record
from fmha_cli.run.arena import Arena
from fmha_cli.run.attention import call_problem, empty_attention, failure_of, read_call, refuse_several
from fmha_cli.run.builds import artifacts_of, build_context, build_orders, emulation_of
from fmha_cli.run.checks import hazards
from fmha_cli.run.dlpack import as_given
from fmha_cli.run.events import Ended, Found, Judged, Planned
from fmha_cli.run.execute import Executor
from fmha_cli.run.given_cache import stored
from fmha_cli.run.in_process import Form, PlacedKernel, direct_tensors, form_of
from fmha_cli.run.input_files import NONE_GIVEN, InputFiles, fitted
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.logged import logged_voice
from fmha_cli.run.peaks import settings_of
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.records import Outcome
from fmha_cli.run.refusals import refuse_misfits
from fmha_cli.run.request import CheckedCalls, Context, Request
from fmha_cli.run.rows import Row, plan_rows
from fmha_cli.run.run import Run, Share
from fmha_cli.run.supervisor import Supervisor

KEPT_SHAPES = 8
"""Problems whose tensors have a place in shared memory; the oldest one loses it."""


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

    def __init__(
        self,
        raw: Texts,
        request: Request,
        registry: Registry,
        check: CheckedCalls,
        voice: Voice,
        *,
        in_process: bool,
        like_inputs: bool,
    ) -> None:
        self._raw, self._request, self._registry, self._check, self._voice = raw, request, registry, check, voice
        self._in_process, self._like_inputs = in_process, like_inputs
        self._placed: OrderedDict[tuple[Form, ...], PlacedKernel] = OrderedDict()
        self._supervisor = Supervisor()
        self._process, self._lock = os.getpid(), RLock()
        self._found: Mapping[str, Availability] | None = None
        self._proven: dict[str, None] = {}
        self._built: dict[tuple[str, ...], tuple[Artifact, ...]] = {}
        self._ready: OrderedDict[Problem, ReadyJob] = OrderedDict()
        self._last: Problem | None = None
        self._closed = False
        self.record: Record | None = None

    def __call__(
        self,
        q: object,
        k: object,
        v: object = None,
        *,
        do: object = None,
        saved: tuple[object, object] | None = None,
        out: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """The outputs by name, as in ``Attention.outputs``; tensors and flags are those of ``fmha_cli.run.attention.attention``.

        Flags that are given here replace the session's: ``cache_seqlens`` of a cache that grows, for example. In process, the outputs
        are tensors of the library of q.

        Args:
            saved: in process, O and LSE of the forward pass; then the gradients alone are computed, from ``do``.
            out: in process, the outputs that are written in place, by name: of any library whose tensors can be changed, dense, and
                apart from all inputs.

        Raises:
            UsageError, UnsupportedError, EnvironmentProblem: as ``attention``; E044, the session is closed.
            KernelFailure: the kernel did not build, launch or end, or its first outputs are wrong. The next call goes on.
        """
        try:
            with self._owned():
                if self._closed:
                    raise UsageError("the session is closed", code="E044", where="session", help="open another one")
                forward = {} if saved is None else {"o": saved[0], "lse": saved[1]}
                values = {"q": q, "k": k, "v": v, "do": do, **forward}
                if self._in_process:
                    return self._call_here(values, more, out or {})
                if out is not None or saved is not None:
                    here = "saved" if out is None else "out"
                    raise UsageError(f"{here} is for in_process=True", code="E043", where=here, help="leave it out")
                outputs = self._call(values, more)
                return as_given(outputs, q) if self._like_inputs else outputs
        except FmhaError as fault:
            in_python(fault)
            raise

    def explain(self) -> Trace:
        """Every candidate for the last call's problem, with Supported or all its Reasons.

        Raises:
            UsageError: E044, there was no call yet.
        """
        with self._owned():
            if self._last is None:
                raise UsageError("there was no call yet", code="E044", where="explain", help="call the session first")
            return select(self._last, self._registry, self._probed(), self._request.wanted).trace

    def close(self) -> None:
        """End the worker and give the memory back."""
        with self._owned():
            self._closed = True
            self._supervisor.close()
            self._forget()

    def _forget(self) -> None:
        """Give back the memory of all tensors, and the kernels in this process."""
        while self._ready:
            self._ready.popitem()[1].arena.close()
        while self._placed:
            self._placed.popitem()[1].close()

    def _owned(self) -> RLock:
        """The lock of this process's calls. A forked child shares neither worker nor tensors nor lock with its parent."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), RLock()
            self._supervisor.abandon()
            self._forget()
        return self._lock

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _problem_of(
        self, values: Mapping[str, object], more: Mapping[str, Any], *, backward: bool = False
    ) -> tuple[Problem, InputFiles, dict[str, Array] | None]:
        """The problem of a call and its tensors; and the outputs of an empty batch, or of no queries, which need no kernel."""
        given, texts, raw = read_call(values, more, self._raw)
        if texts:
            name = next(iter(texts))
            raise UsageError(f"{name} is a text", code="E039", where=name, help="a session takes arrays")
        bare, empty = call_problem(raw, given)
        problem = stored(bare, given.arrays)
        if not empty:
            refuse_misfits((problem,), given)
        if problem.direction is Direction.BWD and not backward:
            what, why = "a backward pass alone", "it reads O and LSE of a forward pass"
            help = 'direction="fwd+bwd"; or saved=(o, lse) in process'
            raise UsageError(what, code="E043", where="direction", why=why, help=help)
        self._last = problem
        if empty:
            return problem, given, dict(empty_attention(problem, empty, given, self._request, self._registry).outputs)
        return problem, given, None

    def _call(self, values: Mapping[str, object], more: Mapping[str, Any]) -> dict[str, Array]:
        problem, given, outputs = self._problem_of(values, more)
        if outputs is not None:
            return outputs
        if self._check is CheckedCalls.ALWAYS:
            return self._judged(problem, given)[1]
        ready = self._ready.get(problem)
        if ready is None:
            row = self._row_of(problem)
            if row is None:
                return self._judged(problem, given)[1]
            ready = self._prepared(row)
        self._ready.move_to_end(problem)
        return self._launched(ready, fill(problem, given=fitted(problem, given)[0]))

    def _call_here(self, values: Mapping[str, Any], more: Mapping[str, Any], out: Mapping[str, Any]) -> dict[str, Any]:
        """A call in this process. A form of tensors that was seen before is launched at once; a new one is looked at."""
        if "lse" in values:
            more = {**more, "direction": Direction.BWD.value}
        inputs, tensors = direct_tensors(values, more)
        forms = {name: form_of(tensor, name) for name, tensor in tensors.items()}
        key = (*forms.items(), *flag_texts({n: x for n, x in more.items() if n not in inputs}).items())
        kernel = self._placed.get(key)
        if kernel is None:
            known = {n: inputs.get(n) for n in ("q", "k", "v", "do")}
            problem, given, none = self._problem_of(known, more, backward="lse" in inputs)
            if none is not None:
                if out:
                    what, why = "out of an empty batch, or of no queries", "no kernel runs that could write it"
                    raise UsageError(what, code="E043", where="out", why=why, help="leave it out for new outputs")
                return as_given(none, inputs["q"])
            row = self._row_of(problem) or self._proven_row(problem, given)
            kernel = PlacedKernel.of(self._job_of(row), tensors)
            self._placed[key] = kernel
            while len(self._placed) > KEPT_SHAPES:
                self._placed.popitem(last=False)[1].give_way(self._placed.values())
        self._placed.move_to_end(key)
        return kernel.launch(tensors, out, inputs["q"])

    def _row_of(self, problem: Problem) -> Row | None:
        """The row of a problem that needs no check: by a proven kernel that serves it, the latest first; without checks, by any kernel."""
        request, found = self._request, self._probed()
        if self._check is CheckedCalls.NEVER:
            (row, *_) = plan_rows((problem,), request, self._registry, found)
            if row.choice is None or not row.choice.runnable:
                self._judged(problem, NONE_GIVEN)  # it raises, and says why
            return row
        for kernel in reversed(self._proven):
            with suppress(UnsupportedError):  # it does not serve this problem
                asked = replace(request, kernel=kernel, backend="auto")
                (row, *_) = plan_rows((problem,), asked, self._registry, found)
                if row.choice is not None and row.choice.runnable:
                    return row
        return None

    def _proven_row(self, problem: Problem, given: InputFiles) -> Row:
        """The row of a problem whose kernel passes on the caller's numbers; on generated ones, where the caller's prove little."""
        try:
            return self._judged(problem, given)[0]
        except KernelFailure:
            if self.record is None or self.record.verdict is not Verdict.MISTRUSTED:
                raise
            return self._judged(problem, NONE_GIVEN)[0]

    def _judged(self, problem: Problem, given: InputFiles) -> tuple[Row, dict[str, Array]]:
        """The row of a problem and its judged outputs, as ``fmha run`` makes them. Its kernel is proven then."""
        row: Row | None = None
        outputs: dict[str, Array] = {}
        bare = replace(problem, storage=CacheStorage())  # the run looks at the caches itself
        share = Share(supervisor=self._supervisor)
        run = Run((bare,), self._request, self._registry, given=given, share=share, voice=self._voice)
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
        if row.choice is None or not outputs or self.record.verdict is not Verdict.PASSED:
            raise failure_of(self.record)
        self._proven[row.choice.kernel.name] = None
        return row, outputs

    def _prepared(self, row: Row) -> ReadyJob:
        """The job of a row with room for its tensors; the oldest problem makes room."""
        job = self._job_of(row)
        while len(self._ready) >= KEPT_SHAPES:
            self._ready.popitem(last=False)[1].arena.close()
        self._ready[row.problem] = ready = ReadyJob(job, Executor(self._context).arena(job), row)
        return ready

    def _job_of(self, row: Row) -> WorkerJob:
        """Build the kernel of a row."""
        context, key = self._context, tuple(order.key for order in row.orders)
        if key not in self._built:
            made = artifacts_of(row, build_orders(row.orders, self._registry, context.building))
            if isinstance(made, Outcome):
                raise KernelFailure(
                    "the kernel did not build", code="X024", where=row.problem.repro(), why=made.notes[0]
                )
            self._built[key] = made
        artifacts = self._built[key]
        return Executor(context).job(row, artifacts, settings_of(row, artifacts, context))

    @cached_property
    def _context(self) -> Context:
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
        arena.write(inputs)
        with self._supervisor.holding(KEPT_SHAPES):
            result = self._supervisor.run(job, arena, timeout=self._request.timeout or None)
        where = ready.row.problem.repro()
        if result.verdict is not None:
            raise KernelFailure(f"the kernel ended as {result.verdict}", code="X024", where=where, why=result.note)
        if self._check is not CheckedCalls.NEVER:
            found = () if result.observed is None else tuple(hazards(result.observed.findings))
            told = [(verdict, lines[0]) for verdict, lines in found]
            told += [(Verdict.MISTRUSTED, result.distrust)] if result.distrust else []
            for verdict, why in told:
                help = f"fmha validate shows more; check={CheckedCalls.NEVER.value!r} looks at no call"
                raise KernelFailure(f"the call ended as {verdict}", code="X024", where=where, why=why, help=help)
        return arena.read()


def open_session(
    problem: Problem | None = None,
    *,
    backend: str = "auto",
    device: str | None = None,
    arch: str | None = None,
    kernel: str | None = None,
    check: str = "first",
    in_process: bool = False,
    like_inputs: bool = False,
    threads: int = 0,
    registry: Registry | None = None,
    phase: Tell = silent,
    **flags: Any,
) -> AttentionSession:
    """One kernel for many calls. It, its worker process and the memory of the tensors are kept.

    Sizes follow from the arrays of each call. Another kernel is chosen only where the kernels in use do not serve them.

    Args:
        problem: flags as a problem, whose sizes hold for every call; ``flags`` come on top.
        check: which calls are judged as ``fmha run`` judges, where any verdict but PASSED raises KernelFailure: ``always``; ``never``,
            where only a launch that fails raises; or ``first``: the calls of each kernel until one has PASSED. Of a later call,
            findings of an emulated device raise too, but numbers are not compared and no guards are watched; in process,
            nothing is looked at.
        in_process: launch a CPU kernel in this process, once it has PASSED in a child: q, k, v and do stay where they are, and a crash
            ends this process. With ``check="first"`` only.
        like_inputs, threads, phase, flags: as for ``fmha_cli.run.attention.attention``.

    Raises:
        UsageError: E002, several backends; E043, an argument that cannot be taken.
        EnvironmentProblem: no such backend here.
    """
    try:
        raw = {**({} if problem is None else flags_in(problem)), **flag_texts(flags)}
        request = Request(backend=backend, device=device, arch=arch, kernel=kernel, threads=threads, peak="spec")
        refuse_several(request)
        if check not in list(CheckedCalls):
            raise UsageError(f"check={check!r}", code="E043", where="check", help=f"one of {', '.join(CheckedCalls)}")
        if in_process and check != CheckedCalls.FIRST:
            what, help = f"in_process=True with check={check!r}", "check='first': a kernel comes in once it has passed"
            raise UsageError(what, code="E043", where="in_process", help=help)
        registry = registry or build_registry()
        wanted_backends(registry, request.wanted)
    except FmhaError as fault:
        in_python(fault)
        raise
    request = replace(request, check=check != CheckedCalls.NEVER)
    voice, kind = logged_voice(phase), CheckedCalls(check)
    return AttentionSession(raw, request, registry, kind, voice, in_process=in_process, like_inputs=like_inputs)

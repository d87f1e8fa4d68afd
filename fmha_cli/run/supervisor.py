"""``Supervisor``: runs jobs in a worker that outlives good kernels and is replaced after bad ones.

The possible ends of a job, and their verdicts (None: it ran):

=============================================  ===============================  ===============
what                                           verdict                          worker
=============================================  ===============================  ===============
death by a signal, an exit of any status       CRASHED                          replaced
no answer before the deadline                  TIMED_OUT                        killed, replaced
MemoryError; killed for memory                 OUT_OF_MEMORY                    replaced
does not load or launch, damaged artifact      LAUNCH_FAILED                    kept if it was loading
the device's context is dead (``DeviceLost``)  CRASHED                          ends itself, replaced
garbage on the channel; any other exception    CRASHED                          replaced
device, runtime or worker is not there         NOT_RUN                          kept
=============================================  ===============================  ===============
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import NoneType

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.emulation import Observed
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.arena import Arena
from fmha_cli.run.job import HOST, RECORDER, JobResult, Loadable, Reported, WorkerJob, contradiction
from fmha_cli.run.layout import ArenaLayout
from fmha_cli.run.process import Death, WorkerProcess
from fmha_cli.run.protocol import Failure, Message

KEPT_JOBS = 2
"""Jobs that stay loaded in the worker unless more of them are interleaved (``Supervisor.holding``)."""

_VERDICTS = {
    Failure.KERNEL: Verdict.LAUNCH_FAILED,
    Failure.MEMORY: Verdict.OUT_OF_MEMORY,
    Failure.ENVIRONMENT: Verdict.NOT_RUN,
    Failure.EXCEPTION: Verdict.CRASHED,
    Failure.LOST: Verdict.CRASHED,
}


class Supervisor(AbstractContextManager["Supervisor"]):
    """One persistent worker and its replacements. Use it as a context manager, in one thread.

    Create it in the main thread: on Linux the worker is bound to the thread that started it. Ctrl-C during a
    call kills the worker's process group and raises ``KeyboardInterrupt``; the next call starts a new worker.

    Args:
        held: descriptors that every worker inherits (``WorkerProcess``).
        first: a worker that was started before.
    """

    def __init__(self, held: Sequence[int] = (), first: WorkerProcess | None = None) -> None:
        self._held = tuple(held)
        self._worker = first
        self._loaded: OrderedDict[str, Arena] = OrderedDict()
        self._remarks: dict[str, tuple[str, ...]] = {}
        self._ran: OrderedDict[str, None] = OrderedDict()
        self._runtime: str | None = None
        self._kept = KEPT_JOBS
        self.started = int(first is not None)
        """Workers started so far."""

    @property
    def worker_pid(self) -> int | None:
        """Process id, and process group, of the current worker."""
        return None if self._worker is None else self._worker.pid

    def start(self) -> None:
        """Start a worker without waiting for it. It gets ready while the parent does other work.

        The call that needs a worker reports that it cannot be started.
        """
        if self._worker is not None and not self._worker.alive:
            self.retire()
        if self._worker is None:
            self._worker = WorkerProcess(self._held)
            self.started += 1

    def probe(self, entry: str, backend: str, *, timeout: float | None = 60.0) -> Availability:
        """Ask a backend, in the worker, whether it is available. A probe that dies, hangs or raises gives BROKEN."""
        try:
            answer, fault = self._asked(HOST, {"do": "probe", "entry": entry, "backend": backend}, timeout)
        except EnvironmentProblem as problem:
            return Availability(state=State.BROKEN, why=problem.in_one_line)
        if not answer:
            why = f"the probe of {backend} failed: {fault}"
            return Availability(state=State.BROKEN, why=why, help="`fmha doctor` shows more")
        if fault is not None:
            return Availability(state=State.BROKEN, why=fault)
        return from_json(Availability, answer["availability"], "probe")

    def peaks(self, entry: str, backend: str, artifact: Artifact, threads: int, *, timeout: float = 120.0) -> Message:
        """Run a backend's peak loops in the worker; the answer of ``PeakLoops.run_peaks``.

        Raises:
            EnvironmentProblem: X013, they do not run.
        """
        request = {"do": "peaks", "entry": entry, "backend": backend, "threads": threads}
        answer, fault = self._asked(HOST, request, timeout, artifact)
        if fault is not None:
            raise EnvironmentProblem("the peak loops do not run", code="X013", where=backend, why=fault)
        return dict(answer["peaks"])

    def canary(
        self, entry: str, backend: str, artifact: Artifact, threads: int, *, memory: bool, timeout: float = 60.0
    ) -> float | None:
        """A short loop of a backend in the worker that has the jobs; None if it did not run. See ``Canary.run_canary``."""
        request = {"do": "canary", "entry": entry, "backend": backend, "threads": threads, "memory": memory}
        answer, fault = self._asked(HOST, request, timeout, artifact)
        return None if fault is not None else float(answer["rate"]) or None

    def settings(
        self, entry: str, backend: str, artifact: Artifact, kernel: str, threads: int, *, timeout: float = 60.0
    ) -> Mapping[str, int]:
        """The fastest settings of a kernel (its name), measured in the worker; see ``Tunable.measure_settings``.

        Raises:
            EnvironmentProblem: X025, the measurement does not run.
        """
        request = {"do": "settings", "entry": entry, "backend": backend, "kernel": kernel, "threads": threads}
        answer, fault = self._asked(HOST, request, timeout, artifact)
        if fault is not None:
            raise EnvironmentProblem("the settings cannot be measured", code="X025", where=kernel, why=fault)
        return dict(answer["values"])

    def describe(
        self, job: WorkerJob, layout: ArenaLayout, recorder: Artifact | None, *, timeout: float = 120.0
    ) -> tuple[LaunchView, ...]:
        """The launches of a job, as the backend's host code makes them without a device; see ``DryRun``.

        Raises:
            KernelFailure: X014, they cannot be shown.
        """
        wire = {"do": "describe", "job": to_json(job.message), "layout": to_json(layout.message)}
        answer, fault = self._asked(RECORDER, wire, timeout, recorder)
        if fault is not None:
            raise KernelFailure("the launches cannot be shown", code="X014", where=job.plan.main.name, why=fault)
        return tuple(from_json(LaunchView, launch, "launch") for launch in answer["launches"])

    def _asked(
        self, runtime: str, request: Message, timeout: float | None, artifact: Artifact | None = None
    ) -> tuple[Message, str | None]:
        """The answer to a request that runs no job, and why it failed. The answer of a worker that died is empty."""
        worker = self._ready(runtime)
        worker.clear_log()
        wire = None if artifact is None else to_json(Loadable.of(artifact))
        answer = worker.ask({**request, "artifact": wire}, timeout=timeout)
        if isinstance(answer, Death) or answer.get("failure") == Failure.LOST:
            self.retire()
        if isinstance(answer, Death):
            return {}, answer.note
        return answer, _why(answer) if "failure" in answer else None

    def run(
        self,
        job: WorkerJob,
        arena: Arena,
        *,
        launches: int = 1,
        cold: bool = False,
        upload: bool = True,
        download: bool = True,
        timeout: float | None = None,
    ) -> JobResult:
        """Launch a job, after loading it if the worker does not hold it.

        If another kernel ran in the worker before, a death of the worker does not prove that this kernel is at fault. The
        job is then run once more, alone in a fresh worker. If it survives there, ``distrust`` reports that.

        Args:
            arena: written and prepared; the worker maps it. Close it when the job is done: the worker unmaps closed
                arenas at the next call.
            launches: number of launches in a row, each timed. None only moves the arena; a worker that has died since is
                then not asked again.
            cold: evict the caches before each launch.
            upload: move the arena to the device before the launches (always done for a job that was just loaded).
            download: move it back after them.
            timeout: seconds for this call, a worker's start excepted; None = no limit.

        Raises:
            KeyboardInterrupt: the user interrupted; nothing of this job may be used.
        """
        identity = _identity(job, arena)
        moves = {"upload": upload, "download": download}
        request = {"do": "run", "id": identity, "launches": launches, "cold": cold, **moves}
        try:
            self._suit(job.message.runtime)
            self._tidy(identity)
            name = job.plan.main.name
            before = [other for other in self._ran if other != name]
            result, died = self._attempt(job, arena, request, timeout)
            if not died or not before or not launches or result.verdict is Verdict.TIMED_OUT:
                return result
            again, _ = self._attempt(job, arena, request, timeout)
        except EnvironmentProblem as fault:
            return JobResult(verdict=Verdict.NOT_RUN, note=fault.in_one_line)
        if again.verdict is not None:
            return again
        suspects = ", ".join(before[-KEPT_JOBS:])
        distrust = f"{result.note} after other kernels had run in it, but not alone in a fresh one ({suspects})"
        return replace(again, distrust=distrust, log_tail=result.log_tail)

    @contextmanager
    def holding(self, jobs: int) -> Iterator[None]:
        """Keep as many jobs loaded while the block runs, because they take turns."""
        before, self._kept = self._kept, max(self._kept, jobs)
        try:
            yield
        finally:
            self._kept = before

    def holds(self, job: WorkerJob, arena: Arena) -> bool:
        """Whether the current worker has the job loaded, and so may have launched it before."""
        return self._worker is not None and self._worker.alive and _identity(job, arena) in self._loaded

    def _suit(self, runtime: str) -> None:
        """End a worker with another runtime, because two runtimes in one process would replace each other."""
        if self._worker is not None and self._runtime not in (None, runtime):
            self.close()

    def _ready(self, runtime: str) -> WorkerProcess:
        self._suit(runtime)
        self.start()
        self._runtime = runtime
        worker = self._worker
        assert worker is not None
        try:
            worker.greet()
        except EnvironmentProblem:
            self.retire()
            raise
        return worker

    def tidy(self) -> None:
        """Let the worker give back the memory of closed arenas now, and not at the next call."""
        self._tidy("")

    def _tidy(self, identity: str) -> None:
        """Drop jobs whose arena is closed, and the oldest ones when a new job needs room.

        If the worker dies while doing so, it is replaced at once, so the next job is not blamed.
        """
        closed = [key for key, arena in self._loaded.items() if arena.closed]
        room = self._kept if identity in self._loaded else self._kept - 1
        others = [key for key in self._loaded if key not in closed and key != identity]
        for key in (*closed, *others[: max(0, len(self._loaded) - len(closed) - room)]):
            if self._worker is None or key not in self._loaded:
                return
            del self._loaded[key], self._remarks[key]
            if isinstance(self._worker.ask({"do": "drop", "id": key}, timeout=60.0), Death):
                self.retire()

    def _attempt(self, job: WorkerJob, arena: Arena, request: Message, timeout: float | None) -> tuple[JobResult, bool]:
        """One try: the result, and whether it killed the worker (a lost device counts as a death)."""
        worker = self._ready(job.message.runtime)
        worker.clear_log()
        started = time.monotonic()
        if request["id"] not in self._loaded:
            wire = {"job": to_json(job.message), "layout": to_json(arena.layout.message)}
            named = {"do": "load", "id": request["id"], "digest": job.digest}
            answer = worker.ask({**named, **wire}, descriptors=(arena.fd,), timeout=timeout)
            if isinstance(answer, Death):
                return self._buried(worker, answer, "loading", timeout)
            if "failure" in answer:
                return self._failed(worker, answer, keep=answer["failure"] not in (Failure.MEMORY, Failure.LOST))
            self._loaded[request["id"]] = arena
            self._remarks[request["id"]] = tuple(answer["remarks"])
        self._ran[job.plan.main.name] = None
        self._ran.move_to_end(job.plan.main.name)
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - started))
        asked = time.perf_counter_ns()
        answer = worker.ask(request, timeout=left)
        elapsed = time.perf_counter_ns() - asked
        if isinstance(answer, Death):
            return self._buried(worker, answer, "running", timeout)
        if "failure" in answer:
            return self._failed(worker, answer, keep=False)
        times = _reported(answer, request["launches"], len(job.plan.stages))
        if times is None:
            what = "the session's times are not one number of nanoseconds for each stage"
            return self._failed(worker, {"failure": Failure.EXCEPTION, "what": what}, keep=False)
        waited = tuple(answer["waited"])
        return JobResult(
            stage_ns=tuple(tuple(max(0, ns or 0) for ns in stages) for stages in times),
            waited_ns=waited,
            mistimed=contradiction(times, waited, elapsed, works=job.plan.problem.flops() > 0),
            observed=_observed(answer),
            remarks=self._remarks[request["id"]],
            first=from_json(FirstLaunch, answer["first"], "first") if answer["first"] else None,
        ), False

    def _buried(self, worker: WorkerProcess, death: Death, doing: str, timeout: float | None) -> tuple[JobResult, bool]:
        late = death.verdict is Verdict.TIMED_OUT
        note = f"killed after {timeout:g} s while {doing}" if late else f"{death.note} while {doing}"
        result = JobResult(verdict=death.verdict, note=note, log_tail=worker.log_tail())
        self.retire()
        return result, True

    def _failed(self, worker: WorkerProcess, answer: Message, *, keep: bool) -> tuple[JobResult, bool]:
        verdict = _VERDICTS[Failure(answer["failure"])]
        result = JobResult(verdict=verdict, note=_why(answer), log_tail=worker.log_tail(), observed=_observed(answer))
        if not keep:
            self.retire()
        return result, answer["failure"] == Failure.LOST

    def retire(self) -> None:
        """Discard this worker, in which a kernel wrote where it must not. The next job gets a fresh one."""
        if self._worker is not None:
            self._worker.kill()
        self.close()

    def renew(self) -> None:
        """Replace a healthy worker, so the next job runs in a fresh process."""
        self.close()
        self.start()

    def abandon(self) -> None:
        """In a forked child: leave the worker to the process that started it. The next call starts another one."""
        worker, self._worker = self._worker, None
        self.close()
        if worker is not None:
            worker.abandon()

    def close(self) -> None:
        """End the worker, gracefully if it is idle."""
        worker, self._worker, self._runtime = self._worker, None, None
        self._loaded.clear()
        self._remarks.clear()
        self._ran.clear()
        if worker is not None:
            worker.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


def _identity(job: WorkerJob, arena: Arena) -> str:
    """The name of a job on an arena, in the worker."""
    return f"{arena.id}-{job.digest}"


def _why(answer: Message) -> str:
    return f"{answer['what']} ({answer['why']})" if answer.get("why") else str(answer["what"])


def _observed(answer: Message) -> Observed | None:
    seen = answer.get("observed")
    return None if seen is None else from_json(Observed, seen, "observed")


def _reported(answer: Message, launches: int, stages: int) -> Reported | None:
    """The times of a run's answer; None if they do not match the launches and stages."""
    times = answer.get("ns")
    if not isinstance(times, list) or len(times) != launches:
        return None
    for row in times:
        if not isinstance(row, list) or len(row) != stages or any(type(ns) not in (int, NoneType) for ns in row):
            return None
    return tuple(tuple(row) for row in times)

"""The worker process: ``python -m fmha_cli.run.worker CHANNEL LIFELINE PARENT PDEATHSIG``.

It opens devices, loads kernels and launches them. It makes no decisions. It answers one request at a time:

=========  =============================================  ==========================================
request    members                                        answer
=========  =============================================  ==========================================
hello                                                     version, fmha, pid
probe      entry, backend                                 availability
load       id, digest, job, layout (descriptor attached)  remarks: see ``Remarking``
run        id, launches, cold, upload, download           ns, waited, first: see below; observed
drop       id                                             (empty)
peaks      entry, backend, artifact, threads              peaks: see ``PeakLoops.run_peaks``
canary     entry, backend, artifact, threads, memory      rate: see ``Canary.run_canary``
settings   entry, backend, artifact, kernel, threads      values: see ``Tunable.measure_settings``
describe   job, layout, artifact (the recorder, or null)  launches: see ``DryRun.describe_launches``
=========  =============================================  ==========================================

``first`` is a :class:`FirstLaunch` after the first launch of a job on an arena, else null; a job that ran before in this process has the one
of that time. ``ns`` has one list for each launch: the nanoseconds that the session reports for each stage, or null for a number that is
not finite. ``waited`` has the nanoseconds that the worker waited for each launch. A run without launches moves the arena
only, which shows what earlier launches left.

A failed request is answered with ``failure`` (a :class:`Failure`), ``what`` and ``why``; the traceback goes to
stderr, which the parent keeps. The end of the channel ends the worker, and so does an answer that the device is lost.

A worker has one runtime: the first request that loads one decides which. On an emulated device, the emulator is attached
before the session opens, so that everyone who opens the runtime's library finds it; ``observed`` is what it saw (else
null), and comes with a failure too.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import mmap
import os
import socket
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli import __version__
from fmha_cli.domain.blame import lacking, package_of, raised
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import Attached, Emulator
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, FmhaError, KernelFailure
from fmha_cli.domain.first_launch import IDLE_S, FirstLaunch
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.measuring import Canary, PeakLoops, Tunable
from fmha_cli.domain.protocols import Backend, DryRun, Remarking, Session
from fmha_cli.run.job import HOST, RECORDER, Emulation, JobMessage, Loadable
from fmha_cli.run.layout import LayoutMessage
from fmha_cli.run.loading import load
from fmha_cli.run.protocol import VERSION, Decoder, Failure, Message, encode, map_shared
from fmha_cli.system import handover
from fmha_cli.system.processes import die_with_parent, end_first, end_own_group
from fmha_cli.system.usage import give_back, keep_freed_memory, no_core_dumps, peak_from_here, resident_peak

KNOWN_JOBS = 64
"""Jobs whose first launch is remembered."""


@dataclass
class Loaded:
    """A job that is ready to run; ``fresh`` until its inputs were uploaded for the first time.

    Attributes:
        digest: of the job.
        seed: of the order of waves on an emulated device; the n-th launch takes this one plus n.
    """

    session: Session
    arena: mmap.mmap
    digest: str = ""
    fresh: bool = True
    seed: int = 0
    launches: int = 0

    def close(self) -> None:
        self.session.close()
        with suppress(BufferError):  # the session kept a view, which also keeps the mapping
            self.arena.close()


class Worker:
    """The requests' handlers and the jobs that are loaded."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._decoder = Decoder()
        self._descriptors: list[int] = []
        self._jobs: dict[str, Loaded] = {}
        self._firsts: OrderedDict[str, FirstLaunch] = OrderedDict()
        self._runtime: str | None = None
        self._package: str | None = None
        self._emulator: Attached | None = None
        self._handlers: dict[str, Callable[[Message], Message]] = {
            "hello": lambda request: {"version": VERSION, "fmha": __version__, "pid": os.getpid()},
            "probe": self._probe,
            "load": self._load,
            "run": self._run,
            "drop": self._drop,
            "peaks": self._peaks,
            "canary": self._canary,
            "settings": self._settings,
            "describe": self._describe,
        }

    def serve(self) -> None:
        """Answer requests until the channel ends."""
        while True:
            data, descriptors = handover.receive(self._channel, 1 << 16, 4)
            self._descriptors += descriptors
            if not data:
                break
            for request in self._decoder.feed(data):
                answer = self._answer(request)
                self._channel.sendall(encode({"seq": request["seq"], **answer}))
                if answer.get("failure") == Failure.LOST:
                    return  # nothing can be freed in a dead context; the end of the process frees it
        for loaded in self._jobs.values():
            loaded.close()

    def _answer(self, request: Message) -> Message:
        answer = self._tried(request)
        if "failure" not in answer or self._emulator is None:
            return answer
        seen = self._emulator.take()
        if (
            seen.fault is not None
        ):  # the runtime's error number is less specific, and would mean a lost device on hardware
            answer = {"failure": Failure.KERNEL.value, "what": seen.fault, "why": answer["what"]}
        return {**answer, "observed": to_json(seen)}

    def _tried(self, request: Message) -> Message:
        try:
            return self._handlers[request["do"]](request)
        except DeviceLost as fault:
            return _failed(Failure.LOST, fault)
        except KernelFailure as fault:
            return _failed(Failure.KERNEL, fault)
        except EnvironmentProblem as fault:
            return _failed(Failure.ENVIRONMENT, fault)
        except MemoryError as fault:
            return _failed(Failure.MEMORY, fault)
        except Exception as fault:  # noqa: BLE001 - a backend may raise anything; the row pays, not the run
            failure = Failure.KERNEL if request["do"] == "load" else Failure.EXCEPTION
            return _failed(failure, fault, self._package)

    def _claim(self, runtime: str) -> None:
        """Take a runtime, once.

        Raises:
            EnvironmentProblem: X015, this process has another one.
        """
        if self._runtime not in (None, runtime):
            raise EnvironmentProblem("this worker has loaded another runtime", code="X015", why="a fresh one is needed")
        self._runtime = runtime

    def _attach(self, emulation: Emulation, device: DeviceFacts) -> Attached:
        if self._emulator is None:
            emulator: Emulator = load(emulation.entry, emulation.name, Emulator)
            self._emulator = emulator.attach(verified(emulation.library), device, emulation.options)
        return self._emulator

    def _probe(self, request: Message) -> Message:
        return {"availability": to_json(self._backend(request).probe())}

    def _load(self, request: Message) -> Message:
        fd = self._descriptors.pop(0)
        try:
            layout = from_json(LayoutMessage, request["layout"], "layout")
            arena = map_shared(fd, layout.size)
        finally:
            os.close(fd)
        job = from_json(JobMessage, request["job"], "job")
        self._claim(job.runtime)
        backend: Backend = load(job.entry, job.backend, Backend)
        plan = job.plan(backend)
        paths = [verified(artifact) for artifact in job.artifacts]
        if job.emulation is not None:
            watching = self._attach(job.emulation, job.device)
            watching.watch(address_of(arena), len(arena), layout.regions)
        self._package = package_of(type(backend).__module__)
        session = backend.open(job.device)
        if missing := lacking(session, Session):
            raise KernelFailure(missing, code="X017", help="docs/how-to/write-a-backend.md")
        seed = 0 if job.emulation is None else job.emulation.options.seed
        loaded = Loaded(session, arena, request["digest"], seed=seed)
        try:
            session.load(plan, paths)
            session.bind(memoryview(arena), layout.bound(), job.threads)
            said = session.remarks() if isinstance(session, Remarking) else ()
        except BaseException:
            loaded.close()
            raise
        self._jobs[request["id"]] = loaded
        return {"remarks": list(said)}

    def _run(self, request: Message) -> Message:
        loaded = self._jobs[request["id"]]
        session, cold = loaded.session, request["cold"]
        self._package = package_of(type(session).__module__)
        times: list[list[int | None]] = []
        waited: list[int] = []
        if request["upload"] or loaded.fresh:
            session.upload()
            loaded.fresh = False
        first = bool(request["launches"]) and not loaded.launches
        known = self._firsts.get(loaded.digest) if first else None
        level = _level(loaded.arena) if first and known is None else None
        for _ in range(request["launches"]):
            if cold:
                session.evict_caches()
            if self._emulator is not None:
                self._emulator.order(loaded.seed + loaded.launches)
            loaded.launches += 1
            start = time.perf_counter_ns()
            stages = session.launch()
            waited.append(time.perf_counter_ns() - start)
            times.append([_whole(ns) for ns in stages])
        account = None
        if first:
            account = to_json(self._remembered(loaded.digest, known or _account(level)))
        if request["download"]:
            session.download()
        seen = None if self._emulator is None else to_json(self._emulator.take())
        return {"ns": times, "waited": waited, "first": account, "observed": seen}

    def _remembered(self, digest: str, account: FirstLaunch) -> FirstLaunch:
        """Keep what the first launch of a job has shown: on other tensors it would show the same, 10 ms later."""
        self._firsts[digest] = account
        self._firsts.move_to_end(digest)
        while len(self._firsts) > KNOWN_JOBS:
            self._firsts.popitem(last=False)
        return account

    def _drop(self, request: Message) -> Message:
        loaded = self._jobs.pop(request["id"], None)
        if loaded is not None:
            loaded.close()
        return {}

    def _backend(self, request: Message, kind: type = Backend, has: str = "") -> Any:
        """The backend of a request. Raises EnvironmentProblem: it is not here, or not of a kind that ``has`` something."""
        self._claim(HOST)
        backend = load(request["entry"], request["backend"], Backend)
        if not isinstance(backend, kind):
            raise EnvironmentProblem(f"backend {backend.name} has no {has}")
        return backend

    def _peaks(self, request: Message) -> Message:
        backend: PeakLoops = self._backend(request, PeakLoops, "peak loops")
        return {"peaks": backend.run_peaks(_artifact(request), request["threads"])}

    def _canary(self, request: Message) -> Message:
        backend: Canary = self._backend(request, Canary, "canary")
        return {"rate": backend.run_canary(_artifact(request), request["threads"], memory=request["memory"])}

    def _settings(self, request: Message) -> Message:
        backend = self._backend(request, Tunable, "settings")
        kernel = parse_kernel(request["kernel"], {backend.name: backend.algorithm})
        return {"values": dict(backend.measure_settings(_artifact(request), kernel, request["threads"]))}

    def _describe(self, request: Message) -> Message:
        job = from_json(JobMessage, request["job"], "job")
        self._claim(RECORDER)
        backend: Backend = load(job.entry, job.backend, Backend)
        if not isinstance(backend, DryRun):
            raise EnvironmentProblem(f"backend {backend.name} shows no launches")
        launches = backend.describe_launches(
            job.plan(backend),
            [verified(artifact) for artifact in job.artifacts],
            from_json(LayoutMessage, request["layout"], "layout").bound(),
            job.device,
            None if request["artifact"] is None else _artifact(request),
        )
        return {"launches": [to_json(launch) for launch in launches]}


def _level(arena: mmap.mmap) -> int | None:
    """The resident size of this process, with every page of the tensors in it and nothing that an earlier job freed."""
    give_back()
    for page in range(0, len(arena), mmap.PAGESIZE):
        arena[page]
    return peak_from_here()


def _account(level: int | None) -> FirstLaunch:
    """What is known about the launch that has just returned."""
    peak = resident_peak()
    time.sleep(IDLE_S)
    start, busy = time.perf_counter(), time.process_time()
    time.sleep(IDLE_S)
    busy, passed = time.process_time() - busy, time.perf_counter() - start
    above = None if level is None or peak is None else max(0, peak - level)
    return FirstLaunch(peak_bytes=above, idle_cores=round(busy / passed, 2))


def _whole(ns: float) -> int | None:
    """A reported time as the protocol carries it."""
    return int(ns) if math.isfinite(ns) else None


def address_of(arena: mmap.mmap) -> int:
    """The address of a mapping in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(arena))


def _artifact(request: Message) -> Path:
    return verified(from_json(Loadable, request["artifact"], "artifact"))


def verified(artifact: Loadable) -> Path:
    """The path of an artifact whose bytes equal the built ones.

    Raises:
        KernelFailure: they are not, or the file cannot be read.
    """
    path = artifact.path
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as fault:
        raise KernelFailure(f"artifact {path} cannot be read", code="X011", where=str(path), why=str(fault)) from fault
    if found != artifact.sha256:
        what, why = f"artifact {path} is damaged", f"its sha256 is {found}, but {artifact.sha256} was built"
        raise KernelFailure(what, code="X012", where=str(path), why=why, help="`fmha cache verify`")
    return path


def _failed(failure: Failure, fault: Exception, package: str | None = None) -> Message:
    traceback.print_exception(fault)
    if isinstance(fault, FmhaError):
        return {"failure": failure.value, "what": fault.what, "why": fault.why}
    return {"failure": failure.value, "what": raised(fault, package), "why": None}


def confine(lifeline: int, parent: int, *, pdeathsig: bool) -> None:
    """Tie this process's life to its parent's and prepare for a crash: a bad kernel must harm no other process and leave
    no orphan.

    Args:
        lifeline: reading end of a pipe whose writing end only the parent holds; it closes when the parent ends.
        parent: process id of the parent as the parent knows it.
        pdeathsig: also ask the system for SIGKILL when the parent dies. The signal comes when the *thread* that
            started this process ends, so only a process that a main thread started may ask for it.

    Raises:
        SystemExit: the parent has already ended.
    """
    if pdeathsig:
        die_with_parent()
    if os.getppid() != parent:
        raise SystemExit(0)
    threading.Thread(target=_watch, args=(lifeline,), daemon=True, name="lifeline").start()
    no_core_dumps()
    end_first()  # the parent can then report it


def _watch(lifeline: int) -> None:
    """Kill the whole group when the parent has ended, whatever the kernel is doing."""
    with suppress(OSError):
        os.read(lifeline, 1)
    end_own_group()


def main(arguments: list[str]) -> None:
    """Serve one parent."""
    channel, lifeline, parent, pdeathsig = (int(text) for text in arguments)
    for descriptor in (channel, lifeline):
        os.set_inheritable(descriptor, False)
    confine(lifeline, parent, pdeathsig=bool(pdeathsig))
    keep_freed_memory()
    Worker(socket.socket(fileno=channel)).serve()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # every device is closed; the parent need not wait while Python and its libraries tidy up


if __name__ == "__main__":
    main(sys.argv[1:])

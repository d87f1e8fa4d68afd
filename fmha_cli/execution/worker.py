"""The worker process: ``python -m fmha_cli.execution.worker CHANNEL LIFELINE PARENT PDEATHSIG``.

It opens devices, loads kernels and launches them; it decides nothing. One request is answered at a time:

=========  =============================================  ==========================================
request    members                                        answer
=========  =============================================  ==========================================
hello                                                     version, fmha, pid
probe      entry, backend                                 availability
load       id, job, layout (arena's descriptor attached)  (empty)
run        id, launches, cold, transfer                   ns: one list of stages for each launch; observed
drop       id                                             (empty)
peaks      entry, backend, artifact, threads              peaks: see ``PeakLoops.run_peaks``
describe   job, layout, recorder                          launches: see ``DryRun.describe_launches``
=========  =============================================  ==========================================

A failed request is answered with ``failure`` (a :class:`Failure`), ``what`` and ``why``; the traceback goes to
stderr, which the parent keeps. The end of the channel ends the worker, and so does an answer that the device is lost.

A worker has one runtime: the first request that loads one decides which. On an emulated device, the emulator is attached
before the session opens, so that whoever opens the runtime's library finds it; ``observed`` is what it saw (else null),
and comes with a failure too.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import Attached
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, FmhaError, KernelFailure
from fmha_cli.domain.protocols import DryRun, PeakLoops, Session
from fmha_cli.execution.confine import confine
from fmha_cli.execution.job import HOST, RECORDER, EmulationMessage, JobMessage
from fmha_cli.execution.layout import LayoutMessage
from fmha_cli.execution.loading import load_backend, load_emulator
from fmha_cli.execution.memory import map_shared
from fmha_cli.execution.protocol import VERSION, Decoder, Failure, Message, encode


@dataclass
class Loaded:
    """A job that is ready to run; ``fresh`` until its inputs were uploaded for the first time.

    Attributes:
        seed: of the order of waves on an emulated device; the n-th launch takes this one plus n.
    """

    session: Session
    arena: mmap.mmap
    fresh: bool = True
    seed: int = 0
    launches: int = 0

    def close(self) -> None:
        self.session.close()
        self._release()

    def _release(self) -> None:
        with suppress(BufferError):  # the session kept a view: the mapping goes with it
            self.arena.close()


class Worker:
    """The requests' handlers and the jobs that are loaded."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._decoder = Decoder()
        self._descriptors: list[int] = []
        self._jobs: dict[str, Loaded] = {}
        self._runtime: str | None = None
        self._emulator: Attached | None = None
        self._handlers: dict[str, Callable[[Message], Message]] = {
            "hello": lambda request: {"version": VERSION, "fmha": __version__, "pid": os.getpid()},
            "probe": self._probe,
            "load": self._load,
            "run": self._run,
            "drop": self._drop,
            "peaks": self._peaks,
            "describe": self._describe,
        }

    def serve(self) -> None:
        """Answer requests until the channel ends."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 16, 4)
            self._descriptors += descriptors
            if not data:
                break
            for request in self._decoder.feed(data):
                answer = self._answer(request)
                self._channel.sendall(encode({"seq": request["seq"], **answer}))
                if answer.get("failure") == Failure.LOST:
                    return  # nothing can be given back to a dead context; the process's end does it
        for loaded in self._jobs.values():
            loaded.close()

    def _answer(self, request: Message) -> Message:
        answer = self._tried(request)
        if "failure" not in answer or self._emulator is None:
            return answer
        seen = self._emulator.take()
        if seen.fault is not None:  # the runtime's error number says less, and means a lost device on hardware
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
            return _failed(Failure.KERNEL if request["do"] == "load" else Failure.EXCEPTION, fault)

    def _claim(self, runtime: str) -> None:
        """Take a runtime, once.

        Raises:
            EnvironmentProblem: X015, this process has another one.
        """
        if self._runtime not in (None, runtime):
            raise EnvironmentProblem("this worker has loaded another runtime", code="X015", why="a fresh one is needed")
        self._runtime = runtime

    def _attach(self, emulation: EmulationMessage, device: DeviceFacts) -> Attached:
        if self._emulator is None:
            emulator = load_emulator(emulation.entry, emulation.name)
            self._emulator = emulator.attach(verified(*emulation.library), device, emulation.options)
        return self._emulator

    def _probe(self, request: Message) -> Message:
        self._claim(HOST)
        found = load_backend(request["entry"], request["backend"]).probe()
        return {"availability": to_json(found)}

    def _load(self, request: Message) -> Message:
        fd = self._descriptors.pop(0)
        try:
            layout = from_json(LayoutMessage, request["layout"], "layout")
            arena = map_shared(fd, layout.size)
        finally:
            os.close(fd)
        job = from_json(JobMessage, request["job"], "job")
        self._claim(job.runtime)
        backend = load_backend(job.entry, job.backend)
        plan = job.plan(backend)
        paths = [verified(path, sha256) for path, sha256 in job.artifacts]
        if job.emulation is not None:
            watching = self._attach(job.emulation, job.device)
            watching.watch(address_of(arena), len(arena), layout.watched())
        session = backend.open(job.device)
        loaded = Loaded(session, arena, seed=0 if job.emulation is None else job.emulation.options.seed)
        try:
            session.load(plan, paths)
            session.bind(memoryview(arena), layout.bound(), job.threads)
        except BaseException:
            loaded.close()
            raise
        self._jobs[request["id"]] = loaded
        return {}

    def _run(self, request: Message) -> Message:
        loaded = self._jobs[request["id"]]
        session, cold, times = loaded.session, request["cold"], []
        if request["transfer"] or loaded.fresh:
            session.upload()
            loaded.fresh = False
        for _ in range(request["launches"]):
            if cold:
                session.evict_caches()
            if self._emulator is not None:
                self._emulator.order(loaded.seed + loaded.launches)
            loaded.launches += 1
            times.append(session.launch())
        if request["transfer"]:
            session.download()
        seen = None if self._emulator is None else to_json(self._emulator.take())
        return {"ns": [[int(ns) for ns in stages] for stages in times], "observed": seen}

    def _drop(self, request: Message) -> Message:
        loaded = self._jobs.pop(request["id"], None)
        if loaded is not None:
            loaded.close()
        return {}

    def _peaks(self, request: Message) -> Message:
        self._claim(HOST)
        backend = load_backend(request["entry"], request["backend"])
        if not isinstance(backend, PeakLoops):
            raise EnvironmentProblem(f"backend {backend.name} has no peak loops")
        path, sha256 = request["artifact"]
        return {"peaks": backend.run_peaks(verified(Path(path), sha256), request["threads"])}

    def _describe(self, request: Message) -> Message:
        job = from_json(JobMessage, request["job"], "job")
        self._claim(RECORDER)
        backend = load_backend(job.entry, job.backend)
        if not isinstance(backend, DryRun):
            raise EnvironmentProblem(f"backend {backend.name} shows no launches")
        paths = [verified(path, sha256) for path, sha256 in job.artifacts]
        recorder = request["recorder"]
        launches = backend.describe_launches(
            job.plan(backend),
            paths,
            from_json(LayoutMessage, request["layout"], "layout").bound(),
            job.device,
            None if recorder is None else verified(Path(recorder[0]), recorder[1]),
        )
        return {"launches": [to_json(launch) for launch in launches]}


def address_of(arena: mmap.mmap) -> int:
    """The address of a mapping in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(arena))


def verified(path: Path, sha256: str) -> Path:
    """The path of an artifact whose bytes are what was built.

    Raises:
        KernelFailure: they are not, or the file cannot be read.
    """
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as fault:
        raise KernelFailure(f"artifact {path} cannot be read", code="X011", where=str(path), why=str(fault)) from fault
    if found != sha256:
        raise KernelFailure(
            f"artifact {path} is damaged",
            code="X012",
            where=str(path),
            why=f"sha256 {found}, built was {sha256}",
            help="`fmha cache verify`",
        )
    return path


def _failed(failure: Failure, fault: Exception) -> Message:
    traceback.print_exception(fault)
    if isinstance(fault, FmhaError):
        return {"failure": failure.value, "what": fault.what, "why": fault.why}
    return {"failure": failure.value, "what": f"{type(fault).__name__}: {fault}", "why": None}


def main(arguments: list[str]) -> None:
    """Serve one parent."""
    channel, lifeline, parent, pdeathsig = (int(text) for text in arguments)
    for descriptor in (channel, lifeline):
        os.set_inheritable(descriptor, False)
    confine(lifeline, parent, pdeathsig=bool(pdeathsig))
    Worker(socket.socket(fileno=channel)).serve()


if __name__ == "__main__":
    main(sys.argv[1:])

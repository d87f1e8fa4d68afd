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
from fmha_cli.device import DeviceFacts
from fmha_cli.emulation import Attached, EmulatorOptions
from fmha_cli.errors import DeviceLost, EnvironmentProblem, FmhaError, KernelFailure
from fmha_cli.execution.confine import confine
from fmha_cli.execution.job import (
    HOST,
    RECORDER,
    artifacts_from_wire,
    availability_to_wire,
    device_from_wire,
    launch_to_wire,
    plan_from_wire,
)
from fmha_cli.execution.layout import regions_from_wire, tensors_from_wire
from fmha_cli.execution.loading import load_backend, load_emulator
from fmha_cli.execution.memory import map_shared
from fmha_cli.execution.protocol import VERSION, Decoder, Failure, Message, encode
from fmha_cli.protocols import DryRun, PeakLoops, Session


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
        return {**answer, "observed": seen.to_dict()}

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

    def _attach(self, emulation: Message, device: DeviceFacts) -> Attached:
        if self._emulator is None:
            path, sha256 = emulation["library"]
            emulator = load_emulator(emulation["entry"], emulation["name"])
            options = EmulatorOptions(**emulation["options"])
            self._emulator = emulator.attach(verified(Path(path), sha256), device, options)
        return self._emulator

    def _probe(self, request: Message) -> Message:
        self._claim(HOST)
        found = load_backend(request["entry"], request["backend"]).probe()
        return {"availability": availability_to_wire(found)}

    def _load(self, request: Message) -> Message:
        fd = self._descriptors.pop(0)
        try:
            arena = map_shared(fd, request["layout"]["size"])
        finally:
            os.close(fd)
        job = request["job"]
        self._claim(job["runtime"])
        backend = load_backend(job["entry"], job["backend"])
        plan = plan_from_wire(job, backend)
        paths = [verified(path, sha256) for path, sha256 in artifacts_from_wire(job)]
        device, emulation = device_from_wire(job["device"]), job["emulation"]
        if emulation is not None:
            watching = self._attach(emulation, device)
            watching.watch(address_of(arena), len(arena), regions_from_wire(request["layout"]))
        session = backend.open(device)
        loaded = Loaded(session, arena, seed=0 if emulation is None else emulation["options"]["seed"])
        try:
            session.load(plan, paths)
            session.bind(memoryview(arena), tensors_from_wire(request["layout"]), job["threads"])
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
        seen = None if self._emulator is None else self._emulator.take().to_dict()
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
        job = request["job"]
        self._claim(RECORDER)
        backend = load_backend(job["entry"], job["backend"])
        if not isinstance(backend, DryRun):
            raise EnvironmentProblem(f"backend {backend.name} shows no launches")
        paths = [verified(path, sha256) for path, sha256 in artifacts_from_wire(job)]
        recorder = request["recorder"]
        launches = backend.describe_launches(
            plan_from_wire(job, backend),
            paths,
            tensors_from_wire(request["layout"]),
            device_from_wire(job["device"]),
            None if recorder is None else verified(Path(recorder[0]), recorder[1]),
        )
        return {"launches": [launch_to_wire(launch) for launch in launches]}


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

"""Test backends that fail before any kernel runs. Entry points name them by attribute."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_null import NullBackend
from fmha_null.session import NullSession

from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import BoundTensor, Session


class ProbeCrashes(NullBackend):
    def probe(self) -> Availability:
        os.abort()


class ProbeHangs(NullBackend):
    def probe(self) -> Availability:
        time.sleep(600)
        raise AssertionError


class ProbeRaises(NullBackend):
    def probe(self) -> Availability:
        raise RuntimeError("driver too old")


class ProbePrints(NullBackend):
    def probe(self) -> Availability:
        for _ in range(100):
            os.write(1, b"x" * 4096)
        print("the end")
        return super().probe()


class ProbeTells(NullBackend):
    """Says of its process what whoever started it decides."""

    def probe(self) -> Availability:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD, signal.SIGHUP)
        said = {
            "folder": os.getcwd(),
            "session": os.getsid(0),
            "group": os.getpgid(0),
            "variables": {name: ascii(text) for name, text in os.environ.items()},
            "path": sys.path,
            "descriptors": len(os.listdir("/proc/self/fd")),
            "streams": [os.readlink("/proc/self/fd/0"), os.path.sameopenfile(1, 2)],
            "signals": [str(signal.getsignal(number)) for number in numbers],
            "masked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "threads": threading.active_count(),
            "flags": str(sys.flags),
            "limits": [resource.getrlimit(limit) for limit in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)],
            "umask": os.umask(0o77),
        }
        return Availability(state=State.NO_DEVICE, why=json.dumps(said))


class OpenFails(NullBackend):
    def open(self, device: DeviceFacts) -> Session:
        raise EnvironmentProblem(f"device {device.id} is gone", why="unplugged")


class LoadRaises(NullSession):
    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        raise OSError("undefined symbol: attend")


class BindRaises(NullSession):
    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        raise MemoryError("no room for the mirror")


class LiesAboutTime(NullSession):
    times: tuple[object, ...] = ()

    def launch(self) -> tuple[int, ...]:
        super().launch()
        return self.times  # type: ignore[return-value]


class TooManyTimes(LiesAboutTime):
    times = (1, 2)


class LosesDevice(NullSession):
    """A launch loses the device; as with a real one, nothing on it can be freed afterwards."""

    def launch(self) -> tuple[int, ...]:
        raise DeviceLost("an illegal memory access was encountered (700)", code="N001")

    def close(self) -> None:
        raise AssertionError("a lost device was asked to free something")


class Frees(NullSession):
    """A launch uses a block of 64 MiB and frees it. Its time is 10 ns for each page that this faulted in, and 10 more."""

    def launch(self) -> tuple[int, ...]:
        super().launch()
        library, size = ctypes.CDLL(None), 64 << 20
        library.malloc.restype = ctypes.c_void_p
        block, before = library.malloc(ctypes.c_size_t(size)), faults()
        for page in range(0, size, 4096):
            ctypes.memset(block + page, 1, 1)
        library.free(ctypes.c_void_p(block))
        return (10 * (1 + faults() - before),)


def faults() -> int:
    """The minor page faults of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class ProbeLosesDevice(NullBackend):
    def probe(self) -> Availability:
        raise DeviceLost("unspecified launch failure (719)", code="N001")


def opening(kind: type[NullSession]) -> NullBackend:
    backend = NullBackend()
    backend.open = lambda device: kind()  # type: ignore[method-assign]
    return backend


def lying(ns: object) -> NullBackend:
    """A backend whose launches report this time."""
    return opening(type("Lying", (LiesAboutTime,), {"times": (ns,)}))


probe_prints = ProbePrints()
probe_tells = ProbeTells()
probe_crashes, probe_hangs, probe_raises, open_fails = ProbeCrashes(), ProbeHangs(), ProbeRaises(), OpenFails()
load_raises, bind_raises, loses_device = opening(LoadRaises), opening(BindRaises), opening(LosesDevice)
probe_loses_device, frees = ProbeLosesDevice(), opening(Frees)
too_many_times, negative_time, no_time, one_ns = opening(TooManyTimes), lying(-1), lying(0), lying(1)
nan_time, endless_time, age_of_the_universe = lying(float("nan")), lying(float("inf")), lying(1e30)
not_a_backend = object()


def fmha_register_backends() -> Sequence[NullBackend]:
    return (NullBackend(),)

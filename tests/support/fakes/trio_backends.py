"""Test backends that serve the same problems: ``one``, ``two`` and ``three`` on one device, ``apart`` on another, ``away`` on none.

They are the null backend under other names. ``TRIO_NAME=BEHAVIOUR`` gives the kernel of a backend a behaviour of the null backend's; some
words are their own: ``late`` fails once it has been launched a few times, ``liar`` reports times that cannot be true, ``hungry`` needs
``HUNGER`` bytes while it runs, ``spinner`` has threads that spin after a launch, ``slow`` takes 20 ms, and ``disliked`` runs if it is named.
``TRIO_NAME_UNITS`` is the number of units of a backend's device. They form a plugin, so ``fmha`` processes find them by its entry point
like any other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fmha_null import NullBackend
from fmha_null.kernels import ARCH, Behaviour, null_kernel
from fmha_null.session import NullSession

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, Session
from fmha_cli.domain.rules import Refusal, Rule, Severity, reasons_against

DEVICES = {"one": "null", "two": "null", "three": "null", "apart": "other", "away": None}
HUNGER = 96 << 20
LATE_AFTER = 6
"""Launches before a late failure: the ones that are judged before the timing, and some timed ones."""


def install(folder: Path) -> None:
    """Lay out the backends like an installed plugin, for processes with ``folder`` on their module path."""
    info = folder / "trio_backends-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trio-backends\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[fmha]\ntrio = {__name__}\n", "utf-8")


class TrioSession(NullSession):
    """Counts its loads in the file of ``TRIO_LOADS``."""

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super().load(plan, artifacts)
        self._word = os.environ.get(f"TRIO_{plan.main.backend.upper()}")
        if "TRIO_LOADS" in os.environ:
            with Path(os.environ["TRIO_LOADS"]).open("a", encoding="utf-8") as log:
                log.write(f"{plan.main.backend}\n")

    def launch(self) -> tuple[int, ...]:
        if self._word == "late" and self._launches >= LATE_AFTER:
            raise KernelFailure("it was launched too often", code="K951")
        if self._word == "hungry":
            bytearray(HUNGER)
        if self._word == "slow":
            start = time.perf_counter_ns()
            time.sleep(0.02)
            slept = time.perf_counter_ns() - start
            first, *more = super().launch()
            return first + slept, *more
        times = super().launch()
        if self._word == "spinner":
            sys.modules["__main__"].time = _TwoCoresBusy  # type: ignore[attr-defined]
        return tuple(-5 for _ in times) if self._word == "liar" else times


class _TwoCoresBusy:
    """The worker's clocks while two threads spin. Real threads do not run in every few milliseconds of a busy machine."""

    sleep, perf_counter, perf_counter_ns = time.sleep, time.perf_counter, time.perf_counter_ns

    @staticmethod
    def process_time() -> float:
        return 2 * time.perf_counter()


def _dislike(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    words = os.environ.get(f"TRIO_{kernel.backend.upper()}", "").split()
    return Refusal("nobody should choose it") if "disliked" in words else None


DISLIKED = Rule("K998", "somebody likes the kernel", _dislike, severity=Severity.CHOICE)


class TrioBackend(NullBackend):
    """The null backend under another name, with one kernel."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def kernel(self) -> KernelSpec:
        word = os.environ.get(f"TRIO_{self.name.upper()}", "")
        behaviour = Behaviour(word) if word in list(Behaviour) else Behaviour.HONEST
        return replace(null_kernel(DType.FP32, Family.FWD, behaviour), backend=self.name)

    def probe(self) -> Availability:
        id = DEVICES[self.name]
        if id is None:
            return Availability(state=State.NO_DEVICE, why="it is out", help="wait for it")
        units = int(os.environ.get(f"TRIO_{self.name.upper()}_UNITS", "1"))
        device = DeviceFacts(id=id, archs=(ARCH,), name="numpy", units=units)
        return Availability(state=State.OK, devices=(device,), version="1")

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return (self.kernel,) if arch.name == ARCH else ()

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        reasons = reasons_against(self.rules(), problem, self.kernel, device)
        yield Unsupported(self.name, ARCH, self.kernel, tuple(reasons)) if reasons else Supported(self.kernel, (0,))

    def rules(self) -> tuple[Rule, ...]:
        return (*super().rules(), DISLIKED)

    def open(self, device: DeviceFacts) -> Session:
        return TrioSession()


backends: tuple[Backend, ...] = tuple(map(TrioBackend, DEVICES))


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return backends

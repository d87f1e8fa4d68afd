"""A test backend for ``fmha tune``: its only listed kernel takes 5 ms longer than it must, and its kernels for tuning are null kernels
with the behaviours that ``RING_VARIANTS`` names (by default ``honest``). A plugin, as those of ``trio_backends``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fmha_null import NullBackend
from fmha_null.kernels import ARCH, Behaviour, behaviour_of, null_kernel
from fmha_null.session import NullSession

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, Session
from fmha_cli.domain.rules import reasons_against

LATE_S = 0.005


def install(folder: Path) -> None:
    """Lay out the backend like an installed plugin, for processes with ``folder`` on their module path."""
    info = folder / "ring_backend-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ring-backend\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[fmha]\nring = {__name__}\n", "utf-8")


def kernel_of(behaviour: Behaviour) -> KernelSpec:
    """A kernel of the ring; the default has the behaviour ``garbage_stdout``, which is harmless."""
    return replace(null_kernel(DType.FP32, Family.FWD, behaviour), backend="ring")


DEFAULT, HONEST = kernel_of(Behaviour.GARBAGE_STDOUT), kernel_of(Behaviour.HONEST)


class RingSession(NullSession):
    """The default sleeps, and tells it."""

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super().load(plan, artifacts)
        self._late = plan.main == DEFAULT

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        if self._late:
            time.sleep(LATE_S)
        slept = time.perf_counter_ns() - start
        first, *more = super().launch()
        return first + slept, *more


class RingBackend(NullBackend):
    """The null backend with one kernel, and others for tuning."""

    name = "ring"

    def probe(self) -> Availability:
        device = DeviceFacts(id="null", archs=(ARCH,), name=os.environ.get("RING_DEVICE", "ring"))
        return Availability(state=State.OK, devices=(device,), version="1")

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return (DEFAULT,) if arch.name == ARCH else ()

    def variants(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        words = os.environ.get("RING_VARIANTS", "honest").split(",")
        return (kernel_of(Behaviour(word)) for word in words if word)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self._decided(problem, device, (DEFAULT,))

    def decide_variants(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self._decided(problem, device, self.variants(ArchSpec(ARCH, "", "", {}, {})))

    def _decided(self, problem: Problem, device: DeviceFacts, kernels: Iterable[KernelSpec]) -> Iterable[Decision]:
        for place, kernel in enumerate(kernels):
            reasons = reasons_against(self.rules(), problem, kernel, device)
            if reasons:
                yield Unsupported(self.name, kernel.arch, kernel, tuple(reasons))
            else:
                yield Supported(kernel, (place,), behaviour_of(kernel).value)

    def open(self, device: DeviceFacts) -> Session:
        return RingSession()


ring: Backend = RingBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (ring,)

"""Protocols of backends that measure the machine: the peaks of its device, its ceiling around timed launches, settings
of kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.settings import Settings


@runtime_checkable
class PeakLoops(Protocol):
    """A backend that can measure the peaks of its device, to which ``bench`` compares its times."""

    def build_peaks(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        """Build (or find) the loops for the first of the device's architectures. The core asks with the architecture of a
        row's kernel alone, whose instructions the loops must have and no others.

        Raises:
            KernelFailure, EnvironmentProblem: as ``Backend.build``.
        """

    def run_peaks(self, artifact: Path, threads: int) -> dict[str, object]:
        """Run the loops in a separate process.

        Returns:
            ``{"flops": {dtype: FLOP/s}, "bandwidth": bytes/s or None, "llc_bytes": bytes or None, "source": text}``.
        """


@runtime_checkable
class Canary(Protocol):
    """A backend with ``PeakLoops`` that can check, right around timed launches, whether the machine is still as fast."""

    def run_canary(self, artifact: Path, threads: int, *, memory: bool) -> float:
        """Run a short loop of the library of ``build_peaks`` in a separate process.

        Args:
            memory: read from main memory; else compute.

        Returns:
            FLOP/s, or bytes/s of reads; 0 if there is no memory for them.
        """


@runtime_checkable
class Tunable(Protocol):
    """A backend whose kernels take settings at run time that depend on the processor.

    A session finds them in ``DeviceFacts.settings``.
    """

    def default_settings(self, kernel: KernelSpec, device: DeviceFacts) -> Settings | None:
        """The settings of a kernel by the facts of the device, else the kernel's own; None if it takes none."""

    def worth_measuring(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> bool:
        """Whether the settings matter for a problem, so a measurement is worth its time (below a second)."""

    def measure_settings(self, artifact: Path, kernel: KernelSpec, threads: int) -> Mapping[str, int]:
        """The fastest settings, measured on this machine with the kernel itself. Only the worker calls this.

        Raises:
            KernelFailure: the kernel does not load or launch.
            MemoryError: no memory for the tensors.
        """

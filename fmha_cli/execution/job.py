"""``Job``: everything the worker needs to run one plan, and its form on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fmha_cli.device import Availability, DeviceFacts, State
from fmha_cli.emulation import EmulatorOptions
from fmha_cli.encode import digest_of
from fmha_cli.kernel import parse_kernel
from fmha_cli.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.problem import Problem
from fmha_cli.protocols import Backend, KernelArgument, LaunchView

HOST = "host"
"""The runtime key of a worker whose jobs run on what this machine has."""

RECORDER = "recorder"
"""The runtime key of a worker whose launches are recorded and not run."""


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """The emulator that a job's device needs.

    Attributes:
        entry, name: where the worker finds it. library: what it loads first; verified like any artifact.
    """

    entry: str
    name: str
    library: Artifact
    options: EmulatorOptions

    def to_wire(self) -> dict[str, Any]:
        """The emulation as JSON."""
        library = [str(self.library.path), self.library.sha256]
        return {"entry": self.entry, "name": self.name, "library": library, "options": vars(self.options)}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One plan on one device.

    Attributes:
        entry: where the worker finds the backend: ``module`` or ``module:attribute``.
        artifacts: one for each stage, in order; the worker verifies each before it is loaded.
        threads: for kernels on a CPU.
        emulation: on an emulated device, else None.
    """

    entry: str
    device: DeviceFacts
    plan: Plan
    artifacts: tuple[Artifact, ...]
    threads: int = 1
    emulation: Emulation | None = None

    @property
    def backend(self) -> str:
        return self.plan.main.backend

    @cached_property
    def digest(self) -> str:
        """sha256 over all that the worker is told."""
        return digest_of(self.to_wire())

    @cached_property
    def runtime(self) -> str:
        """Which runtime its worker loads: one that has another serves no job of this one."""
        return HOST if self.emulation is None else digest_of([self.device.id, self.emulation.to_wire()])

    def to_wire(self) -> dict[str, Any]:
        """The job as JSON."""
        return {
            "entry": self.entry,
            "backend": self.backend,
            "device": device_to_wire(self.device),
            "problem": self.plan.problem.repro(),
            "stages": [[stage.kernel.name, [list(pair) for pair in stage.detail]] for stage in self.plan.stages],
            "workspaces": [[w.name, w.bytes, w.align] for w in self.plan.workspaces],
            "splits": self.plan.splits,
            "artifacts": [[str(a.path), a.sha256] for a in self.artifacts],
            "threads": self.threads,
            "emulation": None if self.emulation is None else self.emulation.to_wire(),
            "runtime": self.runtime,
        }


def plan_from_wire(data: Mapping[str, Any], backend: Backend) -> Plan:
    """The plan of a job's wire form.

    Raises:
        UsageError: a problem or kernel name that is not canonical.
    """
    algorithms = {backend.name: backend.algorithm}
    stages = (Stage(parse_kernel(name, algorithms), _pairs(detail)) for name, detail in data["stages"])
    workspaces = (Workspace(*fields) for fields in data["workspaces"])
    return Plan(Problem.from_cli(data["problem"]), tuple(stages), tuple(workspaces), data["splits"])


def _pairs(detail: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in detail)


def artifacts_from_wire(data: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """(path, sha256) of each stage."""
    return [(Path(path), sha256) for path, sha256 in data["artifacts"]]


def device_to_wire(device: DeviceFacts) -> dict[str, Any]:
    """A device as JSON."""
    return {**vars(device), "archs": list(device.archs)}


def device_from_wire(data: Mapping[str, Any]) -> DeviceFacts:
    """The inverse of :func:`device_to_wire`."""
    return DeviceFacts(**{**data, "archs": tuple(data["archs"])})


def availability_to_wire(found: Availability) -> dict[str, Any]:
    """A probe's answer as JSON."""
    devices = [device_to_wire(device) for device in found.devices]
    return {**vars(found), "state": found.state.value, "devices": devices}


def availability_from_wire(data: Mapping[str, Any]) -> Availability:
    """The inverse of :func:`availability_to_wire`."""
    devices = tuple(device_from_wire(device) for device in data["devices"])
    return Availability(**{**data, "state": State(data["state"]), "devices": devices})


def launch_to_wire(launch: LaunchView) -> dict[str, Any]:
    """A launch as JSON."""
    return asdict(launch)


def launch_from_wire(data: Mapping[str, Any]) -> LaunchView:
    """The inverse of :func:`launch_to_wire`."""
    sequences = {name: tuple(data[name]) for name in ("grid", "block", "notes")}
    arguments = tuple(KernelArgument(**argument) for argument in data["arguments"])
    return LaunchView(**{**data, **sequences, "arguments": arguments})

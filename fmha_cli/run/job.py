"""``WorkerJob``: everything that the worker needs to run one plan, and the message that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import EmulatorOptions
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend

HOST = "host"
"""The runtime key of a worker whose jobs run on this machine's devices."""

RECORDER = "recorder"
"""The runtime key of a worker that records launches and does not run them."""


@dataclass(frozen=True)
class Loadable:
    """A file that a worker loads, and the sha256 that it must have."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, artifact: Artifact) -> Loadable:
        return cls(artifact.path, artifact.sha256)


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """The emulator that a job's device needs.

    Attributes:
        entry: the entry point where the worker finds it.
        name: its name at that entry point.
        library: the library that it loads first; verified like any artifact.
    """

    entry: str
    name: str
    library: Loadable
    options: EmulatorOptions


@dataclass(frozen=True, kw_only=True)
class JobMessage:
    """A job as the worker receives it.

    Attributes:
        problem: every field of it. Its JSON form in documents leaves out defaults, and how large a given cache is.
        stages: the name of each kernel, with the stage's details.
        runtime: the key of the runtime that the worker loads. A worker with another runtime cannot run the job.
    """

    entry: str
    backend: str
    device: DeviceFacts
    problem: Mapping[str, Any]
    stages: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    workspaces: tuple[Workspace, ...]
    splits: int
    artifacts: tuple[Loadable, ...]
    threads: int
    emulation: Emulation | None
    runtime: str

    def plan(self, backend: Backend) -> Plan:
        """The plan of the job.

        Raises:
            DecodeError: the fields are not those of a problem.
            UsageError: a kernel name that is not canonical.
        """
        algorithms = {backend.name: backend.algorithm}
        stages = tuple(Stage(parse_kernel(name, algorithms), detail) for name, detail in self.stages)
        hints = get_type_hints(Problem)  # without the limits of documents, which a default may be beyond
        values = ((one.name, hints[one.name], self.problem.get(one.name)) for one in fields(Problem))
        problem = Problem(**{name: from_json(hint, value, name) for name, hint, value in values})
        return Plan(problem, stages, self.workspaces, self.splits)


@dataclass(frozen=True, kw_only=True)
class WorkerJob:
    """One plan on one device.

    Attributes:
        entry: where the worker finds the backend: ``module`` or ``module:attribute``.
        artifacts: one for each stage, in order; the worker verifies each before it loads it.
        threads: number of threads for kernels on a CPU.
        emulation: the emulator of an emulated device; None on other devices.
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
        """sha256 over the message to the worker."""
        return digest_of(to_json(self.message))

    @cached_property
    def message(self) -> JobMessage:
        """The message to the worker."""
        return JobMessage(
            entry=self.entry,
            backend=self.backend,
            device=self.device,
            problem=asdict(self.plan.problem),
            stages=tuple((stage.kernel.name, stage.detail) for stage in self.plan.stages),
            workspaces=self.plan.workspaces,
            splits=self.plan.splits,
            artifacts=tuple(Loadable.of(artifact) for artifact in self.artifacts),
            threads=self.threads,
            emulation=self.emulation,
            runtime=HOST if self.emulation is None else digest_of([self.device.id, to_json(self.emulation)]),
        )

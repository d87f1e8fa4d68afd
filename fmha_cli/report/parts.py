"""Parts of records and of several documents for which the domain has no type, and how schemas name shared parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, get_args

from fmha_cli import __version__
from fmha_cli.domain.codec import json_of, taken_from
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.errors import ExitCode, FmhaError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.members import Count, Hex64, Least, Named, Pattern, Sha256, ShownAs
from fmha_cli.domain.plan import Artifact, Edited, Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import size
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.signature import Signature
from fmha_cli.domain.verdict import Check, Comparison
from fmha_cli.report.column import Column, Fit
from fmha_cli.system.machine import platform_text

Output = Literal["o", "lse", "dq", "dk", "dv", "dbias"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
"""The outputs that can be checked, in the order in which they are shown."""

Checks = Annotated[
    Mapping[Output, Check | None],
    "One fill: a check for every output, null where it was not checked.",
    Named("comparison"),
]


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """A kernel as a record shows it, readable without the backend that made it.

    ``signature`` and ``algorithm`` hold all their fields as plain values.
    """

    name: Annotated[str, "canonical name"]
    digest: Hex64
    family: Family
    signature: Annotated[Mapping[str, Any], ShownAs(Signature)]
    algorithm: Annotated[Mapping[str, Any], "the backend's free choices"]
    upstream_name: Annotated[str | None, "file stem in the kernel's own project"] = None

    @classmethod
    def of(cls, kernel: KernelSpec, upstream_name: str | None = None, **more: Any) -> Self:
        """The row of a kernel; ``more`` gives the further fields of a subclass."""
        return cls(
            name=kernel.name,
            digest=kernel.digest,
            family=kernel.family,
            signature=json_of(kernel.signature),
            algorithm=json_of(kernel.algorithm),
            upstream_name=upstream_name,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage of the plan: its kernel's name, the median time of the stage, and the artifact that ran.

    ``artifact_sha256``, ``cached`` and ``build_ns`` are None if nothing was built. For a cached artifact, ``build_ns``
    is the duration of its original build.
    """

    family: Family
    kernel: str
    digest: Sha256
    time_ns: Annotated[Count | None, "median of the stage"] = None
    artifact_sha256: Sha256 | None = None
    cached: bool | None = None
    build_ns: Count | None = None
    prebuilt_by: Annotated[str | None, "compiler of a kernel that an archive brought"] = None
    imported_from: Annotated[str | None, "archive that brought the artifact into the cache"] = None
    edited: Edited | None = None


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """The run to which a row belongs: one invocation of a command, or several that resume one journal.

    ``started`` is an ISO 8601 time in UTC. ``revision`` and ``dirty`` are those of the user's repository.
    """

    id: Annotated[str, Pattern("^[0-9a-f]{32}$")]
    command: str
    started: str
    label: str | None = None
    revision: str | None = None
    dirty: bool | None = None


class SelectedBy(StrEnum):
    """How a row's kernel was chosen."""

    DEFAULT = "default"
    KERNEL = "kernel"
    ALL_KERNELS = "all-kernels"
    PAIR = "ab"
    BACKEND = "backend"
    TUNED = "tuned"


def stage_rows(
    plan: Plan, artifacts: Sequence[Artifact | None] = (), times_ns: Sequence[int] = ()
) -> tuple[StageRow, ...]:
    """The stages of a plan with what is known about each; a shorter list leaves the rest unknown."""
    rows = []
    for i, stage in enumerate(plan.stages):
        artifact = artifacts[i] if i < len(artifacts) else None
        rows.append(
            StageRow(
                family=stage.family,
                kernel=stage.kernel.name,
                digest=stage.kernel.digest,
                time_ns=times_ns[i] if i < len(times_ns) else None,
                artifact_sha256=artifact.sha256 if artifact else None,
                cached=artifact.cached if artifact else None,
                build_ns=round(artifact.build_seconds * 1e9) if artifact else None,
                prebuilt_by=artifact.prebuilt_by if artifact else None,
                imported_from=artifact.imported_from if artifact else None,
                edited=artifact.edited if artifact else None,
            )
        )
    return tuple(rows)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where the tensors came from: the seeded fill, and the files that replace it (tensor name -> file, or ``filled`` for a
    tensor that was generated next to given ones)."""

    fill: str = "normal"
    fill_seed: int = 0
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FillNotes:
    """The parts of a comparison other than its figures."""

    fill: str | None
    distrust: str | None
    notes: tuple[str, ...]


def worst(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The fill that used most of its budget; the first of equals."""
    return max(comparisons, key=lambda c: max((check.badness for _, check in c.checks), default=0.0), default=None)


def checks_of(comparison: Comparison) -> Checks:
    """The figures of a comparison."""
    found = dict(comparison.checks)
    return {name: found.get(name) for name in OUTPUTS}


def notes_of(comparison: Comparison) -> FillNotes:
    """The notes of a comparison."""
    fill = comparison.checks[0][1].fill if comparison.checks else None
    return FillNotes(fill=fill, distrust=comparison.distrust, notes=comparison.notes)


def comparison_from(checks: Checks, words: FillNotes) -> Comparison:
    """The inverse of :func:`checks_of` and :func:`notes_of`."""
    found = tuple((name, check) for name in OUTPUTS if (check := checks[name]) is not None)
    return Comparison(checks=found, distrust=words.distrust, notes=words.notes)


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """An error: what is wrong, where, why, and what to do."""

    code: str
    exit_code: ExitCode
    what: str
    where: str | None
    why: str | None
    help: str | None

    @staticmethod
    def of(error: FmhaError) -> ErrorRow:
        """The row of an error."""
        return taken_from(error, ErrorRow)


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """One device as a backend describes it; unknown sizes are None."""

    id: Annotated[str, Column("device")]
    backend: Annotated[str, Column("backend")]
    name: Annotated[str, Column("name", fit=Fit.FOLD)]
    archs: Annotated[tuple[str, ...], "accepted architectures, best first", Column("archs", fit=Fit.FOLD)]
    units: Annotated[int, Least(0), "cores, SMs or CUs", Column("units", number=True, rank=1)]
    memory_bytes: Annotated[Count | None, Column("memory", size, number=True, rank=2)]
    llc_bytes: Annotated[Count | None, Column("last-level cache", size, number=True, rank=3)]

    @staticmethod
    def of(backend: str, device: DeviceFacts) -> DeviceRow:
        """The row of a device."""
        memory, cache = device.memory_bytes or None, device.llc_bytes or None
        return taken_from(device, DeviceRow, backend=backend, memory_bytes=memory, llc_bytes=cache)


@dataclass(frozen=True, kw_only=True)
class BackendRow:
    """One backend's state; ``why`` and ``help`` are None if the backend can run."""

    state: State
    version: str | None
    why: str | None
    help: str | None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What ran here."""

    fmha: str
    python: str
    platform: str
    devices: tuple[DeviceRow, ...]
    backends: Mapping[str, BackendRow]


def device_rows(backends: Mapping[str, Availability]) -> tuple[DeviceRow, ...]:
    """Every device that a backend found, with the backend's name; several backends may list the same device."""
    return tuple(DeviceRow.of(name, device) for name, found in sorted(backends.items()) for device in found.devices)


def backend_rows(backends: Mapping[str, Availability]) -> dict[str, BackendRow]:
    """The reply of every backend that was asked, by its name."""
    return {name: taken_from(found, BackendRow) for name, found in sorted(backends.items())}


def environment(backends: Mapping[str, Availability]) -> Environment:
    """Versions, platform, and the reply of every backend that was asked, by backend name."""
    import platform

    return Environment(
        fmha=__version__,
        python=platform.python_version(),
        platform=platform_text(),
        devices=device_rows(backends),
        backends=backend_rows(backends),
    )


NO_ENVIRONMENT = Environment(fmha="", python="", platform="", devices=(), backends={})
"""That of records whose source does not state it."""


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """A built kernel: the file, its hash, the cache key's digest, and its origin."""

    path: Path
    sha256: Sha256
    digest: Annotated[Sha256, "of the cache key"]
    cached: Annotated[bool, "it was there already"]
    build_ns: Annotated[int, Least(0), "what building it took (then, if cached)"]
    prebuilt_by: Annotated[str | None, "compiler of a kernel that an archive brought"]
    log: Path

    @staticmethod
    def of(artifact: Artifact) -> ArtifactRow:
        """The row of an artifact."""
        return taken_from(artifact, ArtifactRow, build_ns=round(artifact.build_seconds * 1e9))


COMMON: Mapping[str, Any] = MappingProxyType(
    {
        "family": Family,
        "sha256": Sha256,
        "signature": Annotated[Signature, "What a kernel is compiled for; any = chosen at run time."],
        "problem": Annotated[Problem, "Every problem flag that has a value; the required ones always."],
        "kernel": KernelRow,
        "reason": Reason,
        "error": ErrorRow,
        "finding": Annotated[Finding, "One place in a kernel where an emulated device saw what hardware would hide."],
        "executed": Annotated[
            Executed, "What the launches of one GPU kernel did on an emulated device, summed over its waves."
        ],
        "device": DeviceRow,
        "backend": BackendRow,
        "environment": Environment,
        "artifact": Annotated[ArtifactRow, "A built kernel in the cache."],
    }
)
"""What schemas of several documents refer to, by name."""

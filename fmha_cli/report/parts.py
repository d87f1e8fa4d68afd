"""Parts that several documents share, and the names by which schemas refer to them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from fmha_cli import __version__
from fmha_cli.domain.codec import taken_from, to_json
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.errors import ExitCode, FmhaError
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.members import Count, Least, Sha256
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.signature import Signature
from fmha_cli.report.rows import KernelRow
from fmha_cli.report.table import Column
from fmha_cli.report.units import size


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

    id: Annotated[str, Column("device", kept=True)]
    backend: Annotated[str, Column("backend")]
    name: Annotated[str, Column("name")]
    archs: Annotated[tuple[str, ...], "accepted architectures, best first", Column("archs")]
    units: Annotated[int, Least(0), "cores, SMs or CUs", Column("units", number=True)]
    memory_bytes: Annotated[Count | None, Column("memory", size)]
    llc_bytes: Annotated[Count | None, Column("last-level cache", size)]

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

    @staticmethod
    def of(found: Availability) -> BackendRow:
        """The row of a probe's result."""
        return taken_from(found, BackendRow)


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
    return {name: BackendRow.of(found) for name, found in sorted(backends.items())}


def environment(backends: Mapping[str, Availability]) -> dict[str, Any]:
    """Versions, platform, and the reply of every backend that was asked, by backend name."""
    return to_json(
        Environment(
            fmha=__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            devices=device_rows(backends),
            backends=backend_rows(backends),
        )
    )


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

"""The JSON documents about the installation: doctor, devices, plugins, profiles, sources, build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fmha_cli.device import Availability, DeviceFacts
from fmha_cli.errors import EnvironmentProblem, FmhaError, Interrupted, UnsupportedError
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.report.environment import backend_dict, device_dict, device_list
from fmha_cli.report.rows import KernelRow, plain_fields


class CheckState(StrEnum):
    """What came of one check of ``fmha doctor``."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class DoctorCheck:
    """One check: its name, what it looked at, the outcome in a line, and why and what to do when it is not ok.

    ``time_ns`` is how long it took, None where nothing was run.
    """

    name: str
    subject: str
    state: CheckState
    what: str
    why: str | None = None
    help: str | None = None
    time_ns: int | None = None


def doctor_document(checks: Iterable[DoctorCheck], environment: Mapping[str, Any]) -> dict[str, Any]:
    """``fmha.doctor/1``; ``ok`` is false as soon as one check failed."""
    rows = [{**plain_fields(check), "state": check.state.value} for check in checks]
    return {
        "checks": rows,
        "environment": dict(environment),
        "ok": all(row["state"] != CheckState.FAILED.value for row in rows),
        "schema": "fmha.doctor/1",
    }


def devices_document(
    backends: Mapping[str, Availability], emulated: Iterable[tuple[str, DeviceFacts]] = ()
) -> dict[str, Any]:
    """``fmha.devices/1``: what every backend found, and why the others found nothing.

    Args:
        emulated: emulated devices, each with the name of a backend that runs on it.
    """
    return {
        "backends": {name: backend_dict(found) for name, found in sorted(backends.items())},
        "devices": [*device_list(backends), *(device_dict(name, device) for name, device in emulated)],
        "schema": "fmha.devices/1",
    }


@dataclass(frozen=True, kw_only=True)
class PluginRow:
    """One plugin: what it registers, and everything that is wrong with it.

    Attributes:
        module: import path; None for a plugin that is known by its fault alone.
        faults: (what, help) of each.
    """

    name: str
    builtin: bool
    module: str | None = None
    distribution: str | None = None
    version: str | None = None
    backends: tuple[str, ...] = ()
    emulators: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()


def plugins_document(plugins: Iterable[PluginRow]) -> dict[str, Any]:
    """``fmha.plugins/1``; a plugin with a fault is ``broken``."""
    rows = []
    for plugin in plugins:
        faults = [{"help": help, "what": what} for what, help in plugin.faults]
        rows.append({**plain_fields(plugin), "faults": faults, "state": "broken" if faults else "ok"})
    return {"plugins": rows, "schema": "fmha.plugins/1"}


@dataclass(frozen=True, kw_only=True)
class ProfileRow:
    """A named set of kernels of a backend; ``kernels`` is None where they were not counted."""

    name: str
    backend: str
    title: str
    aliases: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    kernels: int | None = None
    source: str | None = None


def profiles_document(profiles: Iterable[ProfileRow]) -> dict[str, Any]:
    """``fmha.profiles/1``."""
    return {"profiles": [plain_fields(profile) for profile in profiles], "schema": "fmha.profiles/1"}


class SourceState(StrEnum):
    """Whether a source tree is here."""

    PRESENT = "present"
    MISSING = "missing"
    DAMAGED = "damaged"
    UNFIT = "unfit"
    """It is there, and cannot be built against."""


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """One pinned third-party source: where it comes from, what it must hash to, and where it lies.

    Attributes:
        revision: the project's version. file: the archive's name in the package index; sha256: the archive's.
        digest: of the files that are kept, as pinned. bytes: what they take, None where they are not here.
    """

    name: str
    revision: str
    state: SourceState
    title: str | None = None
    file: str | None = None
    license: str | None = None
    sha256: str | None = None
    digest: str | None = None
    path: str | None = None
    bytes: int | None = None
    backends: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class CkRow:
    """The Composable Kernel tree in force: where its headers lie, their revision and digest, and what was passed over."""

    state: SourceState
    origin: str | None = None
    include: str | None = None
    revision: str | None = None
    digest: str | None = None
    why: str | None = None
    help: str | None = None
    notes: tuple[str, ...] = ()


def sources_document(sources: Iterable[SourceRow], ck: CkRow | None = None) -> dict[str, Any]:
    """``fmha.sources/1``; ``ck`` is null where it was not asked for."""
    rows = [{**plain_fields(source), "state": source.state.value} for source in sources]
    tree = None if ck is None else {**plain_fields(ck), "state": ck.state.value}
    return {"ck": tree, "schema": "fmha.sources/1", "sources": rows}


def artifact_dict(artifact: Artifact) -> dict[str, Any]:
    """A built kernel: the file, its hash, the cache key's digest, and how it came about."""
    return {
        "build_ns": round(artifact.build_seconds * 1e9),
        "cached": artifact.cached,
        "digest": artifact.digest,
        "log": str(artifact.log),
        "path": str(artifact.path),
        "prebuilt_by": artifact.prebuilt_by,
        "sha256": artifact.sha256,
    }


class BuildState(StrEnum):
    """What became of one kernel of ``fmha build``."""

    COMPILED = "compiled"
    CACHED = "cached"
    FAILED = "failed"
    """The compiler failed, or ran out of time."""
    REFUSED = "refused"
    """A rule says that the kernel cannot exist on its architecture; nothing was compiled."""
    NOT_RUN = "not-run"
    """No compiler, no sources, or sources of another revision; or the user interrupted."""


def build_state(outcome: Artifact | FmhaError) -> BuildState:
    """The state of an outcome."""
    if isinstance(outcome, UnsupportedError):
        return BuildState.REFUSED
    if isinstance(outcome, EnvironmentProblem | Interrupted):
        return BuildState.NOT_RUN
    if isinstance(outcome, FmhaError):
        return BuildState.FAILED
    return BuildState.CACHED if outcome.cached else BuildState.COMPILED


def build_entry(kernel: KernelSpec, outcome: Artifact | FmhaError, upstream_name: str | None = None) -> dict[str, Any]:
    """One kernel of ``fmha build``: its artifact, or why there is none."""
    error = outcome if isinstance(outcome, FmhaError) else None
    artifact = None if isinstance(outcome, FmhaError) else outcome
    return {
        "arch": kernel.arch,
        "artifact": None if artifact is None else artifact_dict(artifact),
        "backend": kernel.backend,
        "error": None if error is None else error.to_dict(),
        "kernel": KernelRow.of(kernel, upstream_name).to_dict(),
        "state": build_state(outcome).value,
    }


def build_document(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``fmha.build/1`` of the entries, with their counts."""
    counts = {state.value.replace("-", "_"): 0 for state in BuildState}
    for entry in entries:
        counts[entry["state"].replace("-", "_")] += 1
    return {"builds": [dict(entry) for entry in entries], **dict(sorted(counts.items())), "schema": "fmha.build/1"}

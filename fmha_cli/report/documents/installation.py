"""What is installed: architectures, devices, the checks of ``fmha doctor``, plugins, profiles and pinned sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.installation import NO_DEVICE_HERE, CheckState, DoctorCheck, SourceState, SourceTree
from fmha_cli.domain.members import Count, Sha256, ShownAs, Then
from fmha_cli.domain.quantities import byte_rate, duration, flop_rate, size
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import cell, counted, helped
from fmha_cli.report.parts import BackendRow, DeviceRow, Environment, backend_rows, device_rows
from fmha_cli.report.table import Table, columns_of, table_of

_FACT = {
    "type": "object",
    "required": ["source", "value"],
    "properties": {"source": {"type": "string", "minLength": 1}},
}
_FACTS = {"type": "object", "additionalProperties": _FACT}


@dataclass(frozen=True, kw_only=True)
class ArchRow:
    """One architecture: its facts, and the backends that have kernels for it."""

    name: Annotated[str, Column("arch")]
    vendor: Annotated[str, ShownAs(Literal["cpu", "amd", "nvidia"]), Column("vendor", rank=1)]
    title: Annotated[str, Column("title", fit=Fit.FOLD, least=30)]
    facts: Annotated[Mapping[str, Any], ShownAs(_FACTS)]
    backends: Annotated[tuple[str, ...], Column("backends", fit=Fit.FOLD, least=12)]
    kernels: Annotated[Count | None, "null: not counted", Column("kernels", number=True)]


@dataclass(frozen=True, kw_only=True)
class Archs:
    """archs --json: facts of architectures, each with its source."""

    schema: Literal["fmha.archs/1"] = "fmha.archs/1"
    archs: tuple[ArchRow, ...]


def archs_document(archs: Iterable[ArchSpec]) -> Archs:
    """The document of some architectures; their kernels are not counted."""
    rows = tuple(
        taken_from(
            arch, ArchRow, facts=dict(sorted(arch.facts.items())), backends=tuple(sorted(arch.backends)), kernels=None
        )
        for arch in archs
    )
    return Archs(archs=rows)


_FACTS_COLUMNS = (
    Column("fact"),
    Column("value", fit=Fit.FOLD),
    Column("source", fit=Fit.FOLD, least=24),
)


def archs_view(document: Archs) -> Table:
    """One line for each architecture; of a single one its facts, each with its source."""
    if len(document.archs) == 1:
        (arch,) = document.archs
        rows = [[name, fact_text(name, fact["value"]), fact["source"]] for name, fact in arch.facts.items()]
        users = f"; kernels of {', '.join(arch.backends)}" if arch.backends else "; no kernels"
        return Table(_FACTS_COLUMNS, rows, f"{arch.name}: {arch.title}{users}")
    return table_of(ArchRow, document.archs, counted(len(document.archs), "architecture"))


def fact_text(name: str, value: Any) -> str:
    """A fact of an architecture as a cell, with its unit."""
    if isinstance(value, Mapping):
        told = [(key, str(flop_rate(v)) if name == "peak_flops" else fact_text(key, v)) for key, v in value.items()]
        return ", ".join(f"{key} {text}" for key, text in told)
    if isinstance(value, list):
        joined = ["x".join(map(str, item)) if isinstance(item, list) else str(item) for item in value]
        return ("." if name == "compute_capability" else ", ").join(joined) or "none"
    if name == "peak_bandwidth":
        return str(byte_rate(value))
    return size(value) if name.endswith("_bytes") else cell(value)


@dataclass(frozen=True, kw_only=True)
class Devices:
    """devices --json."""

    schema: Literal["fmha.devices/1"] = "fmha.devices/1"
    devices: tuple[DeviceRow, ...]
    backends: Mapping[str, BackendRow]


def devices_document(backends: Mapping[str, Availability], emulated: Iterable[tuple[str, DeviceFacts]] = ()) -> Devices:
    """The document of the results of probes.

    Args:
        emulated: emulated devices, each with the name of a backend that runs on it.
    """
    devices = (*device_rows(backends), *(DeviceRow.of(name, device) for name, device in emulated))
    return Devices(devices=devices, backends=backend_rows(backends))


def devices_view(document: Devices, *, whole: bool = False) -> Table:
    """One line for each device and backend; below, the backends without a device: one line for the ones that lack only
    a device.

    Args:
        whole: why each of them has none.
    """
    backends = document.backends
    bare = [name for name, found in backends.items() if found.state is State.NO_DEVICE and not whole]
    details = (
        [f"no device here: {', '.join(bare)} (-v: why; --arch A builds for an architecture without one)"]
        if bare
        else []
    )
    details += [
        helped(f"  {name}: {found.state}" + (f": {found.why}" if found.why else ""), found.help)
        for name, found in backends.items()
        if found.state is not State.OK and name not in bare
    ]
    return table_of(DeviceRow, document.devices, counted(len(document.devices), "device"), details)


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """doctor --json."""

    schema: Literal["fmha.doctor/1"] = "fmha.doctor/1"
    ok: Annotated[bool, "no check failed"]
    checks: tuple[DoctorCheck, ...]
    environment: Environment


def doctor_document(checks: Iterable[DoctorCheck], environment: Environment) -> Doctor:
    """The document of some checks."""
    rows = tuple(checks)
    failed = any(check.state is CheckState.FAILED for check in rows)
    return Doctor(ok=not failed, checks=rows, environment=environment)


def doctor_view(document: Doctor, *, whole: bool = False) -> Table:
    """One line for each check; the cause and the remedy below. Checks that differ in their subject alone share a line,
    and a remedy is printed once.

    Args:
        whole: one line for each backend without a device, and why it has none.
    """
    checks = document.checks
    alike: dict[tuple[str, ...], list[DoctorCheck]] = {}
    for number, check in enumerate(checks):
        same = check.state is CheckState.SKIPPED and check.what == NO_DEVICE_HERE and not whole
        alike.setdefault((check.name, check.what) if same else (str(number),), []).append(check)
    rows: list[list[str]] = []
    told: dict[str, list[str]] = {}
    for members in alike.values():
        first, subjects = members[0], ", ".join(check.subject for check in members)
        time = f" ({duration(first.time_ns)})" if first.time_ns else ""
        rows.append([first.state, first.name, subjects, f"{first.what}{time}"])
        if len(members) > 1:
            rows[-1][-1] += " (-v: why)"
        for text in (first.why if len(members) == 1 else None, f"help: {first.help}" if first.help else None):
            if text:
                told.setdefault(text, []).append(f"{first.name} {subjects}")
    details = [f"  {'; '.join(who)}: {text}" for text, who in told.items()]
    tally = ", ".join(f"{count} {state}" for state, count in Counter(check.state for check in checks).items())
    return Table(_CHECKS, rows, f"{counted(len(checks), 'check')}: {tally}", details)


_CHECKS = (
    Column("state", path="state"),
    Column("check", path="name", rank=1),
    Column("subject", path="subject", fit=Fit.FOLD, least=20),
    Column("finding", path="what", fit=Fit.FOLD, least=24),
)


@dataclass(frozen=True)
class Fault:
    """One problem with a plugin."""

    what: str
    help: str


@dataclass(frozen=True, kw_only=True)
class PluginRow:
    """One plugin. It has no module (import path) if only its fault is known."""

    name: Annotated[str, Then("state")]
    builtin: bool
    module: str | None = None
    distribution: str | None = None
    version: str | None = None
    backends: tuple[str, ...] = ()
    emulators: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def state(self) -> Literal["ok", "broken"]:
        """A plugin with a fault is broken."""
        return "broken" if self.faults else "ok"


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """plugins --json."""

    schema: Literal["fmha.plugins/1"] = "fmha.plugins/1"
    plugins: tuple[PluginRow, ...]


_BROUGHT = ("backends", "emulators", "archs", "commands", "fills")


def plugins_view(document: Plugins) -> Table:
    """One line for each plugin; faults below."""
    rows, details = [], []
    for plugin in document.plugins:
        origin = "built in" if plugin.builtin else " ".join(filter(None, (plugin.distribution, plugin.version)))
        brought = [f"{kind} {' '.join(names)}" for kind in _BROUGHT if (names := getattr(plugin, kind))]
        rows.append([plugin.name, plugin.state, origin, "; ".join(brought)])
        details += [helped(f"  {plugin.name}: {fault.what}", fault.help) for fault in plugin.faults]
    return Table(_PLUGINS, rows, counted(len(rows), "plugin"), details)


_PLUGINS = (
    Column("plugin", path="name"),
    Column("state", path="state"),
    Column("from", fit=Fit.FOLD, least=12),
    Column("brings", fit=Fit.FOLD, least=20),
)


@dataclass(frozen=True, kw_only=True)
class ProfileRow:
    """A named set of kernels of a backend."""

    name: Annotated[str, Column("profile")]
    aliases: Annotated[tuple[str, ...], Column("aliases", rank=1)] = ()
    backend: Annotated[str, Column("backend")]
    title: Annotated[str, Column("title", fit=Fit.FOLD, least=30)]
    archs: Annotated[tuple[str, ...], Column("archs", fit=Fit.FOLD)] = ()
    kernels: Annotated[Count | None, "null: not counted", Column("kernels", number=True)] = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class Profiles:
    """profiles --json."""

    schema: Literal["fmha.profiles/1"] = "fmha.profiles/1"
    profiles: tuple[ProfileRow, ...]


def profiles_view(document: Profiles) -> Table:
    """One line for each profile."""
    return table_of(ProfileRow, document.profiles, counted(len(document.profiles), "profile"))


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """One pinned third-party source: its origin, its expected hash, and its place on this machine."""

    name: Annotated[str, Column("source")]
    revision: Annotated[str, "the project's version", Column("revision", rank=1)]
    state: Annotated[SourceState, Column("state")]
    title: str | None = None
    file: Annotated[str | None, "the archive's name in the package index"] = None
    license: Annotated[str | None, Column("license", fit=Fit.FOLD, least=12, rank=3)] = None
    sha256: Annotated[Sha256 | None, "of the archive, as pinned"] = None
    digest: Annotated[Sha256 | None, "of the files that are kept, as pinned"] = None
    path: Annotated[str | None, "its folder; null where it is not here", Column("where", fit=Fit.MIDDLE, least=24)] = (
        None
    )
    bytes: Annotated[
        Count | None,
        "of the files that are kept; null where they are not here",
        Column("size", size, number=True, rank=2),
    ] = None
    backends: Annotated[tuple[str, ...], "which need it"] = ()
    why: Annotated[str | None, "what is wrong with it"] = None


@dataclass(frozen=True, kw_only=True)
class Sources:
    """sources --json, and what its parts list, fetch, verify and rm print."""

    schema: Literal["fmha.sources/2"] = "fmha.sources/2"
    sources: tuple[SourceRow, ...]
    trees: Annotated[
        Mapping[str, SourceTree],
        "backend -> the tree that its kernels would be built against; empty where it was not asked for",
    ] = field(default_factory=dict)


def sources_view(document: Sources) -> Table:
    """One line for each source; below, the trees in effect."""
    sources = document.sources
    details = [f"  {source.name}: {source.why}" for source in sources if source.why]
    for backend, tree in document.trees.items():
        where = f", headers in {tree.include}" if tree.include else ""
        details += [f"  {backend}: {tree.text}{where}", *(f"    note: {note}" for note in tree.notes)]
        details += [f"    {label}: {text}" for label, text in (("why", tree.why), ("help", tree.help)) if text]
    order = ("name", "revision", "state", "license", "bytes", "path")
    placed = [replace(source, path=source.path or source.file) for source in sources]
    return table_of(SourceRow, placed, counted(len(sources), "source"), details, order)


DOCUMENTS = (
    Document(Archs, archs_view, rows="archs", columns=(*columns_of(ArchRow).values(), *_FACTS_COLUMNS)),
    Document(Devices, devices_view, rows="devices"),
    Document(Doctor, doctor_view, rows="checks", columns=_CHECKS),
    Document(Plugins, plugins_view, rows="plugins", columns=_PLUGINS),
    Document(Profiles, profiles_view, rows="profiles"),
    Document(Sources, sources_view, rows="sources"),
)

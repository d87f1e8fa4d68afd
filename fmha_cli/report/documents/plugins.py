"""``fmha.plugins/1``: plugins, what each registers, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.members import Then
from fmha_cli.report.document import Document
from fmha_cli.report.table import Table
from fmha_cli.report.units import counted


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


def plugins_document(plugins: Iterable[PluginRow]) -> dict[str, Any]:
    """The document of all plugins."""
    return to_json(Plugins(plugins=tuple(plugins)))


_BROUGHT = ("backends", "emulators", "archs", "commands", "fills")


def plugins_view(document: Mapping[str, Any]) -> Table:
    """One line for each plugin; faults below."""
    rows, details = [], []
    for plugin in document["plugins"]:
        origin = (
            "built in" if plugin["builtin"] else " ".join(filter(None, (plugin["distribution"], plugin["version"])))
        )
        brought = [f"{kind} {' '.join(plugin[kind])}" for kind in _BROUGHT if plugin[kind]]
        rows.append([plugin["name"], plugin["state"], origin, "; ".join(brought)])
        details += [f"  {plugin['name']}: {f['what']} (help: {f['help']})" for f in plugin["faults"]]
    return Table(["plugin", "state", "from", "brings"], rows, counted(len(rows), "plugin"), details)


DOCUMENT = Document(Plugins, plugins_view, rows="plugins")

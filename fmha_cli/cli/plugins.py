"""``fmha plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import ROWS

if TYPE_CHECKING:
    from fmha_cli.discovery.registry import Registry
    from fmha_cli.report.documents.installation import PluginRow


def plugin_rows(registry: Registry) -> Iterator[PluginRow]:
    """Every plugin with what it brings, and those known by their faults alone."""
    from fmha_cli.discovery.registry import BUILTINS
    from fmha_cli.report.documents.installation import Fault, PluginRow

    faults: dict[str, list[Fault]] = {}
    for fault in registry.faults:
        faults.setdefault(fault.plugin, []).append(Fault(fault.what, fault.help))
    strangers = {plugin.name for plugin in registry.plugins if plugin.value not in BUILTINS.values()}
    for plugin in registry.plugins:
        builtin = plugin.value in BUILTINS.values()
        blamed = not (builtin and plugin.name in strangers)  # of two with one name, the fault is the stranger's
        yield PluginRow(
            name=plugin.name,
            builtin=builtin,
            module=plugin.value,
            distribution=plugin.distribution,
            version=plugin.version,
            faults=tuple(faults.pop(plugin.name, ())) if blamed else (),
            **registry.brought_by(plugin),
        )
    for name, found in faults.items():
        yield PluginRow(name=name, builtin=name in BUILTINS, faults=tuple(found))


def plugins(call: Call) -> None:
    """Every plugin; a broken one is named and breaks nothing else."""
    from fmha_cli.domain.codec import to_json
    from fmha_cli.report.documents.installation import Plugins

    call.output.document(to_json(Plugins(plugins=tuple(plugin_rows(call.registry)))))


COMMAND = Command(plugins, options=ROWS)

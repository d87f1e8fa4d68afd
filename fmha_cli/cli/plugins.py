"""``fmha plugins``: what is installed and what is wrong with it; and a new plugin to begin with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.new_plugin import write_plugin
from fmha_cli.discovery.registry import BUILTINS, Registry
from fmha_cli.report.documents.installation import (
    Fault,
    PluginRow,
    Plugins,
)


def plugin_rows(registry: Registry) -> Iterator[PluginRow]:
    """Every plugin with its contents, and the plugins that did not load, with their faults."""
    faults: dict[str, list[Fault]] = {}
    for fault in registry.faults:
        faults.setdefault(fault.plugin, []).append(Fault(fault.what, fault.help))
    strangers = {plugin.name for plugin in registry.plugins if plugin.value not in BUILTINS.values()}
    for plugin in registry.plugins:
        builtin = plugin.value in BUILTINS.values()
        blamed = not (
            builtin and plugin.name in strangers
        )  # of two plugins with one name, the fault is the installed one's
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


def plugins(call: CliCall) -> None:
    """Every plugin; a broken one is named and breaks nothing else."""
    call.output.document(Plugins(plugins=tuple(plugin_rows(call.registry))))


def new_plugin(call: CliCall) -> None:
    """Write a backend that passes its conformance tests, with the names filled in."""
    name = str(call.argument("name"))
    root = write_plugin(name, Path(call.settings.text("dir") or "."), call.registry.backends)
    call.output.text("\n".join(str(path) for path in sorted(root.rglob("*")) if path.is_file()))
    folder = shlex.quote(str(root))
    call.console.say(f"next: pip install -e {folder} pytest && python -m pytest {folder}")
    call.console.say(
        f"then: fmha run --backend {name.replace('-', '_')} --dtype fp32, the one type that it serves so far"
    )

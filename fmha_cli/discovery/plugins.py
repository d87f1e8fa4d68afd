"""Discovery of plugins through pluggy: each is loaded in its own ``try``, faults are kept for ``fmha doctor``.

Learned by trying: ``load_setuptools_entrypoints`` stops at the first entry point that raises, a
misspelled hookimpl stays silent until ``check_pending``, and one raising hookimpl aborts the whole
hook call. So every plugin is loaded, checked and called on its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from fmha_cli.discovery import hookspecs
from fmha_cli.domain.blame import package_of, raised

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class PluginFault:
    """Why a plugin, or one thing it registers, is not used."""

    plugin: str
    what: str
    help: str


@dataclass(frozen=True)
class Plugin:
    """A plugin that loaded: its entry-point name, distribution and version, and the module or object."""

    name: str
    distribution: str | None
    version: str | None
    value: str
    module: Any

    @cached_property
    def manager(self) -> pluggy.PluginManager:
        """A manager that has only this plugin; pluggy reads every attribute of a module that is registered.

        Raises:
            Exception: whatever reading an attribute raises, or pluggy's own.
        """
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(self.module, name=self.name)
        return manager


def load_plugins(entries: Iterable[EntryPoint]) -> tuple[list[Plugin], list[PluginFault]]:
    """Import every plugin; an import error, a misspelled hook or a repeated name becomes a fault."""
    plugins: list[Plugin] = []
    faults: list[PluginFault] = []
    for entry in entries:
        loaded = _loaded(entry, plugins)
        if isinstance(loaded, Plugin):
            plugins.append(loaded)
        else:
            faults.append(PluginFault(entry.name, *loaded))
    return plugins, faults


def _loaded(entry: EntryPoint, others: Iterable[Plugin]) -> Plugin | tuple[str, str]:
    """The plugin of an entry point, or its fault and the remedy."""
    if any(entry.name == other.name for other in others):
        return f"a second plugin has this name ({entry.value})", "uninstall one"
    try:
        module = entry.load()
    except Exception as fault:  # noqa: BLE001 - whatever a plugin's import raises must not end the run
        what = f"import of {entry.value} failed: {raised(fault, package_of(entry.value))}"
        return what, "its author mends that line; or reinstall or uninstall the plugin"
    if misspelled := unknown_hooks(module):
        return f"hooks that do not exist: {', '.join(misspelled)}", f"hooks are {', '.join(hook_names())}"
    dist = entry.dist
    plugin = Plugin(entry.name, dist.name if dist else None, dist.version if dist else None, entry.value, module)
    if objection := _objection(plugin):
        return objection, "see docs/how-to/write-a-backend.md"
    return plugin


def _objection(plugin: Plugin) -> str | None:
    """Why pluggy does not take a plugin (a hook with arguments that do not exist), or None."""
    try:
        _ = plugin.manager
    except Exception as fault:  # noqa: BLE001 - pluggy reads every attribute of a plugin's module
        return f"{type(fault).__name__}: {fault}".splitlines()[0]
    return None


def builtin_plugin(name: str, path: str) -> Plugin:
    """A built-in plugin, loaded in the same way as an installed one.

    Raises:
        ImportError: a broken installation.
    """
    module: ModuleType = importlib.import_module(path)
    return Plugin(name, "fmha", None, path, module)


def collect(plugin: Plugin, hook: str) -> tuple[Any | None, PluginFault | None]:
    """One plugin's answer to one hook: (answer or None, fault or None)."""
    try:
        answers = getattr(plugin.manager.hook, hook)()
    except Exception as fault:  # noqa: BLE001 - a plugin's hook may raise anything
        what = f"{hook} raised {raised(fault, package_of(plugin.value))}"
        return None, PluginFault(plugin.name, what, "report it to the plugin's author, or uninstall it")
    return (answers[0] if answers else None), None


def hook_names() -> tuple[str, ...]:
    """Names of the hooks that a plugin may implement."""
    return tuple(sorted(name for name in vars(hookspecs) if name.startswith("fmha_")))


def unknown_hooks(module: Any) -> list[str]:
    """Hook implementations (and ``fmha_`` functions left unmarked) that name no hook."""
    known = hook_names()
    marked = [n for n in dir(module) if getattr(getattr(module, n, None), f"{hookspecs.PROJECT}_impl", None)]
    looks = [n for n in dir(module) if n.startswith("fmha_register") and callable(getattr(module, n))]
    return sorted({n for n in (*marked, *looks) if n not in known})

"""``Registry``: the backends, architectures, commands and fills that are there. Built in ``main``, passed down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fmha_cli.arch import ArchSpec, arch_from_json, arch_names, load_arch
from fmha_cli.emulation import Emulator
from fmha_cli.entries import installed_entry_points
from fmha_cli.errors import EnvironmentProblem, FmhaError, UsageError
from fmha_cli.kernel import Algorithm, KernelSpec, parse_kernel
from fmha_cli.near import suggest
from fmha_cli.plugins import Plugin, PluginFault, builtin_plugin, collect, load_plugins
from fmha_cli.protocols import Backend
from fmha_cli.rules import Rule, duplicate_ids

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILTINS: Mapping[str, str] = {
    "ck_tile": "fmha_cli.backends.ck_tile",
    "cpu": "fmha_cli.backends.cpu",
    "flash_attn": "fmha_cli.backends.flash_attn",
    "null": "fmha_cli.backends.null",
}
"""Built-in backends by name, as import paths: nothing imports a backend statically."""


class Registry:
    """What can be chosen from. Backends are imported when first asked for; a broken one is a fault, not an end.

    Args:
        builtins: name -> import path of the built-in backends.
        entries: finds the entry points of installed plugins; called at most once, when needed.
    """

    def __init__(
        self,
        builtins: Mapping[str, str] = BUILTINS,
        entries: Callable[[], Iterable[EntryPoint]] = installed_entry_points,
    ) -> None:
        self._builtins = builtins
        self._entries = entries
        self._asked: dict[tuple[str, str], tuple[Any | None, PluginFault | None]] = {}

    def _ask(self, plugin: Plugin, hook: str) -> tuple[Any | None, PluginFault | None]:
        """Each plugin is asked each hook once."""
        if (plugin.value, hook) not in self._asked:
            self._asked[plugin.value, hook] = collect(plugin, hook)
        return self._asked[plugin.value, hook]

    @cached_property
    def _loaded(self) -> tuple[list[Plugin], list[PluginFault]]:
        plugins, faults = load_plugins(self._entries())
        for name, path in reversed(list(self._builtins.items())):
            try:
                plugins.insert(0, builtin_plugin(name, path))
            except ImportError as fault:
                faults.insert(0, PluginFault(name, f"import of {path} failed: {fault}", "reinstall fmha"))
        return plugins, faults

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Plugins that loaded, built-ins first."""
        return tuple(self._loaded[0])

    @cached_property
    def _backends(self) -> tuple[dict[str, tuple[Backend, Plugin]], list[PluginFault]]:
        found: dict[str, tuple[Backend, Plugin]] = {}
        faults: list[PluginFault] = []
        for plugin in self.plugins:
            answer, fault = self._ask(plugin, "fmha_register_backends")
            faults.extend([fault] if fault else [])
            for backend in answer or ():
                problem = self._objection(backend, found)
                if problem is None:
                    found[backend.name] = (backend, plugin)
                else:
                    faults.append(PluginFault(plugin.name, *problem))
        return found, faults

    def _objection(self, backend: Any, found: Mapping[str, tuple[Backend, Plugin]]) -> tuple[str, str] | None:
        if not isinstance(backend, Backend):
            return f"{backend!r} is not a Backend", "see docs/writing-a-backend.md"
        if backend.name in found:
            return f"backend {backend.name!r} is registered already", "rename it, or uninstall one of the two"
        twice = duplicate_ids([b.rules() for b, _ in found.values()] + [backend.rules()])
        if twice:
            return f"rule ids {', '.join(sorted(set(twice)))} are taken", "use K900 and above"
        return None

    @cached_property
    def _plugin_archs(self) -> tuple[dict[str, ArchSpec], list[PluginFault]]:
        found: dict[str, ArchSpec] = {}
        faults: list[PluginFault] = []
        for plugin in self.plugins:
            answer, fault = self._ask(plugin, "fmha_register_arch_specs")
            faults.extend([fault] if fault else [])
            for name, text in (answer or {}).items():
                try:
                    if name in found or name in arch_names():
                        raise UsageError(f"arch {name} is there already")
                    found[name] = arch_from_json(text, f"{plugin.name}: {name}")
                except FmhaError as error:
                    faults.append(PluginFault(plugin.name, error.what, "rename it or mend its facts"))
        return found, faults

    @cached_property
    def _emulators(self) -> tuple[dict[str, tuple[Emulator, Plugin]], list[PluginFault]]:
        found: dict[str, tuple[Emulator, Plugin]] = {}
        faults: list[PluginFault] = []
        for plugin in self.plugins:
            answer, fault = self._ask(plugin, "fmha_register_emulators")
            faults.extend([fault] if fault else [])
            for emulator in answer or ():
                if not isinstance(emulator, Emulator):
                    faults.append(
                        PluginFault(plugin.name, f"{emulator!r} is no Emulator", "see docs/writing-a-backend.md")
                    )
                elif emulator.name in found:
                    what = f"emulator {emulator.name!r} is registered already"
                    faults.append(PluginFault(plugin.name, what, "rename it, or uninstall one of the two"))
                else:
                    found[emulator.name] = (emulator, plugin)
        return found, faults

    def _mapping(self, hook: str, reserved: Iterable[str]) -> tuple[dict[str, Any], list[PluginFault]]:
        found: dict[str, Any] = {}
        faults: list[PluginFault] = []
        for plugin in self.plugins:
            answer, fault = self._ask(plugin, hook)
            faults.extend([fault] if fault else [])
            for name, value in (answer or {}).items():
                if name in found or name in reserved:
                    faults.append(PluginFault(plugin.name, f"{hook}: {name!r} is taken", "rename it"))
                else:
                    found[name] = value
        return found, faults

    @cached_property
    def _commands(self) -> tuple[dict[str, Any], list[PluginFault]]:
        return self._mapping("fmha_register_commands", ())

    @cached_property
    def _fills(self) -> tuple[dict[str, Any], list[PluginFault]]:
        return self._mapping("fmha_register_fills", ("normal", "sparse_int", "coded", "ties", "large"))

    @property
    def backends(self) -> Mapping[str, Backend]:
        """Backends by name, built-ins first."""
        return {name: backend for name, (backend, _) in self._backends[0].items()}

    @property
    def emulators(self) -> Mapping[str, Emulator]:
        """Emulators by name; asking imports every plugin."""
        return {name: emulator for name, (emulator, _) in self._emulators[0].items()}

    @property
    def commands(self) -> Mapping[str, Any]:
        """Commands that plugins add."""
        return self._commands[0]

    @property
    def fills(self) -> Mapping[str, Any]:
        """Fills that plugins add."""
        return self._fills[0]

    @property
    def faults(self) -> tuple[PluginFault, ...]:
        """Everything that is wrong with plugins; collecting it asks every hook."""
        parts = (self._loaded, self._backends, self._emulators, self._plugin_archs, self._commands, self._fills)
        return tuple(fault for _, faults in parts for fault in faults)

    def backend(self, name: str) -> Backend:
        """The backend of a name.

        Raises:
            EnvironmentProblem: a plugin of that name is there but broken.
            UsageError: no such backend, with near names.
        """
        if name in self.backends:
            return self.backends[name]
        broken = [fault for fault in self.faults if fault.plugin == name]
        if broken:
            raise EnvironmentProblem(
                f"backend {name} is broken: {broken[0].what}", code="E020", where="--backend", help=broken[0].help
            )
        near = suggest(name, self.backends)
        raise UsageError(f"--backend {name}: no such backend", code="E004", where="--backend", help=near)

    def brought_by(self, plugin: Plugin) -> Mapping[str, tuple[str, ...]]:
        """The names of the ``backends``, ``emulators``, ``archs``, ``commands`` and ``fills`` that a plugin registers."""
        hooks = {
            "archs": "fmha_register_arch_specs",
            "commands": "fmha_register_commands",
            "fills": "fmha_register_fills",
        }
        named = {what: tuple(self._ask(plugin, hook)[0] or ()) for what, hook in hooks.items()}
        return {
            **named,
            "backends": tuple(n for n, (_, owner) in self._backends[0].items() if owner == plugin),
            "emulators": tuple(n for n, (_, owner) in self._emulators[0].items() if owner == plugin),
        }

    def entry_point(self, name: str) -> str:
        """``module`` of the plugin that brought a backend: the worker loads the backend by it."""
        return self._backends[0][name][1].value

    def emulator_entry(self, name: str) -> str:
        """``module`` of the plugin that brought an emulator: the worker loads the emulator by it."""
        return self._emulators[0][name][1].value

    def arch_names(self) -> tuple[str, ...]:
        """Every architecture of which facts are known."""
        return tuple(sorted({*arch_names(), *self._plugin_archs[0]}))

    def arch(self, name: str) -> ArchSpec:
        """The facts of an architecture.

        Raises:
            UsageError: no such architecture, with near names.
        """
        return self._plugin_archs[0].get(name) or load_arch(name)

    def algorithms(self) -> Mapping[str, type[Algorithm]]:
        """Backend name -> class of its algorithm, for parsing kernel names."""
        return {name: backend.algorithm for name, backend in self.backends.items()}

    def parse_kernel(self, name: str) -> KernelSpec:
        """The kernel of a canonical name.

        Raises:
            UsageError: not a canonical name.
        """
        return parse_kernel(name, self.algorithms())

    def rules(self) -> Mapping[str, Rule]:
        """Every rule of every backend by id."""
        return {rule.id: rule for backend in self.backends.values() for rule in backend.rules()}


def build_registry() -> Registry:
    """The registry of this installation."""
    return Registry()

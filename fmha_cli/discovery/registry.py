"""``Registry``: all backends, architectures, commands, fills and dropout streams. Built in ``main``, passed down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fmha_cli.discovery import builtins
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.discovery.plugins import Plugin, PluginFault, builtin_plugin, collect, load_plugins
from fmha_cli.discovery.preference import Preference, load_preference
from fmha_cli.domain.arch import ArchSpec, arch_from_json, arch_names, arch_of, load_arch
from fmha_cli.domain.blame import lacking, package_of, raised
from fmha_cli.domain.emulation import Emulator
from fmha_cli.domain.errors import EnvironmentProblem, FmhaError, UsageError
from fmha_cli.domain.features import CLOSED_FILLS, DROPOUT_STREAMS, FILLS
from fmha_cli.domain.kernel import Algorithm, KernelSpec, parse_kernel
from fmha_cli.domain.protocols import Backend, Revised
from fmha_cli.domain.rules import CORE_RULES, Rule, duplicate_ids, is_of_a_plugin
from fmha_cli.domain.suggest import NameKind, suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from fmha_cli.discovery.kernel_index import KernelTables

BUILTINS: Mapping[str, str] = {name: builtin.path for name, builtin in builtins.BUILTINS.items()}
"""Built-in backends by name, as import paths: nothing imports a backend statically."""

_RESERVED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"commands": (), "fills": (*FILLS, *CLOSED_FILLS), "dropout_streams": DROPOUT_STREAMS}
)
"""The kinds of things that plugins register by name, and the names that they cannot take."""

_Found = dict[str, tuple[Backend, Plugin]]
"""Backends and who brought them, by name."""

_LISTED = ("fmha_register_backends", "fmha_register_emulators")
"""The hooks that return a list; the others return a mapping."""

_PAGE = "docs/reference/plugin-api.md#backend"

_WORDS = ("auto", "all")
"""What ``--backend`` takes in the place of names (``wanted``)."""


class Registry:
    """Everything that can be selected. Backends are imported on first use; a broken one becomes a fault, not an error.

    Args:
        builtins: name -> import path of the built-in backends.
        entries: finds the entry points of installed plugins; called at most once, when needed.
        tables: makes the place where the index of kernels is kept, when it is needed; None does without.
        preference: loads the order of the backends, when it is needed.
    """

    def __init__(
        self,
        builtins: Mapping[str, str] = BUILTINS,
        entries: Callable[[], Iterable[EntryPoint]] = installed_entry_points,
        tables: Callable[[], KernelTables] | None = None,
        preference: Callable[[], Preference] = load_preference,
    ) -> None:
        self._make_tables = tables
        self._preference = preference
        self._builtins = builtins
        self._entries = entries
        self._asked: dict[tuple[str, str], tuple[Any | None, PluginFault | None]] = {}
        self._revised: Mapping[str, Backend] = {}

    def _ask(self, plugin: Plugin, hook: str) -> tuple[Any | None, PluginFault | None]:
        """Each hook of each plugin is called once."""
        if (plugin.value, hook) not in self._asked:
            self._asked[plugin.value, hook] = collect(plugin, hook)
        return self._asked[plugin.value, hook]

    def _answers(self, hook: str, faults: list[PluginFault]) -> Iterator[tuple[Plugin, Any]]:
        """Each plugin's answer to a hook; ``faults`` collects the failures."""
        for plugin in self.plugins:
            answer, fault = self._ask(plugin, hook)
            faults.extend([fault] if fault else [])
            if answer is None or fault is not None:
                continue
            kind = Iterable if hook in _LISTED else Mapping
            if isinstance(answer, kind):
                yield plugin, answer
            else:
                what = f"{hook} returned {type(answer).__name__}, not a {'list' if hook in _LISTED else 'dict'}"
                faults.append(PluginFault(plugin.name, what, _PAGE))

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
    def _backends(self) -> tuple[_Found, list[PluginFault]]:
        found: _Found = {}
        faults: list[PluginFault] = []
        for plugin, answer in self._answers("fmha_register_backends", faults):
            for backend in answer:
                problem = self._objection(backend, plugin, found)
                if problem is None:
                    found[backend.name] = (backend, plugin)
                else:
                    faults.append(PluginFault(plugin.name, *problem))
        return found, faults

    def _objection(self, backend: Any, plugin: Plugin, found: _Found) -> tuple[str, str] | None:
        """The fault of a plugin's backend, and the remedy."""
        if missing := lacking(backend, Backend):
            return missing, _PAGE
        if backend.name in _WORDS or "," in backend.name:
            return f"backend {backend.name!r}: --backend gives that text another meaning", "rename it"
        if backend.name in found:
            return f"backend {backend.name!r} is registered already", "rename it, or uninstall one of the two"
        try:
            taken = () if self._is_own(plugin) else self._taken_ids(backend, found)
        except Exception as fault:  # noqa: BLE001 - a plugin's rules may raise anything
            return f"rules raised {raised(fault, package_of(plugin.value))}", "its author mends that line"
        return (f"rule ids {', '.join(taken)} are taken", "use K900 and above") if taken else None

    def _taken_ids(self, backend: Backend, found: _Found) -> tuple[str, ...]:
        """Ids of a backend's rules that name other rules of those found before.

        The built-in ones have many rules, in modules that most commands need not import. So they are looked up only if
        an id could be theirs; a test checks that they share none among themselves.
        """
        rules = backend.rules()
        low = any(not is_of_a_plugin(rule.id) and rule not in CORE_RULES for rule in rules)
        others = [other.rules() for other, plugin in found.values() if low or not self._is_own(plugin)]
        return tuple(sorted({*duplicate_ids([*others, rules])}))

    def _is_own(self, plugin: Plugin) -> bool:
        return plugin.value in self._builtins.values()

    @cached_property
    def _plugin_archs(self) -> tuple[dict[str, ArchSpec], list[PluginFault]]:
        found: dict[str, ArchSpec] = {}
        faults: list[PluginFault] = []
        for plugin, answer in self._answers("fmha_register_arch_specs", faults):
            for name, text in answer.items():
                try:
                    if name in found or name in arch_names():
                        raise UsageError(f"arch {name} exists already")
                    found[name] = arch_from_json(text, f"{plugin.name}: {name}")
                except FmhaError as error:
                    faults.append(PluginFault(plugin.name, error.what, "rename it or correct its facts"))
        return found, faults

    @cached_property
    def _emulators(self) -> tuple[dict[str, tuple[Emulator, Plugin]], list[PluginFault]]:
        found: dict[str, tuple[Emulator, Plugin]] = {}
        faults: list[PluginFault] = []
        for plugin, answer in self._answers("fmha_register_emulators", faults):
            for emulator in answer:
                if missing := lacking(emulator, Emulator):
                    faults.append(PluginFault(plugin.name, missing, _PAGE))
                elif emulator.name in found:
                    what = f"emulator {emulator.name!r} is registered already"
                    faults.append(PluginFault(plugin.name, what, "rename it, or uninstall one of the two"))
                else:
                    found[emulator.name] = (emulator, plugin)
        return found, faults

    def _mapping(self, what: str) -> tuple[dict[str, Any], list[PluginFault]]:
        found: dict[str, Any] = {}
        faults: list[PluginFault] = []
        hook = f"fmha_register_{what}"
        for plugin, answer in self._answers(hook, faults):
            for name, value in answer.items():
                if name in found or name in _RESERVED[what]:
                    faults.append(PluginFault(plugin.name, f"{hook}: {name!r} is taken", "rename it"))
                else:
                    found[name] = value
        return found, faults

    @property
    def backends(self) -> Mapping[str, Backend]:
        """Backends by name, built-ins first."""
        return {name: self._revised.get(name, backend) for name, (backend, _) in self._backends[0].items()}

    @property
    def emulators(self) -> Mapping[str, Emulator]:
        """Emulators by name; asking imports every plugin."""
        return {name: emulator for name, (emulator, _) in self._emulators[0].items()}

    @property
    def commands(self) -> Mapping[str, Any]:
        """Commands that plugins add."""
        return self._mapping("commands")[0]

    @property
    def fills(self) -> Mapping[str, Any]:
        """Fills that plugins add."""
        return self._mapping("fills")[0]

    @property
    def dropout_streams(self) -> Mapping[str, Any]:
        """Dropout streams that plugins add."""
        return self._mapping("dropout_streams")[0]

    @property
    def faults(self) -> tuple[PluginFault, ...]:
        """Everything that is wrong with plugins; collecting it calls every hook."""
        registered = (self._backends, self._emulators, self._plugin_archs, *map(self._mapping, _RESERVED))
        return tuple(fault for _, faults in (self._loaded, *registered) for fault in faults)

    def backend(self, name: str) -> Backend:
        """The backend of a name.

        Raises:
            EnvironmentProblem: a plugin of that name is installed but broken.
            UsageError: no such backend, with near names.
        """
        builtin = self._builtin(name)
        if builtin is not None:
            return builtin
        if name in self.backends:
            return self.backends[name]
        broken = [fault for fault in self.faults if fault.plugin == name]
        if broken:
            what = f"backend {name} is broken: {broken[0].what}"
            raise EnvironmentProblem(what, code="E020", where="--backend", help=broken[0].help)
        near = suggest(name, self.backends, NameKind.BACKEND)
        raise UsageError(f"--backend {name}: no such backend", code="E004", where="--backend", help=near)

    def _builtin(self, name: str) -> Backend | None:
        """A built-in backend, asked alone. No plugin can take its name, so the others need not be imported to find it."""
        if name not in self._builtins or "_backends" in self.__dict__:
            return None
        try:
            answer, _ = self._ask(builtin_plugin(name, self._builtins[name]), "fmha_register_backends")
        except ImportError:
            return None
        return next((found for found in answer or () if isinstance(found, Backend) and found.name == name), None)

    def at_revisions(self, names: Mapping[str, str]) -> Registry:
        """The registry in which some backends have the kernels of a named revision of their source.

        Raises:
            UsageError: no such revision.
        """
        revised = {
            name: backend.at_revision(names[name])
            for name, backend in self.backends.items()
            if name in names and isinstance(backend, Revised)
        }
        other = copy(self)
        other._revised = {**self._revised, **revised}
        return other

    def brought_by(self, plugin: Plugin) -> Mapping[str, tuple[str, ...]]:
        """The names of the backends, emulators, archs, commands and fills that a plugin registers, by these words."""
        hooks = {"archs": "arch_specs", "commands": "commands", "fills": "fills"}
        return {
            **{what: tuple(self._ask(plugin, f"fmha_register_{hook}")[0] or ()) for what, hook in hooks.items()},
            "backends": tuple(n for n, (_, owner) in self._backends[0].items() if owner == plugin),
            "emulators": tuple(n for n, (_, owner) in self._emulators[0].items() if owner == plugin),
        }

    def is_builtin(self, name: str) -> bool:
        """Whether a backend that was found is built in."""
        entry = self.entry_point(name) if "_backends" in self.__dict__ else self._builtins.get(name)
        return entry in BUILTINS.values()

    @cached_property
    def preference(self) -> Preference:
        """The order in which ``auto`` takes the backends."""
        return self._preference()

    @cached_property
    def tables(self) -> KernelTables | None:
        """Where the index of kernels is kept, if anywhere."""
        return None if self._make_tables is None else self._make_tables()

    def entry_point(self, name: str) -> str:
        """``module`` of the plugin that provides a backend. The worker loads the backend by it."""
        return self._backends[0][name][1].value

    def emulator_entry(self, name: str) -> str:
        """``module`` of the plugin that provides an emulator. The worker loads the emulator by it."""
        return self._emulators[0][name][1].value

    def arch_names(self) -> tuple[str, ...]:
        """Every architecture of which facts are known."""
        return tuple(sorted({*arch_names(), *self._plugin_archs[0]}))

    def arch(self, name: str) -> ArchSpec:
        """The facts of an architecture, also by the name of a product that only one has.

        Raises:
            UsageError: no such architecture, with near names.
        """
        if name in arch_names():  # no plugin can replace these facts
            return load_arch(name)
        return self._plugin_archs[0].get(name) or load_arch(arch_of(name))

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


def build_registry(tables: Callable[[], KernelTables] | None = None) -> Registry:
    """The registry of this installation."""
    return Registry(tables=tables)

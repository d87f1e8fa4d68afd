"""The commands that list what there is: ``fmha devices``, ``plugins``, ``archs``, ``profiles``, ``models`` and
``schema``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import BACKEND, DOCUMENT, ROWS
from fmha_cli.domain.flags import FlagKind
from fmha_cli.report.form import Format

if TYPE_CHECKING:
    from fmha_cli.discovery.registry import Registry
    from fmha_cli.report.documents.installation import PluginRow

DIR = Opt("dir", FlagKind.FILE, "The folder in which the plugin's folder is made [default: .]", metavar="DIR")


def devices(call: CliCall) -> None:
    """Every device of every backend, the emulated ones last, and why the others have none."""
    from fmha_cli.cli.asked import found_by
    from fmha_cli.discovery.emulated_devices import emulated_devices, runs_on
    from fmha_cli.discovery.wanted import Wanted, wanted_backends
    from fmha_cli.report.documents.installation import devices_document, devices_view

    wanted = Wanted(backend=call.settings.text("backend") or "auto")
    backends = wanted_backends(call.registry, wanted)
    emulated = [
        (backend.name, device)
        for emulator, device in emulated_devices(call.registry)
        for backend in backends
        if runs_on(backend, emulator) and set(device.archs) & set(backend.archs())
    ]
    document = devices_document(found_by(call, wanted), emulated)
    if call.output.form is Format.TABLE and call.settings.on("verbose"):
        call.output.table(document, partial(devices_view, whole=True))
    else:
        call.output.document(document)


def plugin_rows(registry: Registry) -> Iterator[PluginRow]:
    """Every plugin with its contents, and the plugins that did not load, with their faults."""
    from fmha_cli.discovery.registry import BUILTINS
    from fmha_cli.report.documents.installation import Fault, PluginRow

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
    from fmha_cli.report.documents.installation import Plugins

    call.output.document(Plugins(plugins=tuple(plugin_rows(call.registry))))


def new_plugin(call: CliCall) -> None:
    """Write a backend that passes its conformance tests, with the names filled in."""
    import shlex
    from pathlib import Path

    from fmha_cli.discovery.new_plugin import write_plugin

    name = str(call.argument("name"))
    root = write_plugin(name, Path(call.settings.text("dir") or "."), call.registry.backends)
    call.output.text("\n".join(str(path) for path in sorted(root.rglob("*")) if path.is_file()))
    folder = shlex.quote(str(root))
    call.console.say(f"next: pip install -e {folder} pytest && python -m pytest {folder}")
    call.console.say(
        f"then: fmha run --backend {name.replace('-', '_')} --dtype fp32, the one type that it serves so far"
    )


def archs(call: CliCall) -> None:
    """Every architecture, or one, with its facts."""
    from fmha_cli.report.documents.installation import archs_document

    name = call.argument("arch")
    names = call.registry.arch_names() if name is None else (name,)
    call.output.document(archs_document(call.registry.arch(n) for n in names))
    if call.output.form is Format.TABLE:
        for line in _later_revisions(call.registry, names):
            call.console.say(line)


def _later_revisions(registry: Registry, names: Sequence[str]) -> Iterator[str]:
    """For each backend, the architectures for which only a revision that is not its default has kernels."""
    from fmha_cli.discovery.builtins import revision_option
    from fmha_cli.domain.errors import EmptySelection
    from fmha_cli.domain.protocols import Catalogued

    for backend in registry.backends.values():
        option = revision_option(backend.name)
        if option is None or not isinstance(backend, Catalogued):
            continue
        found: dict[str, list[str]] = {}
        for arch in map(registry.arch, (name for name in names if name in backend.archs())):
            for revision in backend.revisions():
                with suppress(EmptySelection):
                    if any(True for _ in backend.catalogue(arch, None, revision)):
                        found.setdefault(revision, []).append(arch.name)
                        break
        for revision in backend.revisions()[1:]:
            if revision in found:
                yield f"{', '.join(found[revision])}: {backend.name} has no kernels by default, and some with --{option.name} {revision}"


def profiles(call: CliCall) -> None:
    """The named sets of kernels that ``--profile`` takes."""
    from fmha_cli.discovery import profiles as domain
    from fmha_cli.domain.codec import taken_from
    from fmha_cli.report.documents.installation import ProfileRow, Profiles

    rows = (taken_from(profile, ProfileRow, archs=(), kernels=None) for profile in domain.profiles())
    call.output.document(Profiles(profiles=tuple(rows)))


def models(call: CliCall) -> None:
    """Every preset, or one model with its facts; a path is that of a configuration."""
    from fmha_cli.discovery.models import presets, wanted_model
    from fmha_cli.report.documents.models import models_document

    name = call.argument("model")
    if name is None:
        call.output.document(models_document(presets().values()))
        return
    wanted = wanted_model(name, "fmha models")
    if wanted.note:
        call.console.say(wanted.note)
    call.output.document(models_document((wanted.model,)))


def schema(call: CliCall) -> None:
    """Print one schema, or the names of all."""
    from fmha_cli.report.document import names
    from fmha_cli.report.documents.pages import Schemas
    from fmha_cli.report.schemas import text

    name = call.argument("name")
    if name is not None:
        call.output.text(text(name))
    elif call.settings.on("json"):
        call.output.document(Schemas(schemas=names()))
    else:
        call.output.text("\n".join(names()))


COMMANDS = {
    "devices": CommandSpec(
        devices,
        options=(BACKEND, *ROWS),
        detail="An emulated device (emu:ARCH) runs kernels on the CPU, instruction by instruction. It is used only if "
        "--device names it, and times on it mean nothing.",
    ),
    "plugins": CommandSet(
        {
            "list": ("List what is installed, and what is wrong with it", CommandSpec(plugins, options=ROWS)),
            "new": (
                "Write a new backend that passes its conformance tests",
                CommandSpec(
                    new_plugin,
                    options=(DIR,),
                    arguments=(Argument("name", "Name of the backend", required=True),),
                    detail="It is the example plugin under the new name: attention in plain C++ that runs on any CPU. The "
                    "page docs/how-to/write-a-backend.md leads from there to a backend of your own.",
                ),
            ),
        },
        alone="list",
    ),
    "archs": CommandSpec(
        archs, options=ROWS, arguments=(Argument("arch", "One architecture [default: all]", complete="archs"),)
    ),
    "profiles": CommandSpec(profiles, options=ROWS),
    "models": CommandSpec(
        models,
        options=ROWS,
        arguments=(Argument("model", "A preset, or a config.json [default: all presets]", complete="models"),),
        detail="--model NAME takes the place of the problem flags in run, validate, bench, explain, plan, build and inspect.",
    ),
    "schema": CommandSpec(
        schema,
        options=DOCUMENT,
        arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
    ),
}

"""The commands about this machine and this installation: ``fmha doctor``, ``devices``, ``plugins``, ``cache`` and others."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import ARCH, BACKEND, BUILDING, CACHE_DIR, DOCUMENT, DRY_RUN, OFFLINE, ROWS, TIMEOUT
from fmha_cli.domain.flags import FlagKind
from fmha_cli.toolchain.cache.key import BuildKind

DIR = Opt("dir", FlagKind.FILE, "The folder in which the plugin's folder is made [default: .]", metavar="DIR")
_selecting = partial(Opt, panel="Selecting")
MAX_AGE = _selecting("max-age", FlagKind.TEXT, "Remove entries not used for this long", metavar="30d|12h")
MAX_SIZE = _selecting("max-size", FlagKind.TEXT, "Remove the least recently used above this size", metavar="2G|500M")
LEFTOVERS = (
    _selecting("quarantine", FlagKind.SWITCH, "Remove quarantined entries too"),
    _selecting("failed", FlagKind.SWITCH, "Remove logs of failed builds too"),
)
FIX = _selecting("fix", FlagKind.SWITCH, "Quarantine damaged entries, so that their next use rebuilds them")
TRUST = _selecting("trust", FlagKind.SWITCH, "Take host code too: programs that run with your rights")
KIND = _selecting("kind", FlagKind.TEXT, "Only entries of this kind", choices=tuple(BuildKind))
ENTRIES = Argument("entries", "Digest prefixes or globs over names", many=True)
KERNEL = Argument(
    "kernel", "A kernel's canonical name, upstream name or digest prefix; or another entry of `cache ls`", required=True
)
ARCHIVE = Argument("archive", "The archive (.tar, or .tar.xz to compress)", required=True)


def _part(run: str, summary: str, *arguments: Argument, options: tuple[Opt, ...] = ()) -> tuple[str, CommandSpec]:
    return summary, CommandSpec(run, (*options, CACHE_DIR, *ROWS), arguments)


NAMES = Argument("names", "Names of sources; without any, those that backends need", many=True)
NAME = Argument("name", "Name of a source", required=True)

COMMANDS = {
    "doctor": CommandSpec(
        "doctor:doctor",
        options=(TIMEOUT, *BUILDING, CACHE_DIR, *ROWS),
        documents=("doctor",),
        arguments=(
            Argument("names", "Backends, emulators or plugins that must work: exit 4 if one does not", many=True),
        ),
    ),
    "devices": CommandSpec(
        "devices:devices",
        options=(BACKEND, *ROWS),
        detail="An emulated device (emu:ARCH) runs kernels on the CPU, instruction by instruction. It is used only if "
        "--device names it, and times on it mean nothing.",
    ),
    "plugins": CommandSet(
        {
            "list": ("List what is installed, and what is wrong with it", CommandSpec("plugins:plugins", options=ROWS)),
            "new": (
                "Write a new backend that passes its conformance tests",
                CommandSpec(
                    "plugins:new_plugin",
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
        "archs:archs",
        options=ROWS,
        arguments=(Argument("arch", "One architecture [default: all]", complete="archs"),),
    ),
    "profiles": CommandSpec("profiles:profiles", options=ROWS),
    "models": CommandSpec(
        "models:models",
        options=ROWS,
        arguments=(Argument("model", "A preset, or a config.json [default: all presets]", complete="models"),),
        detail="--model NAME takes the place of the problem flags in run, validate, bench, explain, plan, build and inspect.",
    ),
    "schema": CommandSpec(
        "schema:schema",
        options=DOCUMENT,
        arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
    ),
    "cache": CommandSet(
        {
            "ls": _part("cache:ls", "List the entries", ENTRIES, options=(KIND,)),
            "stats": _part("cache:stats", "Count the entries and add up their sizes"),
            "verify": _part(
                "cache:verify", "Re-hash every file of every entry; exit 1 when one is damaged", options=(FIX,)
            ),
            "prune": _part(
                "cache:prune",
                "Remove old entries, entries of older versions, and leftovers",
                options=(MAX_AGE, MAX_SIZE, *LEFTOVERS, DRY_RUN),
            ),
            "why": _part(
                "cache_why:why",
                "Why an entry is, or is not, in the cache",
                KERNEL,
                options=(ARCH, BACKEND, OFFLINE, *BUILDING),
            ),
            "export": _part("cache:export", "Write entries into an archive", ARCHIVE, ENTRIES),
            "import": _part("cache:import_", "Import the entries of an archive", ARCHIVE, options=(TRUST, DRY_RUN)),
        }
    ),
    "sources": CommandSet(
        {
            "list": ("Every pinned source and its state", CommandSpec("sources:list_", (*BUILDING, CACHE_DIR, *ROWS))),
            "fetch": (
                "Fetch sources into the cache",
                CommandSpec("sources:fetch", (OFFLINE, CACHE_DIR, *ROWS), (NAMES,)),
            ),
            "verify": (
                "Hash every file of the cached sources; exit 1 if one is damaged",
                CommandSpec("sources:verify", (CACHE_DIR, *ROWS), (NAMES,)),
            ),
            "path": ("Print the folder of a source", CommandSpec("sources:path", (CACHE_DIR,), (NAME,))),
            "rm": (
                "Remove sources from the cache",
                CommandSpec(
                    "sources:rm", (CACHE_DIR, *ROWS), (Argument("names", "Names of sources", required=True, many=True),)
                ),
            ),
        },
        alone="list",
    ),
}

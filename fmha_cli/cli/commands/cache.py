"""``fmha cache`` and ``fmha sources``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import ARCH, BACKEND, BUILDING, CACHE_DIR, DRY_RUN, OFFLINE, ROWS
from fmha_cli.domain.flags import FlagKind
from fmha_cli.toolchain.cache.key import BuildKind

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
            "list": _part("sources:list_", "Every pinned source and its state", options=BUILDING),
            "fetch": _part("sources:fetch", "Fetch sources into the cache", NAMES, options=(OFFLINE,)),
            "verify": _part("sources:verify", "Hash every file of the cached sources; exit 1 if one is damaged", NAMES),
            "path": ("Print the folder of a source", CommandSpec("sources:path", (CACHE_DIR,), (NAME,))),
            "rm": _part(
                "sources:rm", "Remove sources from the cache", replace(NAMES, help="Names of sources", required=True)
            ),
        },
        alone="list",
    ),
}

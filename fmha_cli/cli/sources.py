"""``fmha sources``: list, fetch, verify, path, rm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec
from fmha_cli.cli.options import BUILDING, CACHE_DIR, OFFLINE, ROWS
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode

if TYPE_CHECKING:
    from fmha_cli.domain.installation import SourceTree
    from fmha_cli.report.documents.installation import SourceRow
    from fmha_cli.sources.pins import Pin
    from fmha_cli.toolchain.cache.layout import CacheLayout

NAMES = Argument("names", "Names of sources; without any, those that backends need", many=True)
NAME = Argument("name", "Name of a source", required=True)


def list_(call: CliCall) -> None:
    """Every pinned source, and the tree that kernels would be built against. Fetches nothing."""
    from fmha_cli.cli.asked import trees_of

    _show(call, _chosen(call, every=True), trees=trees_of(call))


def fetch(call: CliCall) -> None:
    """Fetch sources into the cache."""
    from fmha_cli.sources.store import fetch_source
    from fmha_cli.toolchain.notice import as_text

    chosen = _chosen(call)
    offline = call.settings.on("offline")
    with call.console.progress("fetch") as progress:
        notify = as_text(call.console.say, progress.phase)
        for number, pin in enumerate(chosen):
            progress(number, len(chosen), pin.name)
            fetch_source(pin.name, call.cache_root, offline=offline, notify=notify)
    _show(call, chosen)


def verify(call: CliCall) -> int:
    """Hash every file of the cached sources; exit 1 if one is damaged."""
    rows = _show(call, _chosen(call, every=True), deep=True)
    return ExitCode.WRONG if any(row.state == "damaged" for row in rows) else ExitCode.OK


def path(call: CliCall) -> None:
    """Print the folder of a source, for scripts."""
    from fmha_cli.domain.installation import SourceState
    from fmha_cli.sources.pins import pin_of
    from fmha_cli.sources.store import standing

    pin = pin_of(str(call.argument("name")))
    found = standing(pin, call.cache(create=True))
    if found.state is not SourceState.PRESENT:
        what = f"the source {pin.name} is {found.state.value}"
        why = "; ".join(found.faults[:3]) or None
        help = f"fmha sources fetch {pin.name}"
        raise EnvironmentProblem(what, code="S101", where=str(found.path), why=why, help=help)
    call.output.text(str(found.path))


def rm(call: CliCall) -> None:
    """Remove sources from the cache. A missing one is not an error."""
    from fmha_cli.sources.store import remove

    layout = call.cache(create=True)
    chosen = _chosen(call)
    for pin in chosen:
        call.console.say(f"removed {pin.name}" if remove(pin, layout) else f"{pin.name} was not in the cache")
    _show(call, chosen)


def _show(
    call: CliCall, chosen: tuple[Pin, ...], *, trees: Mapping[str, SourceTree] | None = None, deep: bool = False
) -> tuple[SourceRow, ...]:
    from fmha_cli.report.documents.installation import Sources

    layout = call.cache(create=True)
    rows = tuple(_row(pin, layout, deep) for pin in chosen)
    call.output.document(Sources(sources=rows, trees=trees or {}))
    return rows


def _row(pin: Pin, layout: CacheLayout, deep: bool) -> SourceRow:
    from fmha_cli.domain.codec import taken_from
    from fmha_cli.domain.installation import SourceState
    from fmha_cli.report.documents.installation import SourceRow
    from fmha_cli.sources.store import standing

    found = standing(pin, layout, deep=deep)
    shown = found.faults[:10]
    more = f"; and {len(found.faults) - len(shown)} more" if len(found.faults) > len(shown) else ""
    return taken_from(
        pin,
        SourceRow,
        revision=pin.archive.version,
        state=found.state,
        file=pin.archive.file,
        sha256=pin.archive.sha256,
        path=None if found.state is SourceState.MISSING else str(found.path),
        bytes=pin.bytes if found.state is SourceState.PRESENT else None,
        why="; ".join(shown) + more if shown else None,
    )


def _chosen(call: CliCall, *, every: bool = False) -> tuple[Pin, ...]:
    """The sources that are named. Without a name: every source, or only the ones that backends need."""
    from fmha_cli.sources.pins import pin_of, pins

    names = call.arguments.get("names") or ()
    return tuple(pin_of(name) for name in names) or tuple(pin for pin in pins().values() if every or pin.backends)


COMMANDS = {
    "sources": CommandSet(
        {
            "list": ("Every pinned source and its state", CommandSpec(list_, (*BUILDING, CACHE_DIR, *ROWS))),
            "fetch": ("Fetch sources into the cache", CommandSpec(fetch, (OFFLINE, CACHE_DIR, *ROWS), (NAMES,))),
            "verify": (
                "Hash every file of the cached sources; exit 1 if one is damaged",
                CommandSpec(verify, (CACHE_DIR, *ROWS), (NAMES,)),
            ),
            "path": ("Print the folder of a source", CommandSpec(path, (CACHE_DIR,), (NAME,))),
            "rm": (
                "Remove sources from the cache",
                CommandSpec(rm, (CACHE_DIR, *ROWS), (Argument("names", "Names of sources", required=True, many=True),)),
            ),
        },
        alone="list",
    )
}

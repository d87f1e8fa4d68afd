"""``fmha sources``: list, fetch, verify, path, rm."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.request import trees_of
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode
from fmha_cli.domain.installation import SourceState, SourceTree
from fmha_cli.report.documents.installation import SourceRow, Sources
from fmha_cli.sources.pins import Pin, pin_of, pins
from fmha_cli.sources.store import fetch_source, remove, standing
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.notice import as_text


def list_(call: CliCall) -> None:
    """Every pinned source, and the tree that kernels would be built against. Fetches nothing."""
    _show(call, _chosen(call, every=True), trees=trees_of(call))


def fetch(call: CliCall) -> None:
    """Fetch sources into the cache."""
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
    layout = call.cache(create=True)
    chosen = _chosen(call)
    for pin in chosen:
        call.console.say(f"removed {pin.name}" if remove(pin, layout) else f"{pin.name} was not in the cache")
    _show(call, chosen)


def _show(
    call: CliCall, chosen: tuple[Pin, ...], *, trees: Mapping[str, SourceTree] | None = None, deep: bool = False
) -> tuple[SourceRow, ...]:

    layout = call.cache(create=True)
    rows = tuple(_row(pin, layout, deep) for pin in chosen)
    call.output.document(Sources(sources=rows, trees=trees or {}))
    return rows


def _row(pin: Pin, layout: CacheLayout, deep: bool) -> SourceRow:

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
    names = call.arguments.get("names") or ()
    return tuple(pin_of(name) for name in names) or tuple(pin for pin in pins().values() if every or pin.backends)

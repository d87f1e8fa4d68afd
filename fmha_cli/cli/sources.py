"""``fmha sources``: list, fetch, verify, path, rm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command, CommandSet
from fmha_cli.cli.options import CACHE_DIR, CK_HOME, OFFLINE, ROWS
from fmha_cli.errors import EnvironmentProblem, ExitCode

if TYPE_CHECKING:
    from fmha_cli.build.layout import CacheLayout
    from fmha_cli.report.tools import CkRow, SourceRow
    from fmha_cli.sources.pins import Pin

NAMES = Argument("names", "Names of sources; without any, those that backends need", many=True)
NAME = Argument("name", "Name of a source", required=True)


def list_(call: Call) -> int:
    """Every pinned source, and where Composable Kernel would come from. Fetches nothing."""
    from fmha_cli.sources.pins import pins

    return _show(call, tuple(pins().values()), ck=True)


def fetch(call: Call) -> int:
    """Bring sources into the cache."""
    from fmha_cli.sources.store import fetched

    chosen = _chosen(call)
    for pin in chosen:
        fetched(
            pin.name,
            _root(call),
            offline=call.settings.on("offline"),
            notify=lambda notice: call.voice.say(notice.text),
        )
    return _show(call, chosen)


def verify(call: Call) -> int:
    """Hash every file of the sources that are here; exit 1 when one is damaged."""
    from fmha_cli.sources.pins import pins
    from fmha_cli.sources.store import State, standing

    layout = _layout(call)
    chosen = _chosen(call) if call.arguments.get("names") else tuple(pins().values())
    damaged = [pin.name for pin in chosen if standing(pin, layout, deep=True).state is State.DAMAGED]
    _show(call, chosen, deep=True)
    return int(ExitCode.WRONG if damaged else ExitCode.OK)


def path(call: Call) -> int:
    """Print the folder of a source, for scripts."""
    from fmha_cli.sources.pins import pin_of
    from fmha_cli.sources.store import State, standing

    pin = pin_of(str(call.argument("name")))
    found = standing(pin, _layout(call))
    if found.state is not State.PRESENT:
        raise EnvironmentProblem(
            f"the source {pin.name} is {found.state.value}",
            code="S101",
            where=str(found.path),
            why="; ".join(found.faults[:3]) or None,
            help=f"fmha sources fetch {pin.name}",
        )
    call.output.text(str(found.path))
    return int(ExitCode.OK)


def rm(call: Call) -> int:
    """Remove sources from the cache; one that is not there is no error."""
    from fmha_cli.sources.pins import pin_of
    from fmha_cli.sources.store import remove

    layout = _layout(call)
    chosen = tuple(pin_of(name) for name in call.arguments.get("names") or ())
    for pin in chosen:
        call.voice.say(f"removed {pin.name}" if remove(pin, layout) else f"{pin.name} was not there")
    return _show(call, chosen)


def ck_row(call: Call) -> CkRow:
    """The Composable Kernel in force, without fetching it."""
    from fmha_cli.report.tools import CkRow, SourceState
    from fmha_cli.sources.ck import ck_tree

    try:
        tree = ck_tree(
            _root(call),
            home=call.settings.text("ck_home"),
            offline=True,
            notify=lambda notice: call.voice.detail(notice.text),
            environ=call.environ,
        )
    except EnvironmentProblem as error:
        state = SourceState.MISSING if error.code == "S101" else SourceState.UNFIT
        why = (
            "the pinned source is not in the cache, or damaged"
            if error.code == "S101"
            else f"{error.what} ({error.why})"
        )
        return CkRow(state=state, why=why, help="fmha sources fetch" if error.code == "S101" else error.help)
    return CkRow(
        state=SourceState.PRESENT,
        origin=tree.origin,
        include=str(tree.include),
        revision=tree.revision,
        digest=tree.digest,
        notes=tree.notes,
    )


def _show(call: Call, chosen: tuple[Pin, ...], *, ck: bool = False, deep: bool = False) -> int:
    from fmha_cli.report.tools import sources_document

    layout = _layout(call)
    rows = [_row(pin, layout, deep) for pin in chosen]
    call.output.document(sources_document(rows, ck_row(call) if ck else None))
    return int(ExitCode.OK)


def _row(pin: Pin, layout: CacheLayout, deep: bool) -> SourceRow:
    from fmha_cli.report.tools import SourceRow, SourceState
    from fmha_cli.sources.store import State, standing

    found = standing(pin, layout, deep=deep)
    here = found.state is not State.MISSING
    shown = found.faults[:10]
    more = f"; and {len(found.faults) - len(shown)} more" if len(found.faults) > len(shown) else ""
    return SourceRow(
        name=pin.name,
        revision=pin.archive.version,
        state=SourceState(found.state.value),
        title=pin.title,
        file=pin.archive.file,
        license=pin.license,
        sha256=pin.archive.sha256,
        digest=pin.digest,
        path=str(found.path) if here else None,
        bytes=pin.bytes if found.state is State.PRESENT else None,
        backends=pin.backends,
        why="; ".join(shown) + more if shown else None,
    )


def _chosen(call: Call) -> tuple[Pin, ...]:
    from fmha_cli.sources.pins import pin_of, pins

    names = call.arguments.get("names") or ()
    return tuple(pin_of(name) for name in names) or tuple(pin for pin in pins().values() if pin.backends)


def _root(call: Call) -> Path:
    from fmha_cli.build.root import cache_root

    return cache_root(call.settings.text("cache_dir"), call.environ)


def _layout(call: Call) -> CacheLayout:
    from fmha_cli.build.root import open_root

    return open_root(_root(call))


COMMAND = CommandSet(
    {
        "list": ("Every pinned source and its state", Command(list_, (CK_HOME, CACHE_DIR, *ROWS))),
        "fetch": ("Bring sources into the cache", Command(fetch, (OFFLINE, CACHE_DIR, *ROWS), (NAMES,))),
        "verify": (
            "Hash every file of the sources that are here; exit 1 when one is damaged",
            Command(verify, (CACHE_DIR, *ROWS), (NAMES,)),
        ),
        "path": ("Print the folder of a source", Command(path, (CACHE_DIR,), (NAME,))),
        "rm": (
            "Remove sources from the cache",
            Command(rm, (CACHE_DIR, *ROWS), (Argument("names", "Names of sources", required=True, many=True),)),
        ),
    },
    alone="list",
)

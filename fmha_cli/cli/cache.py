"""``fmha cache``: ls, stats, verify, prune, why, export, import."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import ARCH, BACKEND, BUILDING, CACHE_DIR, DRY_RUN, OFFLINE, ROWS
from fmha_cli.domain.errors import EmptySelection, ExitCode, UsageError
from fmha_cli.domain.flags import DIGITS, FlagKind
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.protocols import Keyed
from fmha_cli.toolchain.cache.key import BuildKind

if TYPE_CHECKING:
    from fmha_cli.toolchain.cache.layout import CacheLayout
    from fmha_cli.toolchain.cache.listing import EntryInfo

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

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


def _selected(call: CliCall, layout: CacheLayout) -> tuple[EntryInfo, ...]:
    """The entries that the arguments name; all without arguments."""
    from fmha_cli.toolchain.cache.listing import list_entries

    found, texts = list_entries(layout), call.arguments.get("entries") or ()
    for text in texts:
        if not any(_names(text, info) for info in found):
            raise EmptySelection(f"no entry of the cache matches {text}", code="F005", where=str(layout.root))
    return tuple(info for info in found if not texts or any(_names(text, info) for text in texts))


def _names(text: str, info: EntryInfo) -> bool:
    return info.digest.startswith(text.lower()) or fnmatchcase(info.name or "", text)


def _show(call: CliCall, layout: CacheLayout, result: Any = None, entries: tuple[EntryInfo, ...] = ()) -> int:
    from fmha_cli.report.documents.cache import cache_document

    call.output.document(cache_document(str(layout.root), entries, result))
    return int(ExitCode.OK)


def ls(call: CliCall) -> int:
    """The entries."""
    layout, kind = call.cache(), call.settings.text("kind")
    found = _selected(call, layout)
    return _show(call, layout, entries=tuple(info for info in found if kind in (None, info.kind)))


def stats(call: CliCall) -> int:
    """Counts and sizes."""
    from fmha_cli.toolchain.cache.listing import cache_stats

    layout = call.cache()
    return _show(call, layout, cache_stats(layout))


def verify(call: CliCall) -> int:
    """Re-hash every entry; exit 1 when one is damaged."""
    from fmha_cli.toolchain.cache.audit import verify_cache

    layout = call.cache()
    found = verify_cache(layout, fix=call.settings.on("fix"), notify=lambda notice: call.console.say(notice.text))
    _show(call, layout, found)
    return int(ExitCode.WRONG if found.damaged else ExitCode.OK)


def prune(call: CliCall) -> int:
    """Remove entries by age and size, and the leftovers of killed builds."""
    from fmha_cli.toolchain.cache.prune import PrunePolicy, prune_cache

    s, layout = call.settings, call.cache()
    policy = PrunePolicy(
        max_age_s=_amount(call, "max_age", rf"(\d{{1,{DIGITS}}})([smhdw])", _SECONDS),
        max_bytes=_amount(call, "max_size", rf"(\d{{1,{DIGITS}}})([kmgt]?)b?", _BYTES),
        quarantine=s.on("quarantine"),
        failed=s.on("failed"),
        dry_run=s.on("dry_run"),
    )
    pruned = prune_cache(layout, policy)
    if policy.dry_run:
        call.console.say("a dry run: nothing was removed")
    return _show(call, layout, pruned, pruned.entries)


def _amount(call: CliCall, key: str, form: str, units: dict[str, int]) -> int | None:
    text = call.settings.text(key)
    if text is None:
        return None
    match = re.fullmatch(form, text.strip().lower())
    if match is None:
        what = f"{call.settings.where(key)} {text}: a number and one of {' '.join(filter(None, units))}"
        raise UsageError(what, code="E002", where=call.settings.where(key))
    return int(match[1]) * units[match[2]]


def why(call: CliCall) -> int:
    """Whether a kernel would be found, and in which parts of its key the nearest entry differs.

    No backend can compute the key of an entry of another kind. Such an entry is compared with its nearest relative.
    """
    from fmha_cli.cli.asked import request_of
    from fmha_cli.cli.kernels import named_kernel
    from fmha_cli.domain.plan import Stage
    from fmha_cli.run.builds import build_context
    from fmha_cli.toolchain.cache.key import BuildKey
    from fmha_cli.toolchain.cache.listing import list_entries
    from fmha_cli.toolchain.cache.why import explain_entry, explain_key

    layout, text = call.cache(), str(call.argument("kernel"))
    others = [info for info in list_entries(layout) if info.kind not in (None, BuildKind.KERNEL) and _names(text, info)]
    if others:
        return _show(call, layout, explain_entry(layout, max(others, key=lambda info: info.created_ns or 0).digest))
    kernel = named_kernel(call)
    backend = call.registry.backend(kernel.backend)
    key = None
    if isinstance(backend, Keyed):
        key = backend.cache_key(Stage(kernel), build_context(request_of(call), Voice(call.console.say)))
    if not isinstance(key, BuildKey):
        raise UsageError(f"backend {kernel.backend} does not expose its cache keys", code="E015", where=kernel.name)
    return _show(call, layout, explain_key(layout, key))


def export(call: CliCall) -> int:
    """Write entries into an archive."""
    from fmha_cli.report.target import Target
    from fmha_cli.toolchain.cache.exporting import export_entries

    archive = Path(str(call.argument("archive")))
    Target(archive, "archive").check()
    layout = call.cache()
    digests = [info.digest for info in _selected(call, layout)]
    return _show(call, layout, export_entries(layout, digests, archive))


def import_(call: CliCall) -> int:
    """Import the entries of an archive after verifying all of them; host code needs --trust."""
    from fmha_cli.toolchain.cache.importing import import_entries

    s, layout, archive = call.settings, call.cache(create=True), Path(str(call.argument("archive")))
    done = import_entries(
        layout,
        archive,
        trust=s.on("trust"),
        dry_run=s.on("dry_run"),
        notify=lambda notice: call.console.say(notice.text),
    )
    return _show(call, layout, done)


def _part(
    run: Callable[[CliCall], int], summary: str, *arguments: Argument, options: tuple[Opt, ...] = ()
) -> tuple[str, CommandSpec]:
    return summary, CommandSpec(run, (*options, CACHE_DIR, *ROWS), arguments)


COMMANDS = {
    "cache": CommandSet(
        {
            "ls": _part(ls, "List the entries", ENTRIES, options=(KIND,)),
            "stats": _part(stats, "Count the entries and add up their sizes"),
            "verify": _part(verify, "Re-hash every file of every entry; exit 1 when one is damaged", options=(FIX,)),
            "prune": _part(
                prune,
                "Remove old entries, entries of older versions, and leftovers",
                options=(MAX_AGE, MAX_SIZE, *LEFTOVERS, DRY_RUN),
            ),
            "why": _part(
                why, "Why an entry is, or is not, in the cache", KERNEL, options=(ARCH, BACKEND, OFFLINE, *BUILDING)
            ),
            "export": _part(export, "Write entries into an archive", ARCHIVE, ENTRIES),
            "import": _part(import_, "Import the entries of an archive", ARCHIVE, options=(TRUST, DRY_RUN)),
        }
    )
}

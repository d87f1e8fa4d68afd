"""``fmha cache``: ls, stats, verify, prune, why, export, import."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fmha_cli.cli.call import CliCall
from fmha_cli.domain.errors import EmptySelection, ExitCode, UsageError
from fmha_cli.domain.flags import DIGITS
from fmha_cli.report.documents.cache import cache_document
from fmha_cli.report.target import Target
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.listing import EntryInfo, cache_stats, list_entries
from fmha_cli.toolchain.cache.prune import PrunePolicy, prune_cache

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _selected(call: CliCall, layout: CacheLayout) -> tuple[EntryInfo, ...]:
    """The entries that the arguments name; all without arguments."""
    found, texts = list_entries(layout), call.arguments.get("entries") or ()
    for text in texts:
        if not any(is_named(text, info) for info in found):
            raise EmptySelection(f"no entry of the cache matches {text}", code="F005", where=str(layout.root))
    return tuple(info for info in found if not texts or any(is_named(text, info) for text in texts))


def is_named(text: str, info: EntryInfo) -> bool:
    return info.digest.startswith(text.lower()) or fnmatchcase(info.name or "", text)


def show_entries(call: CliCall, layout: CacheLayout, result: Any = None, entries: tuple[EntryInfo, ...] = ()) -> None:
    """Print ``fmha.cache/1``."""
    call.output.document(cache_document(str(layout.root), entries, result))


def ls(call: CliCall) -> None:
    """The entries."""
    layout, kind = call.cache(), call.settings.text("kind")
    found = _selected(call, layout)
    show_entries(call, layout, entries=tuple(info for info in found if kind in (None, info.kind)))


def stats(call: CliCall) -> None:
    """Counts and sizes."""
    layout = call.cache()
    show_entries(call, layout, cache_stats(layout))


def verify(call: CliCall) -> int:
    """Re-hash every entry; exit 1 when one is damaged."""
    layout = call.cache()
    found = verify_cache(layout, fix=call.settings.on("fix"), notify=lambda notice: call.console.say(notice.text))
    show_entries(call, layout, found)
    return int(ExitCode.WRONG if found.damaged else ExitCode.OK)


def prune(call: CliCall) -> None:
    """Remove entries by age and size, and the leftovers of killed builds."""
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
    show_entries(call, layout, pruned, pruned.entries)


def _amount(call: CliCall, key: str, form: str, units: dict[str, int]) -> int | None:
    text = call.settings.text(key)
    if text is None:
        return None
    match = re.fullmatch(form, text.strip().lower())
    if match is None:
        what = f"{call.settings.where(key)} {text}: a number and one of {' '.join(filter(None, units))}"
        raise UsageError(what, code="E002", where=call.settings.where(key))
    return int(match[1]) * units[match[2]]


def export(call: CliCall) -> None:
    """Write entries into an archive."""
    archive = Path(str(call.argument("archive")))
    Target(archive, "archive").check()
    layout = call.cache()
    digests = [info.digest for info in _selected(call, layout)]
    show_entries(call, layout, export_entries(layout, digests, archive))


def import_(call: CliCall) -> None:
    """Import the entries of an archive after verifying all of them; host code needs --trust."""
    s, layout, archive = call.settings, call.cache(create=True), Path(str(call.argument("archive")))
    done = import_entries(
        layout,
        archive,
        trust=s.on("trust"),
        dry_run=s.on("dry_run"),
        notify=lambda notice: call.console.say(notice.text),
    )
    show_entries(call, layout, done)

"""``fmha.cache/3``: one document for every action of ``fmha cache``; members that an action does not use are null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.members import Count, Key
from fmha_cli.domain.quantities import duration, size
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import cell, counted, short
from fmha_cli.report.table import Table, table_of
from fmha_cli.toolchain.cache.audit import VerifyReport
from fmha_cli.toolchain.cache.entry import Damage
from fmha_cli.toolchain.cache.exporting import ExportResult
from fmha_cli.toolchain.cache.importing import Imported
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cache.listing import CacheStats, EntryInfo
from fmha_cli.toolchain.cache.origin import Code
from fmha_cli.toolchain.cache.prune import Pruned
from fmha_cli.toolchain.cache.why import KeyExplanation, KeyStanding

CacheResult = CacheStats | VerifyReport | Pruned | KeyExplanation | ExportResult | Imported


def _date(nanoseconds: int | None) -> str:
    if not nanoseconds:
        return ""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "digest": Column("digest", short),
        "kind": Column("kind", common="{}".format, rank=4),
        "name": Column("name", fit=Fit.MIDDLE, least=24),
        "toolchain": Column("toolchain", fit=Fit.MIDDLE, least=24, common="{}".format, rank=6),
        "size": Column("size", size, number=True, rank=3, path="bytes"),
        "build_ns": Column("build time", duration, number=True, rank=5),
        "used_ns": Column("last used (UTC)", _date, rank=2),
        "damage": Column("damage", "; ".join, fit=Fit.FOLD),
        "imported_from": Column("imported from", fit=Fit.MIDDLE, common="imported from {}".format, rank=1),
    }
)
"""The columns of a table of entries."""

HELD: Mapping[str, Column] = MappingProxyType(
    {
        "digest": Column("digest", short),
        "kind": Column("kind", common="{}".format, rank=2),
        "code": Column("code", common="{} code".format),
        "arch": Column("arch", common="{}".format, rank=1),
        "name": Column("name", fit=Fit.MIDDLE, least=24),
        "toolchain": Column("toolchain", fit=Fit.MIDDLE, common="{}".format, rank=3),
    }
)
"""The columns of a table of an archive's entries."""


@dataclass(frozen=True, kw_only=True)
class CachePage:
    """cache --json; exactly the member of the action is not null (none for ls)."""

    schema: Literal["fmha.cache/3"] = "fmha.cache/3"
    action: Literal["ls", "stats", "verify", "prune", "why", "export", "import"]
    root: str
    count: Count
    bytes: Count
    entries: Annotated[tuple[EntryInfo, ...], "ls: all; prune: those removed"]
    stats: CacheStats | None = None
    verify: VerifyReport | None = None
    prune: Pruned | None = None
    why: KeyExplanation | None = None
    export: ExportResult | None = None
    import_: Annotated[Imported | None, Key("import")] = None


_MEMBERS: Mapping[type, str] = MappingProxyType(
    {
        CacheStats: "stats",
        VerifyReport: "verify",
        Pruned: "prune",
        KeyExplanation: "why",
        ExportResult: "export",
        Imported: "import_",
    }
)


def cache_document(root: str, entries: Iterable[EntryInfo], result: CacheResult | None = None) -> CachePage:
    """The document of ``ls`` (``result`` None), or of the action that returned the result.

    ``entries`` are the listed entries (``ls``), or the ones that ``prune`` removed or would remove. Other actions have
    none.
    """
    rows = tuple(entries)
    shown: dict[str, Any] = {} if result is None else {_MEMBERS[type(result)]: result}
    action: Any = "".join(shown).removesuffix("_") or "ls"
    return CachePage(action=action, root=root, count=len(rows), bytes=sum(r.size for r in rows), entries=rows, **shown)


def cache_view(document: CachePage) -> Table:
    """The entries, or the figures of an action."""
    if document.prune is not None:
        return _entries(document, _freed(document.prune, document.count), _kept(document.prune))
    if document.import_ is not None:
        return _imported(document.import_)
    if document.verify is not None:
        return _verified(document.root, document.verify)
    if document.why is not None:
        return _explained(document.why)
    found = document.stats or document.export
    if found is None:
        return _entries(document, f"{counted(document.count, 'entry')}, {size(document.bytes)}")
    figures, kinds = to_json(found), document.stats.kinds if document.stats else ()
    rows = [[f"{kind.kind} entries", f"{kind.entries}, {size(kind.bytes)}"] for kind in kinds]
    rows += [[_label(key), _figure(key, value)] for key, value in figures.items() if not _listed(value)]
    details = [f"  {key}: {line}" for key, value in figures.items() if _listed(value) for line in _lines(value)]
    columns = Column(document.action), Column("value", fit=Fit.MIDDLE)
    return Table(columns, rows, f"cache: {document.root}", () if kinds else details)


def _freed(found: Pruned, count: int) -> str:
    freed = "would be freed" if found.dry_run else "freed"
    return f"{counted(count, 'entry')} and {counted(len(found.others), 'leftover')}: {size(found.freed_bytes)} {freed}"


def _kept(found: Pruned) -> str:
    """What the limits would remove, and had to stay."""
    stayed = {"used in the last minutes": len(found.kept_recent), "in use": len(found.kept_locked)}
    return "".join(f"; kept {counted(number, 'entry')} {why}" for why, number in stayed.items() if number)


def _imported(found: Imported) -> Table:
    added, held = len(found.added), len(found.held)
    done = f"would add {added}, nothing was changed" if found.dry_run else f"{added} added"
    host = sum(one.code is Code.HOST for one in found.held)
    summary = f"{counted(held, 'entry')}, {host} of host code: {done}; {len(found.present)} there already"
    return table_of(HELD, found.held, summary)


def _verified(root: str, found: VerifyReport) -> Table:
    """Damage and strangers line by line; a sound cache is one line."""
    brought = [
        [short(one.digest), "imported", f"{one.origin.code} code from {one.origin.archive}"] for one in found.imported
    ]
    damaged = [[short(one.digest), "damaged", "; ".join(one.reasons)] for one in found.damaged]
    busy = [[short(digest), "in use", "another process holds its lock"] for digest in found.busy]
    moved = [f"  moved to {path}" for path in found.quarantined]
    summary = (
        f"{counted(found.checked, 'entry')} checked in {root}: {len(damaged) or 'none'} damaged, "
        f"{len(brought) or 'none'} imported"
    )
    columns = (Column("digest"), Column("state"), Column("why", fit=Fit.FOLD))
    return Table(columns, [*damaged, *busy, *brought], summary, moved)


_STANDINGS: Mapping[KeyStanding, str] = MappingProxyType(
    {
        KeyStanding.HIT: "it is in the cache, and a build takes it as it is",
        KeyStanding.DAMAGED: "it is damaged: its next use moves it away and builds it again",
        KeyStanding.QUARANTINED: "it was damaged and moved away; its next use builds it again",
        KeyStanding.FAILED: "it is not in the cache: its last build failed",
        KeyStanding.DIFFERS: "it is not in the cache: no entry of its name has the same key",
        KeyStanding.UNKNOWN: "it is not in the cache: nothing of its kind and name was built here",
    }
)


def _explained(found: KeyExplanation) -> Table:
    """The parts in which the nearest entry differs; above all, whether a build would find the kernel."""
    nearest = short(found.nearest or "")
    rows = [[one.part, _side(one.cached), _side(one.wanted)] for one in found.differences]
    columns = (
        Column("part of the key", fit=Fit.FOLD),
        Column(f"entry {nearest}".rstrip(), fit=Fit.FOLD),
        Column(f"key {short(found.digest)}", fit=Fit.FOLD),
    )
    details = [f"  {line}" for line in found.details]
    details += [f"  the nearest entry, {nearest}, has the same key parts"] if nearest and not rows else []
    return Table(columns, rows, f"{short(found.digest)}: {_STANDINGS[found.standing]}", details)


def _side(value: Any) -> str:
    return "absent" if value is None else cell(value) or "empty"


def _entries(document: CachePage, summary: str, more: str = "") -> Table:
    return table_of(COLUMNS, document.entries, f"{summary} in {document.root}{more}")


def _listed(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping | str) for item in value)


def _lines(values: list[Any]) -> list[str]:
    return [cell(dict(value)) if isinstance(value, Mapping) else str(value) for value in values]


def _label(key: str) -> str:
    return key.removesuffix("_ns").replace("_bytes", " size").replace("_", " ")


def _figure(key: str, value: Any) -> str:
    if key.endswith("bytes"):
        return size(value)
    if key in ("oldest_ns", "newest_ns"):
        return _date(value)
    return duration(value) if key.endswith("_ns") else cell(value)


DOCUMENTS = (
    Document(
        CachePage,
        cache_view,
        rows="entries",
        columns=tuple(COLUMNS.values()),
        definitions={"kind": BuildKind, "damage": Damage},
    ),
)

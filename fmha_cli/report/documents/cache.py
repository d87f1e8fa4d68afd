"""``fmha.cache/2``: one document for every action of ``fmha cache``; members that an action does not use are null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fmha_cli.domain.codec import members_of, to_json
from fmha_cli.domain.members import Count, FewestItems, Key, Least, Sha256, ShownAs
from fmha_cli.report.columns import Column, table_of
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell, counted, duration, size
from fmha_cli.toolchain.cache.audit import VerifyReport
from fmha_cli.toolchain.cache.entry import Damage
from fmha_cli.toolchain.cache.exporting import Exported
from fmha_cli.toolchain.cache.importing import Imported
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cache.listing import CacheStats, EntryInfo
from fmha_cli.toolchain.cache.prune import Pruned
from fmha_cli.toolchain.cache.why import Standing, Why

T = TypeVar("T")
CacheResult = CacheStats | VerifyReport | Pruned | Why | Exported | Imported


def _date(nanoseconds: int | None) -> str:
    if not nanoseconds:
        return ""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def _short(digest: str) -> str:
    return digest[:SHORT]


def _joined(reasons: list[str]) -> str:
    return "; ".join(reasons)


Kind = Annotated[str, ShownAs(BuildKind)]
Digests = tuple[Sha256, ...]
Texts = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EntryRow:
    """One entry; what cannot be read from a damaged entry is None."""

    digest: Annotated[Sha256, Column("digest", _short)]
    kind: Annotated[str | None, ShownAs(BuildKind | None), Column("kind")]
    name: Annotated[str | None, "the canonical name of a kernel", Column("name")]
    arch: str | None
    toolchain: Annotated[str | None, Column("toolchain")]
    path: Path
    bytes: Annotated[int, Least(0), Column("size", size)]
    build_ns: Annotated[Count | None, Column("build time", duration)]
    created_ns: Annotated[Count | None, "when it was built; nanoseconds since 1970"]
    used_ns: Annotated[
        int, Least(0), "when it was last loaded; nanoseconds since 1970", Column("last used (UTC)", _date)
    ]
    damage: Annotated[Texts, Column("damage", _joined)]


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """The sound entries of one kind."""

    kind: Kind
    entries: Count
    bytes: Count


@dataclass(frozen=True, kw_only=True)
class StatsRow:
    """Counts and bytes of a whole cache."""

    kinds: Annotated[tuple[KindRow, ...], "sound entries by kind"]
    entries: Count
    entry_bytes: Count
    damaged: Count
    oldest_ns: Annotated[Count | None, "oldest entry; nanoseconds since 1970"]
    newest_ns: Annotated[Count | None, "newest entry; nanoseconds since 1970"]
    saved_ns: Annotated[int, Least(0), "compile time that the entries stand for"]
    quarantined: Count
    quarantine_bytes: Count
    failed: Count
    failed_bytes: Count
    temporary: Count
    temporary_bytes: Count
    outdated_bytes: Annotated[int, Least(0), "entries of older versions, which prune removes"]
    other_bytes: Count
    total_bytes: Count


@dataclass(frozen=True, kw_only=True)
class DamageRow:
    """An entry that must not be loaded, and why."""

    digest: Sha256
    path: str
    reasons: Annotated[Texts, FewestItems(1)]


Damages = Annotated[tuple[Damage, ...], ShownAs(tuple[DamageRow, ...])]


@dataclass(frozen=True, kw_only=True)
class VerifyRow:
    """What a full check found."""

    checked: Count
    damaged: Damages
    quarantined: Annotated[tuple[Path, ...], "where damaged entries were moved to"]
    busy: Annotated[Digests, "damaged, but somebody holds the lock"]


@dataclass(frozen=True, kw_only=True)
class PruneRow:
    """What was removed besides the entries, and what had to stay."""

    freed_bytes: Count
    kept_locked: Digests
    kept_recent: Digests
    others: Annotated[
        tuple[Path, ...],
        "what else was removed: older versions' entries, quarantined, failed and temporary things",
    ]


@dataclass(frozen=True, kw_only=True)
class DifferenceRow:
    """One part in which two keys differ."""

    part: str
    cached: Any
    wanted: Any


@dataclass(frozen=True, kw_only=True)
class WhyRow:
    """How the cache answers a key."""

    digest: Sha256
    standing: Standing
    nearest: Sha256 | None
    differences: tuple[DifferenceRow, ...]
    details: Texts


@dataclass(frozen=True, kw_only=True)
class ExportRow:
    """The result of an export."""

    archive: Path
    bytes: Count
    digests: Digests
    skipped: Damages


@dataclass(frozen=True, kw_only=True)
class ImportRow:
    """The result of an import."""

    added: Digests
    present: Annotated[Digests, "there was a sound entry already"]


@dataclass(frozen=True, kw_only=True)
class CachePage:
    """cache --json; exactly the member of the action is not null (none for ls)."""

    schema: Literal["fmha.cache/2"] = "fmha.cache/2"
    action: Literal["ls", "stats", "verify", "prune", "why", "export", "import"]
    root: str
    count: Count
    bytes: Count
    entries: Annotated[tuple[EntryRow, ...], "ls: all; prune: those removed"]
    stats: StatsRow | None = None
    verify: VerifyRow | None = None
    prune: PruneRow | None = None
    why: WhyRow | None = None
    export: ExportRow | None = None
    import_: Annotated[ImportRow | None, Key("import")] = None


def cache_document(root: str, entries: Iterable[EntryInfo], result: CacheResult | None = None) -> dict[str, Any]:
    """The document of ``ls`` (``result`` None), or of the action that returned the result.

    ``entries`` are the listed entries (``ls``), or those that ``prune`` removed or would remove. Other actions have
    none.
    """
    rows = tuple(
        _row(
            EntryRow,
            info,
            bytes=info.size,
            **{
                name: getattr(info, name) or None
                for name in ("kind", "name", "arch", "toolchain", "build_ns", "created_ns")
            },
        )
        for info in entries
    )
    action, shown = _action(result)
    page = CachePage(action=action, root=root, count=len(rows), bytes=sum(r.bytes for r in rows), entries=rows, **shown)
    return to_json(page)


def _action(
    result: CacheResult | None,
) -> tuple[Literal["ls", "stats", "verify", "prune", "why", "export", "import"], dict[str, Any]]:
    match result:
        case None:
            return "ls", {}
        case CacheStats():
            kinds = tuple(KindRow(kind=k, entries=count, bytes=size) for k, (count, size) in result.kinds.items())
            return "stats", {"stats": _row(StatsRow, result, kinds=kinds)}
        case VerifyReport():
            return "verify", {"verify": _row(VerifyRow, result)}
        case Pruned():
            return "prune", {"prune": _row(PruneRow, result)}
        case Why():
            differences = tuple(_row(DifferenceRow, difference) for difference in result.differences)
            return "why", {"why": _row(WhyRow, result, differences=differences)}
        case Exported():
            return "export", {"export": _row(ExportRow, result, bytes=result.size)}
        case Imported():
            return "import", {"import_": _row(ImportRow, result)}


def _row(kind: type[T], source: object, /, **other: Any) -> T:
    """A row of the members of ``source``, except those given in ``other``."""
    same = {m.name: getattr(source, m.name) for m in members_of(kind) if m.name not in other}
    return kind(**same, **other)


def cache_view(document: Mapping[str, Any]) -> Table:
    """The entries, or the figures of an action."""
    action = document["action"]
    if action == "ls":
        return _entries(document, counted(document["count"], "entry") + f", {size(document['bytes'])}")
    figures = document[action]
    if action == "prune":
        return _entries(
            document,
            f"{counted(document['count'], 'entry')} and {counted(len(figures['others']), 'leftover')}: {size(figures['freed_bytes'])} freed",
        )
    rows = [[_label(key), _figure(key, value)] for key, value in figures.items() if not _listed(value)]
    if action == "stats":
        kinds = [[f"{k['kind']} entries", f"{k['entries']}, {size(k['bytes'])}"] for k in figures["kinds"]]
        return Table([action, "value"], [*kinds, *rows], f"cache: {document['root']}")
    details = [f"  {key}: {line}" for key, value in figures.items() if _listed(value) for line in _lines(value)]
    return Table([action, "value"], rows, f"cache: {document['root']}", details)


def _entries(document: Mapping[str, Any], summary: str) -> Table:
    return table_of(EntryRow, document["entries"], f"{summary} in {document['root']}")


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


DOCUMENT = Document(CachePage, cache_view, rows="entries", definitions={"kind": BuildKind, "damage": DamageRow})

"""The content of the cache: ``fmha cache ls`` and ``fmha cache stats``. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fmha_cli.domain.members import Count, Hidden, Key, Least, Sha256, ShownAs, Then
from fmha_cli.toolchain.cache.entry import Damage, read_meta
from fmha_cli.toolchain.cache.files import as_environment_problem, tree_size
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cache.layout import CacheLayout, children
from fmha_cli.toolchain.cache.origin import origin_of


@dataclass(frozen=True)
class EntryInfo:
    """One entry of a listing. A listing does not hash the artifact (``verify`` does).

    Attributes:
        digest: the key's digest.
        kind: kind in the key; None when ``meta.json`` is damaged.
        name: name in the key; None when ``meta.json`` is damaged.
        arch: architecture in the key; None when ``meta.json`` is damaged.
        toolchain: compiler version in the key; None when ``meta.json`` is damaged.
        path: the entry's directory.
        size: bytes of all its files on disk.
        build_ns: how long the build took, in nanoseconds; None when nothing was built or ``meta.json`` is damaged.
        created_ns: when it was built, in nanoseconds since 1970; None when ``meta.json`` is damaged.
        used_ns: when it was last loaded or built, in nanoseconds since 1970.
        damage: the faults of ``meta.json``.
        imported_from: the archive that brought it; None if it was built here.
    """

    digest: Sha256
    kind: Annotated[str | None, ShownAs(BuildKind | None)]
    name: Annotated[str | None, "the canonical name of a kernel"]
    arch: str | None
    toolchain: str | None
    path: Path
    size: Annotated[int, Least(0), Key("bytes")]
    build_ns: Count | None
    created_ns: Annotated[Count | None, "when it was built; nanoseconds since 1970"]
    used_ns: Annotated[int, Least(0), "when it was last loaded; nanoseconds since 1970"]
    damage: tuple[str, ...]
    imported_from: Annotated[str | None, "archive that brought it; null: it was built here"]


@dataclass(frozen=True)
class KindStats:
    """The sound entries of one kind: their number and their bytes on disk."""

    kind: Annotated[str, ShownAs(BuildKind)]
    entries: Count
    bytes: Count


@dataclass(frozen=True)
class CacheStats:
    """Counts and bytes of a whole cache.

    Attributes:
        kinds: the sound entries by kind.
        oldest_ns: when the oldest sound entry was built, in nanoseconds since 1970; None without one.
        newest_ns: when the newest sound entry was built, likewise.
        saved_ns: compile time that the entries save, in nanoseconds.
        outdated_bytes: bytes of entries of older versions, which ``prune`` removes.
        other_bytes: bytes of everything else: locks, probe results, sources, names and origins of imported entries.
    """

    root: Annotated[Path, Hidden()]
    kinds: Annotated[tuple[KindStats, ...], "sound entries by kind"]
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
    other_bytes: Annotated[Count, Then("total_bytes")]

    @property
    def total_bytes(self) -> Count:
        """All bytes under the root."""
        kept = self.entry_bytes + self.quarantine_bytes + self.failed_bytes + self.temporary_bytes
        return kept + self.outdated_bytes + self.other_bytes


@as_environment_problem("listing the kernel cache")
def list_entries(layout: CacheLayout) -> tuple[EntryInfo, ...]:
    """Every entry, sorted by kind, name and digest. Entries that vanish meanwhile are left out.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    found = [info for digest in layout.digests() if (info := describe_entry(layout, digest))]
    return tuple(sorted(found, key=lambda info: (info.kind or "", info.name or "", info.digest)))


def describe_entry(layout: CacheLayout, digest: str) -> EntryInfo | None:
    """One entry, or None when it is not there.

    Raises:
        OSError: it cannot be read.
    """
    path = layout.entry(digest)
    meta = read_meta(path, digest)
    try:
        used = path.stat().st_mtime_ns
    except FileNotFoundError:
        meta = None
    if meta is None:
        return None
    size = tree_size(path)
    origin = origin_of(layout, digest)
    archive = origin.archive if origin else None
    if isinstance(meta, Damage):
        return EntryInfo(digest, None, None, None, None, path, size, None, None, used, meta.reasons, archive)
    return EntryInfo(
        digest=digest,
        kind=str(meta.parts["kind"]),
        name=str(meta.parts["name"]),
        arch=str(meta.parts["arch"]),
        toolchain=str(meta.parts["toolchain_version"]),
        path=path,
        size=size,
        build_ns=meta.build_ns or None,
        created_ns=meta.created_ns,
        used_ns=used,
        damage=(),
        imported_from=archive,
    )


@as_environment_problem("measuring the kernel cache")
def cache_stats(layout: CacheLayout) -> CacheStats:
    """Count and measure everything under the root. An absent cache counts as empty.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    entries = list_entries(layout)
    created = [info.created_ns for info in entries if info.created_ns is not None]
    return CacheStats(
        root=layout.root,
        kinds=_kinds(entries),
        entries=len(entries),
        entry_bytes=sum(info.size for info in entries),
        damaged=sum(bool(info.damage) for info in entries),
        oldest_ns=min(created, default=None),
        newest_ns=max(created, default=None),
        saved_ns=sum(info.build_ns or 0 for info in entries),
        quarantined=len(children(layout.quarantine)),
        quarantine_bytes=tree_size(layout.quarantine),
        failed=len(children(layout.failed)),
        failed_bytes=tree_size(layout.failed),
        temporary=len(children(layout.tmp)),
        temporary_bytes=tree_size(layout.tmp),
        outdated_bytes=sum(tree_size(path) for path in layout.outdated),
        other_bytes=sum(
            tree_size(room)
            for room in (layout.locks, layout.toolchains, layout.sources, layout.prebuilt, layout.imported)
        ),
    )


def _kinds(entries: Iterable[EntryInfo]) -> tuple[KindStats, ...]:
    counts, sizes = Counter[str](), Counter[str]()
    for info in entries:
        if info.kind:
            counts[info.kind] += 1
            sizes[info.kind] += info.size
    return tuple(KindStats(kind, count, sizes[kind]) for kind, count in counts.items())

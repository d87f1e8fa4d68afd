"""The content of the cache: ``fmha cache ls`` and ``fmha cache stats``. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, read_meta
from fmha_cli.toolchain.cache.files import as_environment_problem, tree_size
from fmha_cli.toolchain.cache.layout import CacheLayout


@dataclass(frozen=True)
class EntryInfo:
    """One entry of a listing. A listing does not hash the artifact (``verify`` does).

    Attributes:
        digest: the key's digest.
        path: the entry's directory.
        size: bytes of all its files on disk.
        used_ns: when it was last loaded or built, in nanoseconds since 1970.
        kind: kind in the key; empty when ``meta.json`` is damaged.
        name: name in the key; empty when ``meta.json`` is damaged.
        arch: architecture in the key; empty when ``meta.json`` is damaged.
        toolchain: compiler version in the key; empty when ``meta.json`` is damaged.
        created_ns: when it was built, in nanoseconds since 1970; 0 when ``meta.json`` is damaged.
        build_ns: how long the build took, in nanoseconds; 0 when ``meta.json`` is damaged.
        damage: the faults of ``meta.json``.
    """

    digest: str
    path: Path
    size: int
    used_ns: int
    kind: str
    name: str
    arch: str
    toolchain: str
    created_ns: int
    build_ns: int
    damage: tuple[str, ...]


@dataclass(frozen=True)
class CacheStats:
    """Counts and bytes of a whole cache.

    Attributes:
        kinds: kind -> (entries, bytes) of the sound entries.
        oldest_ns: when the oldest sound entry was built, in nanoseconds since 1970; None without one.
        newest_ns: when the newest sound entry was built, likewise.
        saved_ns: compile time that the entries save, in nanoseconds.
        outdated_bytes: bytes of entries of older versions, which ``prune`` removes.
        other_bytes: bytes of everything else: locks, probe results, sources, names of imported entries.
    """

    root: Path
    kinds: Mapping[str, tuple[int, int]]
    entries: int
    entry_bytes: int
    damaged: int
    oldest_ns: int | None
    newest_ns: int | None
    saved_ns: int
    quarantined: int
    quarantine_bytes: int
    failed: int
    failed_bytes: int
    temporary: int
    temporary_bytes: int
    outdated_bytes: int
    other_bytes: int

    @property
    def total_bytes(self) -> int:
        """All bytes under the root."""
        kept = self.entry_bytes + self.quarantine_bytes + self.failed_bytes + self.temporary_bytes
        return kept + self.outdated_bytes + self.other_bytes


def list_entries(layout: CacheLayout) -> tuple[EntryInfo, ...]:
    """Every entry, sorted by kind, name and digest. Entries that vanish meanwhile are left out.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with as_environment_problem("listing the kernel cache"):
        found = [info for digest in layout.digests() if (info := describe_entry(layout, digest))]
    return tuple(sorted(found, key=lambda info: (info.kind, info.name, info.digest)))


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
    sound = meta if isinstance(meta, EntryMeta) else None
    return EntryInfo(
        digest=digest,
        path=path,
        size=tree_size(path),
        used_ns=used,
        kind=str(sound.parts["kind"]) if sound else "",
        name=str(sound.parts["name"]) if sound else "",
        arch=str(sound.parts["arch"]) if sound else "",
        toolchain=str(sound.parts["toolchain_version"]) if sound else "",
        created_ns=sound.created_ns if sound else 0,
        build_ns=sound.build_ns if sound else 0,
        damage=meta.reasons if isinstance(meta, Damage) else (),
    )


def cache_stats(layout: CacheLayout) -> CacheStats:
    """Count and measure everything under the root. An absent cache counts as empty.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    entries = list_entries(layout)
    sound = [info.created_ns for info in entries if not info.damage]
    return CacheStats(
        root=layout.root,
        kinds=_kinds(entries),
        entries=len(entries),
        entry_bytes=sum(info.size for info in entries),
        damaged=sum(bool(info.damage) for info in entries),
        oldest_ns=min(sound, default=None),
        newest_ns=max(sound, default=None),
        saved_ns=sum(info.build_ns for info in entries),
        quarantined=sum(1 for _ in children(layout.quarantine)),
        quarantine_bytes=tree_size(layout.quarantine),
        failed=sum(1 for _ in children(layout.failed)),
        failed_bytes=tree_size(layout.failed),
        temporary=sum(1 for _ in children(layout.tmp)),
        temporary_bytes=tree_size(layout.tmp),
        outdated_bytes=sum(tree_size(path) for path in layout.outdated),
        other_bytes=sum(tree_size(room) for room in (layout.locks, layout.toolchains, layout.sources, layout.prebuilt)),
    )


def _kinds(entries: Iterable[EntryInfo]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for info in entries:
        if info.kind:
            count, size = found.get(info.kind, (0, 0))
            found[info.kind] = (count + 1, size + info.size)
    return found


def children(path: Path) -> Iterator[Path]:
    """The members of a directory, sorted; none when it is missing.

    Raises:
        EnvironmentProblem: it cannot be read.
    """
    with as_environment_problem("listing the kernel cache"):
        yield from sorted(path.iterdir()) if path.is_dir() else ()

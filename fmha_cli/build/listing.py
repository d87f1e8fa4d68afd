"""What is in the cache: ``fmha cache ls`` and ``fmha cache stats``. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.entry import Damage, read_meta
from fmha_cli.build.files import as_environment_problem, tree_size
from fmha_cli.build.layout import CacheLayout


@dataclass(frozen=True)
class EntryInfo:
    """One entry as listed. The artifact itself is not hashed for a listing (``verify`` does that).

    Attributes:
        digest: the key's digest.
        path: the entry's directory.
        size: bytes on disk, all four files.
        used_ns: nanoseconds since 1970 when it was last loaded or built.
        kernel_name, arch, toolchain: from the key; empty when ``meta.json`` is damaged.
        created_ns, build_ns: when and how long it was built; 0 when ``meta.json`` is damaged.
        damage: what is wrong with ``meta.json``; empty when nothing is.
    """

    digest: str
    path: Path
    size: int
    used_ns: int
    kernel_name: str
    arch: str
    toolchain: str
    created_ns: int
    build_ns: int
    damage: tuple[str, ...]


@dataclass(frozen=True)
class CacheStats:
    """Counts and bytes of a whole cache.

    Attributes:
        saved_ns: compile time that the entries stand for.
        other_bytes: what is neither entry, quarantine, failure nor temporary (locks, probe results, sources).
    """

    root: Path
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
    other_bytes: int

    @property
    def total_bytes(self) -> int:
        """All bytes under the root."""
        return self.entry_bytes + self.quarantine_bytes + self.failed_bytes + self.temporary_bytes + self.other_bytes


def list_entries(layout: CacheLayout) -> tuple[EntryInfo, ...]:
    """Every entry, sorted by kernel name, then digest. Entries that vanish meanwhile are left out.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with as_environment_problem("listing the kernel cache"):
        found = [info for digest in layout.digests() if (info := describe_entry(layout, digest))]
    return tuple(sorted(found, key=lambda info: (info.kernel_name, info.digest)))


def describe_entry(layout: CacheLayout, digest: str) -> EntryInfo | None:
    """One entry, or None when it is not there.

    Raises:
        OSError: it cannot be read.
    """
    path = layout.entry(digest)
    try:
        meta = read_meta(path, digest)
        used = path.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None
    sound = None if isinstance(meta, Damage) else meta
    return EntryInfo(
        digest=digest,
        path=path,
        size=tree_size(path),
        used_ns=used,
        kernel_name=str(sound.parts["kernel_name"]) if sound else "",
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
        other_bytes=sum(tree_size(room) for room in (layout.locks, layout.toolchains, layout.sources, layout.prebuilt)),
    )


def children(path: Path) -> Iterator[Path]:
    """The members of a directory, sorted; none when it is missing.

    Raises:
        EnvironmentProblem: it cannot be read.
    """
    with as_environment_problem("listing the kernel cache"):
        yield from sorted(path.iterdir()) if path.is_dir() else ()

"""``fmha cache prune``: make room without removing anything that is in use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from fmha_cli.domain.members import Count, Digests, Hidden
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree, tree_size
from fmha_cli.toolchain.cache.layout import CacheLayout, children
from fmha_cli.toolchain.cache.listing import EntryInfo, list_entries
from fmha_cli.toolchain.cache.lock import try_lock
from fmha_cli.toolchain.cache.origin import without_entry
from fmha_cli.toolchain.cache.prebuilt import dangling

DAY_S = 86400.0


@dataclass(frozen=True)
class PrunePolicy:
    """The limits of a removal. By default, the leftovers of killed builds and the entries of older versions are removed.

    Attributes:
        max_age_s: remove entries that were not used for this many seconds; None keeps entries of any age.
        max_bytes: remove the least recently used entries until the rest is no larger; None sets no limit.
        quarantine: remove quarantined entries.
        failed: remove the logs of failed builds.
        tmp_age_s: remove temporary directories that were not touched for this many seconds.
        grace_s: keep entries that were used within this many seconds, whatever the limits: a worker that has just
            verified an entry is about to load it. The entries of an older version stay while any of them was used that recently.
        dry_run: remove nothing, only report.
    """

    max_age_s: float | None = None
    max_bytes: int | None = None
    quarantine: bool = False
    failed: bool = False
    tmp_age_s: float = DAY_S
    grace_s: float = 600.0
    dry_run: bool = False


@dataclass(frozen=True)
class Pruned:
    """The removed entries (or the ones to remove), and the ones that had to stay.

    Attributes:
        entries: the removed entries.
        freed_bytes: bytes of the entries and the others.
        kept_locked: digests that the policy would remove but that another process has locked.
        kept_recent: digests that the policy would remove but that were used within the grace time.
        others: other removed paths: the folders of older versions' entries, quarantined entries, logs of failed builds,
            temporary directories, and the names and origins of imported entries that no longer exist.
        dry_run: nothing was removed.
    """

    entries: Annotated[tuple[EntryInfo, ...], Hidden()]
    freed_bytes: Count
    kept_locked: Digests
    kept_recent: Digests
    others: Annotated[
        tuple[Path, ...],
        "what else was removed: older versions' entries, quarantined, failed and temporary things",
    ]
    dry_run: bool = False

    json_later: ClassVar[tuple[str, ...]] = ("dry_run",)


def prune_cache(layout: CacheLayout, policy: PrunePolicy, clock: Callable[[], float] = time.time) -> Pruned:
    """Remove the entries that the policy allows to remove. An entry disappears atomically: it is renamed first, then
    deleted.

    Locks and probe results stay, because a lock file that can be deleted protects nothing.

    Args:
        clock: seconds since 1970.

    Raises:
        EnvironmentProblem: the cache cannot be read or changed.
    """
    now = clock()
    removed, locked, recent = [], [], []
    with as_environment_problem("pruning the kernel cache"):
        for info in _pick_doomed(list_entries(layout), policy, now):
            if now - info.used_ns / 1e9 < policy.grace_s:
                recent.append(info.digest)
            elif policy.dry_run or _remove_entry(layout, info, policy, now):
                removed.append(info)
            else:
                locked.append(info.digest)
        others = _leftovers(layout, policy, now)
        freed = sum(info.size for info in removed) + sum(_size(path) for path in others)
        for path in () if policy.dry_run else others:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)
    return Pruned(tuple(removed), freed, tuple(locked), tuple(recent), tuple(others), policy.dry_run)


def _pick_doomed(entries: tuple[EntryInfo, ...], policy: PrunePolicy, now: float) -> list[EntryInfo]:
    """Entries to remove because of age or size, least recently used first."""
    by_use = sorted(entries, key=lambda info: (info.used_ns, info.digest))
    excess = sum(info.size for info in entries) - policy.max_bytes if policy.max_bytes is not None else 0
    doomed = []
    for info in by_use:
        too_old = policy.max_age_s is not None and now - info.used_ns / 1e9 > policy.max_age_s
        if too_old or excess > 0:
            doomed.append(info)
            excess -= info.size
    return doomed


def _remove_entry(layout: CacheLayout, info: EntryInfo, policy: PrunePolicy, now: float) -> bool:
    """Remove one entry under its lock; False when another process holds the lock or has just used the entry."""
    with try_lock(layout.lock(info.digest)) as held:
        if not held or now - _used(info.path) < policy.grace_s:
            return False
        away = layout.new_tmp()
        make_private_dir(away.parent)
        try:
            info.path.rename(away)
        except FileNotFoundError:
            return True
    remove_tree(away)
    return True


def _size(path: Path) -> int:
    return tree_size(path) if path.is_dir() else path.lstat().st_size


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _leftovers(layout: CacheLayout, policy: PrunePolicy, now: float) -> list[Path]:
    found = [path for path in children(layout.tmp) if now - _last_touched(path) > policy.tmp_age_s]
    # write_atomic gives files a leading dot until it renames them.
    unfinished = [path for path in children(layout.toolchains) if path.name.startswith(".")]
    found += [path for path in unfinished if now - _used(path) > policy.tmp_age_s]
    found += [path for path in layout.outdated if now - _last_touched(path) >= policy.grace_s]
    found += [*dangling(layout), *without_entry(layout)]
    found += children(layout.quarantine) if policy.quarantine else ()
    found += children(layout.failed) if policy.failed else ()
    return found


def _last_touched(path: Path) -> float:
    """When anything in a temporary directory last changed, in seconds since 1970."""
    times = [_used(path)]
    for folder, folders, names in os.walk(path):
        times += [_used(Path(folder, name)) for name in (*folders, *names)]
    return max(times)

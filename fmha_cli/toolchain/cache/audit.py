"""``fmha cache verify``: re-hash everything, report damaged entries, and move them away on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fmha_cli.domain.members import Count, Digests, Sha256
from fmha_cli.toolchain.cache.entry import Damage, verify_entry
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.lock import try_lock
from fmha_cli.toolchain.cache.origin import ArchiveOrigin, origin_of
from fmha_cli.toolchain.cache.publish import quarantine_if_damaged
from fmha_cli.toolchain.notice import Notify, log_notice


@dataclass(frozen=True)
class ImportedEntry:
    """An entry that an archive brought."""

    digest: Sha256
    origin: ArchiveOrigin


@dataclass(frozen=True)
class VerifyReport:
    """The result of a full check.

    Attributes:
        checked: number of entries that were hashed.
        damaged: entries that must not be loaded, with all reasons.
        quarantined: the new paths of damaged entries (``fix`` only).
        busy: digests of damaged entries that stayed because another process holds their lock.
        imported: entries that an archive brought. Nothing but the archive's maker vouches for them.
    """

    checked: Count
    damaged: tuple[Damage, ...]
    quarantined: Annotated[tuple[Path, ...], "where damaged entries were moved to"]
    busy: Annotated[Digests, "damaged, but somebody holds the lock"]
    imported: Annotated[tuple[ImportedEntry, ...], "brought by an archive; nobody here built them"]


def verify_cache(layout: CacheLayout, *, fix: bool = False, notify: Notify = log_notice) -> VerifyReport:
    """Re-hash every file of every entry.

    Args:
        fix: move damaged entries to ``quarantine/``, so their next use rebuilds them.

    Raises:
        EnvironmentProblem: the cache cannot be read or, with ``fix``, cannot be changed.
    """
    checked, damaged, moved, busy, imported = 0, [], [], [], []
    with as_environment_problem("verifying the kernel cache"):
        for digest in layout.digests():
            found = verify_entry(layout.entry(digest), digest)
            checked += found is not None
            if found is not None and (origin := origin_of(layout, digest)):
                imported.append(ImportedEntry(digest, origin))
            if not isinstance(found, Damage):
                continue
            damaged.append(found)
            if fix:
                with try_lock(layout.lock(digest)) as held:
                    away = quarantine_if_damaged(layout, digest, notify) if held else None
                moved += [away] if away else []
                busy += [] if held else [digest]
    return VerifyReport(checked, tuple(damaged), tuple(moved), tuple(busy), tuple(imported))

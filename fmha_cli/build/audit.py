"""``fmha cache verify``: re-hash everything, say what is damaged, move it away if asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.entry import Damage, verify_entry
from fmha_cli.build.files import as_environment_problem
from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.lock import try_lock
from fmha_cli.build.notice import Notify, log_notice
from fmha_cli.build.publish import quarantine_if_damaged


@dataclass(frozen=True)
class VerifyReport:
    """What a full check found.

    Attributes:
        checked: entries that were hashed.
        damaged: entries that must not be loaded, with all reasons.
        quarantined: where damaged entries were moved to (``fix`` only).
        busy: digests of damaged entries left alone because somebody holds their lock.
    """

    checked: int
    damaged: tuple[Damage, ...]
    quarantined: tuple[Path, ...]
    busy: tuple[str, ...]


def verify_cache(layout: CacheLayout, *, fix: bool = False, notify: Notify = log_notice) -> VerifyReport:
    """Re-hash every file of every entry.

    Args:
        fix: move damaged entries to ``quarantine/``, so that their next use rebuilds them.

    Raises:
        EnvironmentProblem: the cache cannot be read, or (``fix``) not be changed.
    """
    checked, damaged, moved, busy = 0, [], [], []
    with as_environment_problem("verifying the kernel cache"):
        for digest in layout.digests():
            found = _check(layout, digest)
            checked += found is not None
            if not isinstance(found, Damage):
                continue
            damaged.append(found)
            if fix:
                with try_lock(layout.lock(digest)) as held:
                    away = quarantine_if_damaged(layout, digest, notify) if held else None
                moved += [away] if away else []
                busy += [] if held else [digest]
    return VerifyReport(checked, tuple(damaged), tuple(moved), tuple(busy))


def _check(layout: CacheLayout, digest: str) -> object | None:
    """The entry's meta or damage; None when it has vanished since it was listed."""
    place = layout.entry(digest)
    try:
        return verify_entry(place, digest)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return Damage(digest, place, ("it is not a directory",))

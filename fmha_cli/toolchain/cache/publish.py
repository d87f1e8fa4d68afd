"""The two renames of the cache: a sealed entry into its place, and a damaged one out of it."""

from __future__ import annotations

import errno
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.system.files import sync_folder
from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, verify_entry
from fmha_cli.toolchain.cache.files import make_private_dir
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_TRIES = 5


def intact_entry(layout: CacheLayout, digest: str) -> EntryMeta | None:
    """The verified entry; None when it is missing or damaged. Changes nothing.

    Raises:
        OSError: the cache cannot be read.
    """
    found = verify_entry(layout.entry(digest), digest)
    return None if isinstance(found, Damage) else found


def publish_entry(layout: CacheLayout, entry: Path, digest: str, notify: Notify) -> EntryMeta | None:
    """Rename a sealed directory into place, durably.

    A damaged entry in its place is moved to ``quarantine/``.

    Returns:
        None, or the entry of another process that was first; ``entry`` then stays where it was.

    Raises:
        EnvironmentProblem: damaged entries keep appearing in its place.
        OSError: the cache cannot be written.
    """
    place = layout.entry(digest)
    make_private_dir(place.parent)
    for _ in range(_TRIES):
        try:
            entry.rename(place)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            sync_folder(place.parent)
            sync_folder(layout.entries)
            return None
        winner = intact_entry(layout, digest)
        if winner is not None:
            return winner
        quarantine_if_damaged(layout, digest, notify)
    raise EnvironmentProblem(
        "a kernel was built but could not be put into the cache",
        code="B003",
        where=str(place),
        why="something else keeps appearing in its place",
        help="check what else writes to the cache directory",
    )


def quarantine_if_damaged(layout: CacheLayout, digest: str, notify: Notify) -> Path | None:
    """Move an entry to ``quarantine/`` if it is damaged at this moment, and report why. Returns its new path.

    Hold the entry's lock if possible. Without it, an entry that another process has just repaired may be moved, which
    costs one more build.

    Raises:
        OSError: it is damaged and cannot be moved.
    """
    place = layout.entry(digest)
    found = verify_entry(place, digest)
    if not isinstance(found, Damage):
        return None
    away = layout.new_quarantine(digest)
    make_private_dir(away.parent)
    try:
        place.rename(away)
    except FileNotFoundError:
        return None
    reasons = "; ".join(found.reasons)
    notify(Notice(NoticeKind.QUARANTINED, f"damaged cache entry moved to {away}: {reasons}", digest))
    return away

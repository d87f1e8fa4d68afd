"""Files: flags, owners and modes that not every system has. A flag that a system lacks is 0."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

NOFOLLOW = int(getattr(os, "O_NOFOLLOW", 0))
"""Open no symlink. Windows opens one, but creating one there needs a privilege."""
NONBLOCK = int(getattr(os, "O_NONBLOCK", 0))
"""Do not wait for the other end of a pipe. Windows has no pipes in its file system."""
CLOEXEC = int(getattr(os, "O_CLOEXEC", 0)) | int(getattr(os, "O_NOINHERIT", 0))
NOCTTY = int(getattr(os, "O_NOCTTY", 0))
BINARY = int(getattr(os, "O_BINARY", 0))
"""Windows rewrites line ends without it."""
_DIRECTORY = getattr(os, "O_DIRECTORY", None)


def named_path(text: str | Path) -> Path:
    """The absolute path of a name that a user gave. A leading ``~`` is the home; ``~NAME`` of a user that the system does
    not know is a name like any other. ``..`` goes, but not behind a symlink to a folder, where it means that folder's parent."""
    given = Path(os.path.expanduser(text)).absolute()
    short = Path(os.path.abspath(given))
    return short if os.path.realpath(short) == os.path.realpath(given) else given


def user_id() -> int | None:
    """The user whose files these are; None where files have no numeric owner."""
    ask = getattr(os, "geteuid", None)
    return None if ask is None else int(ask())


def foreign_owner(status: os.stat_result) -> int | None:
    """The owner of a file, if it is not this user; None if that is unknown."""
    mine = user_id()
    return None if mine is None or status.st_uid == mine else status.st_uid


def writable_by_others(status: os.stat_result) -> bool:
    """Whether the file's mode lets others write. Windows has no such mode: folders of a user are the user's."""
    return user_id() is not None and bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def set_mode(descriptor: int, path: Path, mode: int) -> None:
    """The mode of an open file; where only a name has one (Windows), of the name."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    else:
        path.chmod(mode)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where a folder can be opened (not on Windows).

    Raises:
        OSError: it cannot be made durable.
    """
    if _DIRECTORY is None:
        return
    descriptor = os.open(path, os.O_RDONLY | _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_at_start(descriptor: int, data: bytes) -> None:
    """Replace the content of a small open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, data)
    with suppress(OSError):
        os.ftruncate(descriptor, len(data))


MOUNTS = Path("/proc/self/mountinfo")

_NETWORKS = (
    *(
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
    ),
    *("ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs"),
    *("fuse.ceph", "fuse.glusterfs", "fuse.gcsfuse", "fuse.mfs", "fuse.s3fs", "fuse.sshfs", "fuse.rclone"),
)
"""Names that Linux gives to file systems on which several machines may work at once."""


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The name of the network file system that holds a path, which need not exist; None for another kind, or if the
    system does not tell.

    Source: ``proc_pid_mountinfo(5)``: the fifth field is where it is mounted, and the type follows a lone hyphen.
    """
    if str(path).startswith("\\\\"):
        return "smb"
    try:
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place, longest, found = os.path.realpath(path), -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        mounted = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= longest:  # of two on one place, the later one is seen
            longest, found = len(mounted), kinds[0]
    return found if found in _NETWORKS else None

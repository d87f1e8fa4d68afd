"""The kind of file system that holds a path, where the system reports it (Linux)."""

from __future__ import annotations

import os
import re
from pathlib import Path

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

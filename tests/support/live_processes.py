"""Whether other processes still run. Linux alone lists them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie (in a container, nobody may reap an orphan).

    A process may end between the opening of its file and the reading, which then fails with ``ProcessLookupError``.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within a short time."""
    deadline = time.monotonic() + seconds
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not running(pid)


def group_members(group: int) -> Iterator[int]:
    """The live processes of a process group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and running(int(entry.name)):
            try:
                if os.getpgid(int(entry.name)) == group:
                    yield int(entry.name)
            except ProcessLookupError:
                continue

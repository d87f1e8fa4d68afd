"""How much memory a further process may use, on this machine and in this container."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that can be used without swapping: ``MemAvailable``, or what the cgroup leaves if that is less.

    None where the system does not tell.
    """
    found = [value for value in (_mem_available(meminfo), _cgroup_left(cgroup)) if value is not None]
    return min(found, default=None)


def _mem_available(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text("ascii", errors="replace").splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _cgroup_left(cgroup: Path) -> int | None:
    """Limit minus use of the control group (version 2); page cache that can be dropped does not count as use."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((cgroup / "memory.current").read_text())
        words = [line.split() for line in (cgroup / "memory.stat").read_text().splitlines()]
        droppable = sum(int(value) for name, value in words if name == "inactive_file")
        return max(0, int(limit) - used + droppable)
    except (OSError, ValueError):
        return None

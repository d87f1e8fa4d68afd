"""How much memory a further process may use, on this machine and in this container."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Bytes that can be used without swapping: the lesser of what the machine and this process's control group leave.

    Page cache that the system would give back counts as available. None where neither says.
    """
    left = [n for n in (_machine(proc), _group(proc, cgroups)) if n is not None]
    return max(0, min(left)) if left else None


def _machine(proc: Path) -> int | None:
    found = _table(proc / "meminfo").get("MemAvailable:")
    return None if found is None else found * 1024


def _group(proc: Path, cgroups: Path) -> int | None:
    """Limit minus use of the control group (version 2, else 1); in a container its own group is the root."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            names, base = ("memory.max", "memory.current", "inactive_file"), cgroups
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            base = cgroups / "memory"
        else:
            continue
        for folder in (base / path.lstrip("/"), base):
            limit, used = (_text(folder / name).strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                return int(limit) - int(used) + _table(folder / "memory.stat").get(names[2], 0)
    return None


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) >= 2 and row[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""

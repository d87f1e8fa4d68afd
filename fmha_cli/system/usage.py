"""The resources of processes, and limits on them: the module ``resource``, which Windows lacks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def _module() -> ModuleType | None:
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None


RESOURCE = _module()


def scale_of_peak() -> int:
    """Bytes of one unit of ``ru_maxrss``: macOS counts bytes, other systems KiB."""
    return 1 if sys.platform == "darwin" else 1024


def own_peak() -> int:
    """The largest resident size of this process in bytes; 0 where it is unknown."""
    return 0 if RESOURCE is None else int(RESOURCE.getrusage(RESOURCE.RUSAGE_SELF).ru_maxrss) * scale_of_peak()


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_from_here() -> int | None:
    """Forget the largest resident size of this process so far, and return its size now, in bytes; None where only Linux can
    (``proc(5)``: 5 in ``clear_refs``)."""
    try:
        _CLEAR.write_text("5", "ascii")
    except OSError:
        return None
    return resident_peak()


def resident_peak() -> int | None:
    """The largest resident size of this process since ``peak_from_here``, in bytes; None where it is unknown."""
    try:
        text = _STATUS.read_text("ascii")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith("VmHWM:")), None)
    return None if line is None else int(line.split()[1]) * 1024


def no_core_dumps() -> None:
    """A crash of this process leaves no core file: a sweep of crashing kernels must not fill the disk."""
    if RESOURCE is not None:
        hard = RESOURCE.getrlimit(RESOURCE.RLIMIT_CORE)[1]
        RESOURCE.setrlimit(RESOURCE.RLIMIT_CORE, (0, hard))

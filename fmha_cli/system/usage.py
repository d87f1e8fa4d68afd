"""The resources of processes, and limits on them: the module ``resource``, which Windows lacks; and the heap of the C library, on which
PyTorch and others allocate their results.

glibc gives freed memory back to the system depending on where it lies, and the next call faults it in again, page by page.
One process does that in every call and the next one in none: PyTorch's 8 MiB of O cost between 0 and 2,049 page faults, and
the same attention took 24 to 41 ms (results/comparing.md). Source: ``mallopt(3)``, ``malloc_trim(3)``.
"""

from __future__ import annotations

import ctypes
import importlib
import os
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


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def _glibc(name: str) -> ctypes._NamedFuncPointer | None:
    """A function of glibc; None with another C library."""
    return getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None


def keep_freed_memory() -> bool:
    """Keep freed memory in this process from now on. Returns whether the C library can."""
    set_option = _glibc("mallopt")
    return set_option is not None and bool(set_option(_M_TRIM_THRESHOLD, _NEVER) and set_option(_M_MMAP_MAX, 0))


def give_back() -> None:
    """Return free memory to the system, so the resident size is the memory in use."""
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))

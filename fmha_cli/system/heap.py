"""The heap of the C library, on which PyTorch and others allocate their results.

glibc gives freed memory back to the system depending on where it lies, and the next call faults it in again, page by page.
One process does that in every call and the next one in none: PyTorch's 8 MiB of O cost between 0 and 2,049 page faults, and
the same attention took 24 to 41 ms (results/comparing.md). Source: ``mallopt(3)``, ``malloc_trim(3)``.
"""

from __future__ import annotations

import ctypes
import os

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

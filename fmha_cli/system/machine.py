"""The machine: cores, memory and a C library's answers, where the system reports them.

``ctypes`` is imported by the functions that need it: most commands need no foreign functions.
"""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Number of logical cores that this process may use (``sched_getaffinity`` is Linux's), at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Bytes of main memory; 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return _windows_memory()


def _windows_memory() -> int:
    """``GlobalMemoryStatusEx`` of sysinfoapi.h: two 32-bit members, then seven of 64 bits, the first of them the total."""
    import ctypes

    loader = getattr(ctypes, "windll", None)
    if loader is None:
        return 0
    status = (ctypes.c_uint64 * 8)()
    status[0] = ctypes.sizeof(status)
    return int(status[1]) if loader.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else 0


def kernel_number(name: bytes) -> int:
    """An integer that macOS's kernel knows by a name (``sysctlbyname``); 0 where it does not know it."""
    import ctypes

    try:
        ask = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    except (OSError, TypeError):  # on Windows no library is without a name
        return 0
    value = ctypes.c_int32(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    known = ask is not None and ask(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0
    return value.value if known else 0


def platform_text() -> str:
    """What ``platform.platform()`` says. On Linux without the process that it starts to learn a name which it leaves out."""
    import platform

    if platform.system() != "Linux":
        return platform.platform()
    libc = "".join(platform.libc_ver())
    return "-".join(filter(None, ("Linux", platform.release(), platform.machine(), libc and f"with-{libc}")))

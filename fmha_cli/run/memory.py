"""Shared memory between parent and worker: an anonymous file that both map."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress

from fmha_cli.domain.device import available_bytes
from fmha_cli.domain.quantities import size as in_words

HUGE = 16 << 20
"""Bytes from which a mapping asks for pages of 2 MiB. Full attention gained 3 to 4 % by them in the best of 15 to 35 rounds of 1,024
rows, causal attention nothing."""


def shared_file(size: int, *, also: int = 0) -> int:
    """A descriptor of an anonymous file of ``size`` zero bytes (close-on-exec); the caller closes it.

    If the system has ``memfd_create``, the file is in memory; otherwise it is an unlinked temporary file. The system
    allocates its pages when they are first touched and may then kill a process to make room, so a size that cannot fit
    is refused in advance.

    Args:
        also: bytes that the caller is going to need as well.

    Raises:
        MemoryError: there is too little memory, or too little room in the file system.
    """
    free = available_bytes()
    if free is not None and size + also > free:
        raise MemoryError(f"at least {in_words(size + also)} are needed, {in_words(free)} are available")
    fd = -1
    try:
        fd = os.memfd_create("fmha-arena", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else _unlinked()
        os.ftruncate(fd, size)
    except OSError as fault:
        if fd >= 0:
            os.close(fd)
        raise MemoryError(f"no shared memory of {in_words(size)}: {fault}") from fault
    return fd


def _unlinked() -> int:
    with tempfile.TemporaryFile(prefix="fmha-arena-") as file:
        return os.dup(file.fileno())


def map_shared(fd: int, size: int) -> mmap.mmap:
    """Map a shared file for reading and writing. A large one asks for huge pages, which the system may refuse.

    Raises:
        MemoryError: the address space or memory does not suffice.
    """
    try:
        mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as fault:
        raise MemoryError(f"mapping {in_words(size)} of shared memory: {fault}") from fault
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system that does not have them says so
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping

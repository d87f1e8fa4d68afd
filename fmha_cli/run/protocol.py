"""What parent and worker share: framed JSON lines over a private socket, and an anonymous file that both map.

A frame is ``FMHA``, eight hex digits (length of the payload in bytes), a space, the payload (a JSON object in
ASCII), a newline. Anything else on the channel is a :class:`ProtocolError`, so a kernel that writes to foreign
descriptors is detected and never misread.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import tempfile
from contextlib import suppress
from enum import StrEnum
from typing import Any

from fmha_cli.domain.device import available_bytes
from fmha_cli.domain.quantities import size as in_words

VERSION = 5
"""Raised when requests or answers change their meaning; the worker states it in its first answer."""

LIMIT = 64 * 1024 * 1024
"""Bytes of the longest payload; samples of a million launches fit."""

_MAGIC = b"FMHA"
_HEAD = re.compile(rb"FMHA([0-9a-f]{8}) ")
_HEADER = len(_MAGIC) + 8 + 1

Message = dict[str, Any]


class Failure(StrEnum):
    """The reason why a request failed without killing the worker."""

    KERNEL = "kernel"
    """It did not load or launch (``KernelFailure``, ``OSError`` of the loader, anything raised while loading)."""
    LOST = "lost"
    """The device's context is dead (``DeviceLost``): the worker ends after this answer."""
    MEMORY = "memory"
    """Out of memory."""
    ENVIRONMENT = "environment"
    """The device, its runtime or the backend is missing."""
    EXCEPTION = "exception"
    """The backend raised an error that is not allowed while running."""


class ProtocolError(Exception):
    """Bytes on the channel that are not a frame."""


def encode(message: Message) -> bytes:
    """One frame.

    Raises:
        ProtocolError: a payload beyond the limit.
    """
    payload = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if len(payload) > LIMIT:
        raise ProtocolError(f"a message of {len(payload)} bytes")
    return b"%s%08x %s\n" % (_MAGIC, len(payload), payload)


class Decoder:
    """Turns a stream of bytes, cut anywhere, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that ``data`` completes.

        Raises:
            ProtocolError: the stream does not consist of frames; the decoder must not be used again.
        """
        self._buffer += data
        return list(iter(self._next, None))

    def _next(self) -> Message | None:
        head = bytes(self._buffer[:_HEADER])
        exact = _HEAD.fullmatch(head)
        if exact is None and (len(head) == _HEADER or not _MAGIC.startswith(head[: len(_MAGIC)])):
            raise ProtocolError(f"{head!r} is not a frame")
        length = int(exact[1], 16) if exact else 0
        if length > LIMIT:
            raise ProtocolError(f"a message of {length} bytes")
        if exact is None or len(self._buffer) <= _HEADER + length:
            return None
        payload = bytes(self._buffer[_HEADER : _HEADER + length])
        if self._buffer[_HEADER + length] != ord("\n"):
            raise ProtocolError("a frame without an end")
        del self._buffer[: _HEADER + length + 1]
        try:
            message = json.loads(payload)
        except ValueError as fault:
            raise ProtocolError(f"a frame without JSON: {fault}") from fault
        if not isinstance(message, dict):
            raise ProtocolError("a frame that is not an object")
        return message


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

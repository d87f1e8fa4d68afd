"""Messages between parent and worker: framed JSON lines over a private socket.

A frame is ``FMHA``, eight hex digits (length of the payload in bytes), a space, the payload (a JSON object in
ASCII), a newline. Anything else on the channel is a :class:`ProtocolError`, so a kernel that writes to foreign
descriptors is detected and never misread.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

VERSION = 3
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

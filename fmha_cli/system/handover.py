"""How a parent hands open files to its worker: descriptors over a Unix socket. Windows has neither."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

WHY_NOT = (
    "this system passes no open files between processes (socket.send_fds), through which the worker gets its tensors"
)
HELP = "Linux and macOS do; on Windows, use the Windows Subsystem for Linux"


def possible() -> bool:
    """Whether a worker process can be started and given memory on this system."""
    return hasattr(socket, "send_fds") and hasattr(os, "set_blocking")


def send(channel: socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
    """Send bytes with open files; returns how many bytes went."""
    return socket.send_fds(channel, [data], list(descriptors))


def receive(channel: socket.socket, most: int, files: int) -> tuple[bytes, list[int]]:
    """Bytes, and the open files that came with them; no bytes at the end of the channel."""
    data, descriptors, _, _ = socket.recv_fds(channel, most, files)
    return data, descriptors

"""Device memory for numpy models of kernels: addressed allocations and strided tiles of them."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]


class BadAddress(Exception):
    """A kernel touched bytes outside every allocation."""


class Memory(Protocol):
    """The memory that the model reads and writes."""

    def bytes_at(self, address: int, size: int) -> Bytes:
        """A writable view.

        Raises:
            BadAddress: the bytes are not all in one allocation.
        """


class Image:
    """Allocations that are numpy arrays of bytes, each at an address that the tests choose."""

    def __init__(self, first: int = 0x7F00_0000_0000) -> None:
        self._next = first
        self._starts: list[int] = []
        self._blocks: list[Bytes] = []
        self._parts: list[tuple[tuple[int, int], ...]] = []

    def add(self, content: Bytes, parts: Sequence[tuple[int, int]] | None = None) -> int:
        """Register the array as an allocation without a copy. Returns its address.

        Args:
            parts: the byte ranges (start, end) that alone may be touched; by default all of it.
        """
        address = self._next
        self._parts.append(((0, len(content)),) if parts is None else tuple(sorted(parts)))
        self._starts.append(address)
        self._blocks.append(content)
        self._next += -(-len(content) // 4096) * 4096 + 4096
        return address

    def bytes_at(self, address: int, size: int) -> Bytes:
        at = bisect_right(self._starts, address) - 1
        offset = address - self._starts[at] if at >= 0 else -1
        if at < 0 or offset + size > len(self._blocks[at]):
            raise BadAddress(f"{size} bytes at {address:#x}")
        part = bisect_right(self._parts[at], offset, key=lambda part: part[0]) - 1
        if size and (part < 0 or offset + size > self._parts[at][part][1]):
            raise BadAddress(f"{size} bytes at offset {offset}, outside every tensor")
        return self._blocks[at][offset : offset + size]


class HostMemory:
    """The memory of this process, for a stand-in driver whose device memory is host memory. Nothing is checked."""

    def bytes_at(self, address: int, size: int) -> Bytes:
        return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def tile(memory: Memory, address: int, dtype: npt.DTypeLike, rows: int, stride: int, columns: int) -> Array:
    """(rows, columns) at an address, rows ``stride`` elements apart; a writable view."""
    item = np.dtype(dtype).itemsize
    if rows <= 0 or columns <= 0:
        return np.zeros((max(rows, 0), max(columns, 0)), dtype)
    reach = (rows - 1) * stride
    low, high = min(reach, 0), max(reach, 0) + columns
    held = memory.bytes_at(address + low * item, (high - low) * item)
    start = held[-low * item :].view(dtype)
    return np.lib.stride_tricks.as_strided(start, (rows, columns), (stride * item, item))


def values(memory: Memory, address: int, dtype: npt.DTypeLike, count: int) -> Array:
    """(count,) at an address; a writable view."""
    return tile(memory, address, dtype, 1, 0, count)[0]


def integer(memory: Memory, address: int, index: int) -> int:
    """One int32 element of an array."""
    return int(values(memory, address + 4 * index, np.int32, 1)[0])

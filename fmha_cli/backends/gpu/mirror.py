"""``Mirror``: a device copy of the host's arena, guards and gaps included, and the other allocations of a binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fmha_cli.backends.gpu.arena_views import Array, Bytes
from fmha_cli.backends.gpu.driver import Driver

ALIGN = 256
"""Alignment in bytes. The vendors' allocators guarantee it, and arrays that share an allocation keep it."""
EVICTION_FACTOR = 2


class Mirror:
    """The device's side of one binding.

    Args:
        memory: the vendor's calls.
        arena: the host's arena, which is read and written in place.

    Raises:
        MemoryError: out of device memory. The methods that allocate raise it too.
    """

    def __init__(self, memory: Driver, arena: memoryview) -> None:
        self._memory = memory
        self._allocations: list[int] = []
        self._evictor = (0, 0)
        self.host: Bytes = np.frombuffer(arena, np.uint8)
        self.base = self.allocate(arena.nbytes)
        """Device address of the arena's first byte."""

    def allocate(self, size: int) -> int:
        """Address of memory that lives as long as the mirror."""
        address = self._memory.malloc(size)
        self._allocations.append(address)
        return address

    def places(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Addresses for arrays, in one allocation. The arrays are not copied."""
        place = self.allocate(sum(_align(array.nbytes) for array in arrays.values())) if arrays else 0
        out: dict[str, int] = {}
        for name, array in arrays.items():
            out[name] = place
            place += _align(array.nbytes)
        return out

    def upload(self) -> None:
        """Copy the whole arena from host to device."""
        self.write(self.base, self.host)

    def write(self, address: int, array: Array) -> None:
        """Copy an array to a device address. An array without elements needs no copy."""
        dense = np.ascontiguousarray(array)
        if dense.nbytes:
            self._memory.copy_in(address, dense.ctypes.data, dense.nbytes)

    def download(self) -> None:
        """Copy the whole arena from device to host."""
        self._memory.copy_out(self.host.ctypes.data, self.base, self.host.nbytes)

    def evict(self, cache_bytes: int, stream: Any) -> None:
        """Write twice the size of the last-level cache, in the stream's order."""
        address, size = self._evictor
        if not size:
            size = EVICTION_FACTOR * cache_bytes
            address = self.allocate(size)
            self._evictor = (address, size)
        self._memory.fill(address, 1, size, stream)

    def close(self) -> None:
        """Free all device memory."""
        for address in self._allocations:
            self._memory.free(address)
        self._allocations, self._evictor = [], (0, 0)


def _align(size: int) -> int:
    return -(-size // ALIGN) * ALIGN

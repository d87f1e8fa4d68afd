"""The instructions that move data, by their names in each generation, with a numpy model of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LANES = 64


@dataclass(frozen=True)
class Kind:
    """One width. ``half``: the 16 bits of the register that a d16 form touches (None: all of it)."""

    cdna: str
    rdna: str
    bytes: int
    signed: bool = False
    half: int | None = None

    def name(self, arch: str) -> str:
        """Its suffix on an architecture."""
        return self.rdna if arch.startswith("gfx1") else self.cdna

    @property
    def dwords(self) -> int:
        """The number of registers that it touches."""
        return max(1, self.bytes // 4)

    def loaded(self, memory: npt.NDArray[np.uint8], offset: int, old: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The registers of a lane after it reads at ``offset``; ``old`` is their previous content."""
        data = memory[offset : offset + self.bytes]
        if self.bytes >= 4:
            return data.view(np.uint32).copy()
        value = int.from_bytes(data.tobytes(), "little", signed=self.signed)
        if self.half is None:
            return np.array([value & 0xFFFFFFFF], np.uint32)
        kept = int(old[0]) & (0xFFFF0000 if self.half == 0 else 0xFFFF)
        return np.array([kept | (value & 0xFFFF) << (16 * self.half)], np.uint32)

    def stored(self, registers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        """The bytes that a lane writes."""
        data = np.ascontiguousarray(registers).view(np.uint8)
        first = 2 * (self.half or 0)
        return data[first : first + self.bytes]


LOADS = (
    Kind("ubyte", "u8", 1),
    Kind("sbyte", "i8", 1, signed=True),
    Kind("ushort", "u16", 2),
    Kind("sshort", "i16", 2, signed=True),
    Kind("dword", "b32", 4),
    Kind("dwordx2", "b64", 8),
    Kind("dwordx3", "b96", 12),
    Kind("dwordx4", "b128", 16),
    Kind("ubyte_d16", "d16_u8", 1, half=0),
    Kind("sbyte_d16", "d16_i8", 1, signed=True, half=0),
    Kind("short_d16", "d16_b16", 2, half=0),
    Kind("ubyte_d16_hi", "d16_hi_u8", 1, half=1),
    Kind("sbyte_d16_hi", "d16_hi_i8", 1, signed=True, half=1),
    Kind("short_d16_hi", "d16_hi_b16", 2, half=1),
)
STORES = (
    Kind("byte", "b8", 1),
    Kind("short", "b16", 2),
    Kind("dword", "b32", 4),
    Kind("dwordx2", "b64", 8),
    Kind("dwordx3", "b96", 12),
    Kind("dwordx4", "b128", 16),
    Kind("byte_d16_hi", "d16_hi_b8", 1, half=1),
    Kind("short_d16_hi", "d16_hi_b16", 2, half=1),
)


def registers(first: int, count: int) -> str:
    """``v4`` or ``v[4:7]``."""
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def random_rows(seed: int, rows: int) -> npt.NDArray[np.uint32]:
    """Rows of 64 random dwords."""
    return np.random.default_rng(seed).integers(0, 2**32, (rows, LANES), np.uint64).astype(np.uint32)


def active(mask: int, lanes: int) -> list[int]:
    """The active lanes of a mask."""
    return [lane for lane in range(lanes) if mask >> lane & 1]

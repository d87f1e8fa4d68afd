"""Where matrix instructions hold their elements, and what the codes of their formats mean, in numpy only.

The formulas are the ones that AMD's matrix instruction calculator prints (A[i][k], B[k][j], D[i][j] by register and
lane).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Number:
    """An element format: its bits, and the type that defines its codes (None: integers)."""

    bits: int
    type: Any = None
    signed: bool = True

    def decode(self, codes: Array) -> Array:
        """Codes as float64."""
        if self.type is None:
            top = 1 << self.bits - 1
            return np.asarray((codes.astype(np.int64) ^ top) - top if self.signed else codes, np.float64)
        unsigned = {4: np.uint8, 6: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[self.bits]
        return np.asarray(np.asarray(codes, unsigned).view(self.type), np.float64)

    def encode(self, values: Array) -> Array:
        """The codes of values, rounded to the nearest that the format holds."""
        if self.type is None:
            return np.asarray(values, np.int64).astype(np.uint64) & np.uint64((1 << self.bits) - 1)
        typed = np.asarray(values, np.float64).astype(self.type)
        return typed.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[typed.itemsize]).astype(np.uint64)


NUMBERS = {
    "f32": Number(32, np.float32), "f16": Number(16, np.float16), "bf16": Number(16, ml_dtypes.bfloat16),
    "f64": Number(64, np.float64), "i32": Number(32), "i8": Number(8), "u8": Number(8, signed=False), "i4": Number(4),
    "u4": Number(4, signed=False), "fp8": Number(8, ml_dtypes.float8_e4m3fn), "bf8": Number(8, ml_dtypes.float8_e5m2),
    "fp8_fnuz": Number(8, ml_dtypes.float8_e4m3fnuz), "bf8_fnuz": Number(8, ml_dtypes.float8_e5m2fnuz),
    "fp6": Number(6, ml_dtypes.float6_e2m3fn), "bf6": Number(6, ml_dtypes.float6_e3m2fn),
    "fp4": Number(4, ml_dtypes.float4_e2m1fn),
}  # fmt: skip


def number(name: str, arch: str) -> Number:
    """The format by name; fp8 and bf8 are FNUZ on gfx942."""
    return NUMBERS[f"{name}_fnuz" if name in ("fp8", "bf8") and arch == "gfx942" else name]


def pack(codes: Array, lane: Array, element: Array, bits: int, elements: int, lanes: int = 64) -> Array:
    """Registers (count, 64) with the codes at their lanes and elements, packed from bit 0 on."""
    words = np.zeros((-(-elements * bits // 32) + 1, 64), np.uint64)
    lane, element, codes = (np.broadcast_to(x, codes.shape).ravel() for x in (lane, element, codes))
    bit = element * bits
    placed = codes.astype(np.uint64) << (bit % 32).astype(np.uint64)
    np.bitwise_or.at(words, (bit // 32, lane), placed & np.uint64(0xFFFFFFFF))
    if bits <= 32:
        np.bitwise_or.at(words, (bit // 32 + 1, lane), placed >> np.uint64(32))
    else:
        np.bitwise_or.at(words, (bit // 32 + 1, lane), codes.astype(np.uint64) >> np.uint64(32))
    return words[:-1].astype(np.uint32)


def unpack(words: Array, lane: Array, element: Array, bits: int) -> Array:
    """The codes at places, from registers (count, 64)."""
    bit = element * bits
    code = words[bit // 32, lane].astype(np.uint64) >> (bit % 32).astype(np.uint64)
    if bits == 64:
        code = code | words[bit // 32 + 1, lane].astype(np.uint64) << np.uint64(32)
    return np.asarray(code & np.uint64((1 << bits) - 1))


Places = Callable[..., tuple[Array, Array]]


@dataclass(frozen=True)
class Shape:
    """A dense product of CDNA: D (n, n) += A (n, k) B (k, n) in each block."""

    n: int
    k: int
    blocks: int = 1

    @property
    def held(self) -> int:
        """The number of elements of A in a lane."""
        return self.n * self.k * self.blocks // 64

    @property
    def results(self) -> int:
        """The number of results in a lane."""
        return self.n * self.n * self.blocks // 64

    def source(self, block: Array, i: Array, k: Array) -> tuple[Array, Array]:
        """The lane and element of A[i][k] or of B[k][i]."""
        group = k // self.held if self.blocks == 1 else block
        return self.n * group + i, k % self.held + 0 * i

    def result(self, block: Array, i: Array, j: Array) -> tuple[Array, Array]:
        """The lane and register of D[i][j]."""
        if self.n == 32:
            return 32 * (i // 4 % 2) + j, 16 * block + 4 * (i // 8) + i % 4
        if self.n == 16:
            return 16 * (i // 4) + j, 4 * block + i % 4
        return 4 * block + j, i + 0 * j


def places(shape: Any, rows: int, columns: int, where: Places) -> tuple[Array, Array]:
    """The lanes and elements of a (blocks, rows, columns) array."""
    return where(*np.indices((shape.blocks, rows, columns)))

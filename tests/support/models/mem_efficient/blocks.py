"""What the models of both memory-efficient kernels share: C++ integers, loads and stores in whole units, dropout.

Written from the device code of xformers 0.0.28.post3 and its CUTLASS. The only product code used is the layout of the
parameter blocks and the table of the kernels' template arguments.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.codegen.mem_efficient.algorithm import MemEffAlgorithm
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Need
from fmha_cli.oracle.dropout import philox4x32
from tests.support.models.kernel_memory import Array, BadAddress, Memory, tile

F32 = npt.NDArray[np.float32]
INF = np.float32(np.inf)
LOG2_E = np.float32(1.4426950408889634)
NONE, TOP_LEFT, BOTTOM_RIGHT = 0, 1, 2
ELEMENTS = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
VECTOR = 16
"""Bytes of the largest load or store."""


class Flags:
    """Template arguments of a kernel, and the constants that its template derives from them, by upstream's names."""

    def __init__(self, kernel: KernelSpec) -> None:
        s, a = kernel.signature, kernel.algorithm
        assert isinstance(a, MemEffAlgorithm)
        self.element = ELEMENTS[s.dtype.value]
        self.item = self.element.itemsize
        self.half = self.item == 2
        self.forward = kernel.family is Family.FWD
        self.rows, self.keys = a.tile
        self.max_k, self.seq_aligned, self.drops = a.max_k, a.seq_aligned, s.dropout is Need.ANY
        tensor_cores = a.tag >= 80 or (self.half and a.tag >= 75)
        self.widest = VECTOR // self.item if tensor_cores else 1
        smallest = 4 if tensor_cores else 1
        self.load = self.widest if a.aligned else smallest
        # Forward epilogues convert from fp32, so they store as many elements as an fp32 vector holds.
        self.store = (4 if tensor_cores else 1) if self.forward else self.widest
        self.in_registers = a.max_k <= (self.keys if self.forward else self.rows) and (self.forward or self.half)
        self.accumulates = self.half and not self.in_registers
        self.computes_delta = self.half

    def rounded(self, values: Array) -> F32:
        """Values as the element type holds them."""
        out: F32 = values.astype(self.element).astype(np.float32)
        return out


def u32(value: int) -> int:
    """The value of an unsigned 32-bit expression."""
    return value & 0xFFFFFFFF


def i32(value: int) -> int:
    """The value of a signed 32-bit expression that wraps."""
    return (value + 2**31 & 0xFFFFFFFF) - 2**31


def quotient(a: int, b: int) -> int:
    """C++ integer division: rounds towards zero."""
    return a // b if a >= 0 else -(-a // b)


def up(value: int, step: int) -> int:
    return -(-value // step) * step


def units(
    f: Flags, memory: Memory, address: int, stride: int, rows: int, columns: int, unit: int, dtype: npt.DTypeLike = None
) -> Array:
    """(rows, columns rounded up to whole units) of memory, a writable view: what a predicated iterator touches.

    Raises:
        BadAddress: a unit is not aligned, or outside what the kernel may touch.
    """
    element = np.dtype(dtype or f.element)
    size = unit * element.itemsize
    if rows > 0 and columns > 0 and (address % size or (rows > 1 and stride * element.itemsize % size)):
        raise BadAddress(f"a unit of {size} bytes at {address:#x}, rows {stride * element.itemsize} bytes apart")
    return tile(memory, address, element, rows, stride, up(columns, unit))


def loaded(f: Flags, memory: Memory, address: int, stride: int, rows: int, columns: int, height: int) -> F32:
    """(height, whole units) in single precision, with zeros from ``rows`` on. Columns past the end are what memory holds."""
    out = np.zeros((height, up(columns, f.load)), np.float32)
    out[: max(rows, 0)] = units(f, memory, address, stride, rows, columns, f.load).astype(np.float32)
    return out


def bias_tile(f: Flags, memory: Memory, address: int, stride: int, rows: int, keys: int) -> F32:
    """(kQueries, kKeys) of a bias, loaded in vectors; zeros outside."""
    out = np.zeros((f.rows, f.keys), np.float32)
    found = units(f, memory, address, stride, rows, keys, VECTOR // f.item)
    out[:rows, : min(found.shape[1], f.keys)] = found[:, : f.keys].astype(np.float32)
    return out


def uniforms(seed: int, start: int, words: npt.NDArray[np.int64]) -> F32:
    """``curand_uniform4`` of the words that lie ``words`` after ``curand_init(seed, 0, start)``."""
    at = np.uint64(start % 4) + words.astype(np.uint64)
    quad = np.uint64(start // 4) + at // np.uint64(4)
    zero = np.zeros_like(quad)
    four = philox4x32(
        (quad & np.uint64(0xFFFFFFFF), quad >> np.uint64(32), zero, zero), (seed & 0xFFFFFFFF, seed >> 32)
    )
    chosen = np.choose((at % np.uint64(4)).astype(np.int64), four)
    out: F32 = chosen.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return out


def dropout_scale(p: Any) -> np.float32:
    return np.float32(1.0 / (1.0 - float(p.dropout_prob)))

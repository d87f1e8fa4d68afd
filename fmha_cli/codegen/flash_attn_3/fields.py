"""Types of fields that several argument blocks of FlashAttention-3 have, and nested structs as rows of fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ctypes import c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Annotated, Any

from fmha_cli.codegen.struct import CType, Int32, Pointer, record

TMA_BYTES, TMA_ALIGN = 192, 64
"""A ``TiledCopy`` of TMA under NVRTC, where CuTe itself declares the descriptor."""
Divmod = record("cutlass::FastDivmod", divisor=c_int32, multiplier=c_uint32, shift_right=c_uint32)
MAP = Annotated[Any, CType("TiledCopy", c_uint64 * (TMA_BYTES // 8), TMA_ALIGN)]
HARDWARE = Annotated[tuple[int, ...], CType("cutlass::KernelHardwareInfo", c_int32 * 9, TMA_ALIGN)]
PLAIN_HARDWARE = Annotated[tuple[int, ...], CType("cutlass::KernelHardwareInfo", c_int32 * 9)]
FIRST = Annotated[int, CType("void*", c_void_p, TMA_ALIGN)]
NOTHING = Annotated[int, CType("std::nullptr_t", c_void_p)]
FIRST_INT = Annotated[int, CType("int", c_int32, 8)]
"""Begins a struct with pointers."""
NO_DIVMOD = (1, 0, 0)
Row = tuple[Any, str, Any]
"""The type of some fields, their names, and their default."""


def ints(count: int) -> Any:
    return Annotated[tuple[int, ...], CType(f"cute::Shape of {count}", c_int32 * count)]


def strides(count: int) -> Any:
    return Annotated[tuple[int, ...], CType(f"cute::Stride of {count}", c_int64 * count)]


def zeros(count: int) -> tuple[int, ...]:
    return (0,) * count


def shape(names: str, count: int) -> Row:
    return ints(count), names, zeros(count)


def stride(names: str, count: int) -> Row:
    return strides(count), names, zeros(count)


def members(struct: str, rows: Iterable[Row]) -> Iterator[Row]:
    """The fields of a nested struct."""
    for kind, names, default in rows:
        yield kind, " ".join(f"{struct}__{name}" for name in names.split()), default


SINGLE_TILE: tuple[Row, ...] = (
    (FIRST_INT, "num_blocks", 0),
    (Int32, "num_head num_batch num_splits qhead_per_khead seqlen", 0),
    (Divmod, "nsplits_divmod", NO_DIVMOD),
    (Pointer, "cu_seqlens seqused num_splits_dynamic_ptr", 0),
)
"""``SingleTileScheduler::Params``."""

"""TMA descriptors as the stand-in driver encodes them (``tensor_map.hpp`` of the PTX emulator): written and read in Python."""

from __future__ import annotations

import struct

from fmha_cli.backends.cuda.tensor_maps import BYTES, TensorMap

_FORM = struct.Struct("<Q4Q5I5H5B")
_TYPES = {"FLOAT16": 6, "FLOAT32": 7, "BFLOAT16": 9}
_SWIZZLES = ("NONE", "32B", "64B", "128B")
_PROMOTIONS = ("NONE", "L2_64B", "L2_128B", "L2_256B")
_FILLS = ("NONE", "NAN_REQUEST_ZERO_FMA")


def _full(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*numbers, *(0,) * (count - len(numbers)))


def played_map(wanted: TensorMap) -> bytes:
    """The bytes that the stand-in makes of a descriptor. Nothing is checked."""
    numbers = (*_full(wanted.strides, 4), *_full(wanted.shape, 5), *_full(wanted.box, 5))
    words = (_SWIZZLES.index(wanted.swizzle), _PROMOTIONS.index(wanted.promotion), _FILLS.index(wanted.fill))
    return _FORM.pack(wanted.address, *numbers, _TYPES[wanted.element], len(wanted.shape), *words).ljust(BYTES, b"\0")


def read_map(data: bytes) -> TensorMap:
    """What such bytes describe.

    Raises:
        ValueError: they are none of these descriptors.
    """
    address, *numbers = _FORM.unpack_from(data)
    kind, rank, swizzle, promotion, fill = numbers[14:]
    names = {number: name for name, number in _TYPES.items()}
    if kind not in names or not 1 <= rank <= 5 or any(data[_FORM.size :]):
        raise ValueError("these bytes are no TMA descriptor of the stand-in")
    return TensorMap(
        address=address,
        element=names[kind],
        strides=tuple(numbers[: rank - 1]),
        shape=tuple(numbers[4 : 4 + rank]),
        box=tuple(numbers[9 : 9 + rank]),
        swizzle=_SWIZZLES[swizzle],
        promotion=_PROMOTIONS[promotion],
        fill=_FILLS[fill],
    )

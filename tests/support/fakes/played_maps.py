"""TMA descriptors as the stand-in driver encodes them (``tensor_map.hpp`` of the PTX emulator): written and read in Python."""

from __future__ import annotations

import struct

from fmha_cli.backends.cuda.tensor_maps import BYTES, TensorMap

_FORM = struct.Struct("<2Q4Q5I5H6B")
_MARK = 0x70614D726F736E54
_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Element sizes by the number of the type, UINT8 to TFLOAT32_FTZ."""
_TYPES = {"FLOAT16": 6, "FLOAT32": 7, "BFLOAT16": 9}
_SWIZZLES = ("NONE", "32B", "64B", "128B")
_PROMOTIONS = ("NONE", "L2_64B", "L2_128B", "L2_256B")
_FILLS = ("NONE", "NAN_REQUEST_ZERO_FMA")


def _full(numbers: tuple[int, ...], count: int, rest: int = 0) -> tuple[int, ...]:
    return (*numbers, *(rest,) * (count - len(numbers)))


def played_map(wanted: TensorMap) -> bytes:
    """The bytes that the stand-in makes of a descriptor. Nothing is checked."""
    last = tuple(size - 1 for size in wanted.shape)
    numbers = (*_full(wanted.strides, 4), *_full(last, 5), *_full(wanted.box, 5, 1))
    kind, swizzle = _TYPES[wanted.element], 16 << _SWIZZLES.index(wanted.swizzle)
    words = (kind, _BYTES[kind], swizzle, _FILLS.index(wanted.fill), _PROMOTIONS.index(wanted.promotion))
    return _FORM.pack(_MARK, wanted.address, *numbers, len(wanted.shape), *words).ljust(BYTES, b"\0")


def read_map(data: bytes) -> TensorMap:
    """The content of such bytes.

    Raises:
        ValueError: they are none of these descriptors.
    """
    mark, address, *numbers = _FORM.unpack_from(data)
    rank, kind, item, swizzle, fill, promotion = numbers[14:]
    names = {number: name for name, number in _TYPES.items()}
    if mark != _MARK or kind not in names or item != _BYTES[kind] or not 1 <= rank <= 5 or any(data[_FORM.size :]):
        raise ValueError("these bytes are no TMA descriptor of the stand-in")
    return TensorMap(
        address=address,
        element=names[kind],
        strides=tuple(numbers[: rank - 1]),
        shape=tuple(number + 1 for number in numbers[4 : 4 + rank]),
        box=tuple(numbers[9 : 9 + rank]),
        swizzle=_SWIZZLES[swizzle.bit_length() - 5],
        promotion=_PROMOTIONS[promotion],
        fill=_FILLS[fill],
    )

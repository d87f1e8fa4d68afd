"""TMA descriptors (``CUtensorMap``): their content, and their bytes, which only the driver can make.

cuda-python's own call is not used. It encodes into a Python object, whose address is not always a multiple of 64 as
``cuTensorMapEncodeTiled`` requires.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.gpu.call import Call
from fmha_cli.domain.tensors import Element

NAME = b"cuTensorMapEncodeTiled"
SINCE = 12000
"""The driver's release that introduced the call, as ``cuDriverGetVersion`` counts."""
WORDS, BYTES, ALIGN = 16, 128, 64
_ENUMS = (
    "CUtensorMapDataType CU_TENSOR_MAP_DATA_TYPE",
    "CUtensorMapInterleave CU_TENSOR_MAP_INTERLEAVE",
    "CUtensorMapSwizzle CU_TENSOR_MAP_SWIZZLE",
    "CUtensorMapL2promotion CU_TENSOR_MAP_L2_PROMOTION",
    "CUtensorMapFloatOOBfill CU_TENSOR_MAP_FLOAT_OOB_FILL",
)
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    *(ctypes.c_void_p,) * 4,
    *(ctypes.c_int,) * 4,
)


@dataclass(frozen=True, kw_only=True)
class TensorMap:
    """A tiled tensor in device memory, as a kernel's TMA instructions see it. The innermost axis comes first.

    Source: CUDA Driver API, ``cuTensorMapEncodeTiled``. Words name the ends of its enumerators.

    Attributes:
        address: device address of element 0, a multiple of 16.
        element: the element type (``BFLOAT16``).
        shape: elements along each axis.
        strides: bytes from item to item along each axis but the innermost, multiples of 16.
        box: elements along each axis that one copy moves.
        swizzle, interleave, promotion: the layout in shared memory, and the L2 promotion.
        fill: what a copy writes for elements outside the tensor.
    """

    address: int
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "NONE"
    interleave: str = "NONE"
    promotion: str = "NONE"
    fill: str = "NONE"

    def text(self) -> str:
        """Its content, without the address and without members that are ``NONE``."""
        said = f"{self.element} {_times(self.shape)}, strides {_times(self.strides)} bytes, box {_times(self.box)}"
        named = {"swizzle": self.swizzle, "interleave": self.interleave, "L2": self.promotion, "outside": self.fill}
        return said + "".join(f", {name} {word}" for name, word in named.items() if word != "NONE")


def rows_map(call: Call[Any], name: str, box: tuple[int, int], *, element: str, **layout: str) -> TensorMap:
    """The descriptor of q, k, v or another batched tensor of rows, with the axes (hdim, rows, heads, batch).

    Args:
        box: elements of a row, and rows, that one copy moves.
        element, layout: members of ``TensorMap``.

    Raises:
        InternalError: the arena does not hold the tensor, or its last axis is not contiguous.
    """
    item, strides = Element(call.tensor(name).dtype).nbytes, call.rows(name)
    batch, heads, rows, width = call.sizes(name)
    return TensorMap(
        address=call.address(name),
        element=element,
        shape=(width, rows, heads, batch),
        strides=(strides.row * item, strides.head * item, strides.batch * item),
        box=(*box, 1, 1),
        **layout,
    )


def encoded(cuda: Cuda, wanted: TensorMap) -> bytes:
    """The 128 bytes of a descriptor. They hold the address, so a tensor that moves needs a new one.

    Raises:
        DriverError: N001, the driver refuses the tensor, or is too old for TMA.
    """
    words = (wanted.element, wanted.interleave, wanted.swizzle, wanted.promotion, wanted.fill)
    element, *layout = (_number(cuda, enum, word) for enum, word in zip(_ENUMS, words, strict=True))
    rank = len(wanted.shape)
    room = ctypes.create_string_buffer(BYTES + ALIGN)
    start = -ctypes.addressof(room) % ALIGN
    wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    status = _function(cuda)(
        ctypes.addressof(room) + start,
        element,
        rank,
        wanted.address,
        wide(*wanted.shape),
        wide(*wanted.strides),
        narrow(*wanted.box),
        narrow(*(1,) * rank),
        *layout,
    )
    cuda.check(NAME.decode(), status)
    return room.raw[start : start + BYTES]


@lru_cache(maxsize=1)
def _function(cuda: Cuda) -> Any:
    """The driver's function."""
    address, _ = cuda.call("cuGetProcAddress", NAME, SINCE, 0)
    cuda.check(NAME.decode(), 0 if int(address) else int(cuda.driver.CUresult.CUDA_ERROR_NOT_FOUND))
    return _PROTOTYPE(int(address))


def _number(cuda: Cuda, enum: str, word: str) -> int:
    kind, prefix = enum.split()
    return int(getattr(getattr(cuda.driver, kind), f"{prefix}_{word}"))


def _times(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers))

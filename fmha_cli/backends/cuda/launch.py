"""The bytes of a kernel's arguments, with the descriptors that the driver makes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from fmha_cli.backends.cuda.tensor_maps import WORDS, TensorMap
from fmha_cli.codegen.struct import Layout, host_layout, pack

INT_BYTES = 4
Encode = Callable[[TensorMap], bytes]


def pack_params(params: Any, encode: Encode) -> ctypes.Structure:
    """A parameter block with its TMA descriptors, as the host's structure."""
    values = ((field.name, getattr(params, field.name)) for field in fields(params))
    maps = {name: struct.unpack(f"<{WORDS}Q", encode(v)) for name, v in values if isinstance(v, TensorMap)}
    return pack(replace(params, **maps))


def argument_bytes(
    params: Any, extra: tuple[int, ...], encode: Encode, separate: Layout | None = None, lead: int = 0
) -> bytes:
    """The bytes of a kernel's arguments: the block, then its ``int`` parameters.

    The block's size is a multiple of 8, so there is no padding between them.

    Args:
        encode: returns the bytes of a TMA descriptor.
        separate: where the fields of the block are parameters of their own, the places that the compiler gave them.
            Such a kernel has no other parameters.
        lead: where the block is (``CubinExports.lead``).
    """
    block = bytes(pack_params(params, encode))
    if separate is None:
        return bytes(lead) + block + b"".join(value.to_bytes(INT_BYTES, "little", signed=True) for value in extra)
    form: type = type(params)
    here = {name: block[offset : offset + size] for name, offset, size in host_layout(form)}
    out = bytearray(max(offset + size for _, offset, size in separate))
    for name, offset, size in separate:
        out[offset : offset + size] = here[name]
    return bytes(out)

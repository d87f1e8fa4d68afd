"""The launch of a stage of a plan: its shape, and the bytes of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fmha_cli.backends.cuda.modules import Shape
from fmha_cli.codegen.struct import pack

INT_BYTES = 4


@dataclass(frozen=True)
class Launch(Shape):
    """One launch of a kernel that takes one parameter block.

    Attributes:
        extra: values of the kernel's ``int`` parameters that follow the block.
    """

    extra: tuple[int, ...] = ()


def argument_bytes(params: Any, extra: tuple[int, ...]) -> bytes:
    """The bytes of a kernel's arguments: the block, then its ``int`` parameters.

    The block's size is a multiple of 8, so there is no padding between them.
    """
    return bytes(pack(params)) + b"".join(value.to_bytes(INT_BYTES, "little", signed=True) for value in extra)

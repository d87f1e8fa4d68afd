"""An artifact: one line of JSON with the launch's parameters, then the cubin or the code object."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli import api

_FORMS = {"i32": "i", "i64": "q", "fp32": "f"}


Place = tuple[int, int]


@dataclass(frozen=True)
class Descriptor:
    """A TMA descriptor as an argument: its bytes, and the shape and strides (in elements) of its tensor."""

    data: bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]


Value = int | float | Descriptor


@dataclass(frozen=True)
class Image:
    """A compiled kernel.

    Attributes:
        symbol: the kernel's name in the binary.
        shared_bytes: dynamic shared memory of a launch.
        threads: threads of a program.
        arguments: (name, Triton's type) of each argument in order.
        trailing_pointers: pointers that Triton's calling convention adds behind them; these kernels do not use them.
        binary: the cubin or the code object.
    """

    symbol: str
    shared_bytes: int
    threads: int
    arguments: tuple[tuple[str, str], ...]
    trailing_pointers: int
    binary: bytes

    def packed(self, values: Mapping[str, Value], places: Sequence[Place] | None = None) -> bytes:
        """The bytes of the arguments.

        Args:
            places: (offset, bytes) of each argument in the binary, where it records them; else each is at a multiple of its size.

        Raises:
            KernelFailure: K970, a value is missing; K974, the binary takes other arguments.
        """
        pieces = [piece for name, type in self.arguments for piece in _pieces(self.symbol, values, name, type)]
        pieces += [bytes(8)] * self.trailing_pointers
        if places is None:
            places = _aligned(pieces)
        if [len(piece) for piece in pieces] != [size for _, size in places]:
            sizes = f"{[len(piece) for piece in pieces]} bytes here, {[size for _, size in places]} in the binary"
            raise api.KernelFailure("the kernel takes other arguments", code="K974", where=self.symbol, why=sizes)
        out = bytearray(max(offset + size for offset, size in places))
        for piece, (offset, size) in zip(pieces, places, strict=True):
            out[offset : offset + size] = piece
        return bytes(out)


def _pieces(symbol: str, values: Mapping[str, Value], name: str, type: str) -> list[bytes]:
    """The bytes of one argument. A descriptor is followed by its shape and its strides, as Triton's launcher passes it."""
    if name not in values:
        raise api.KernelFailure(f"the host has no value for {name}", code="K970", where=symbol)
    value = values[name]
    if isinstance(value, Descriptor):
        numbers = [struct.pack("<i", n) for n in value.shape] + [struct.pack("<q", n) for n in value.strides]
        return [value.data, *numbers]
    return [struct.pack(f"<{_FORMS.get(type, 'Q')}", value)]


def _aligned(pieces: Sequence[bytes]) -> list[Place]:
    out: list[Place] = []
    end = 0
    for piece in pieces:
        start = end + -end % len(piece)
        out.append((start, len(piece)))
        end = start + len(piece)
    return out


def read_image(path: Path) -> Image:
    """The image in an artifact.

    Raises:
        KernelFailure: K971, the file is not an artifact of this backend, or its kernel needs scratch memory.
    """
    head, _, binary = path.read_bytes().partition(b"\n")
    try:
        about = json.loads(head)
        image = Image(
            symbol=about["symbol"],
            shared_bytes=about["shared_bytes"],
            threads=about["threads"],
            arguments=tuple((name, type) for name, type in about["arguments"]),
            trailing_pointers=about["trailing_pointers"],
            binary=binary,
        )
        scratch = about["scratch_bytes"]
    except (ValueError, KeyError, TypeError) as fault:
        raise api.KernelFailure("the artifact cannot be read", code="K971", where=str(path), why=str(fault)) from fault
    if scratch:
        raise api.KernelFailure("the kernel needs scratch memory", code="K971", where=str(path), why=f"{scratch} bytes")
    return image

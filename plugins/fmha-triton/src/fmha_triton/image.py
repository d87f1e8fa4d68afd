"""An artifact: one line of JSON with what a launch needs, then the cubin or the code object."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli import api

_FORMS = {"i32": "i", "i64": "q", "fp32": "f"}


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

    def packed(self, values: Mapping[str, int | float]) -> bytes:
        """The bytes of the arguments, each at a multiple of its size.

        Raises:
            KernelFailure: K970, a value is missing.
        """
        missing = [name for name, _ in self.arguments if name not in values]
        if missing:
            raise api.KernelFailure(f"the host has no value for {', '.join(missing)}", code="K970", where=self.symbol)
        out = bytearray()
        for name, type in (*self.arguments, *(("", "*"),) * self.trailing_pointers):
            data = struct.pack(f"<{_FORMS.get(type, 'Q')}", values[name] if name else 0)
            out += bytes(-len(out) % len(data)) + data
        return bytes(out)


def read_image(path: Path) -> Image:
    """The image in an artifact.

    Raises:
        KernelFailure: K971, the file is no artifact of this backend, or its kernel needs scratch memory.
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

"""Calls of upstream's two host functions, and questions about its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.referees.upstream_host.client import Fields, Program

Way = Literal["forward", "backward"]


@dataclass(frozen=True)
class PackedKernel:
    """A kernel and its packed parameters.

    ``arrays`` has the small arrays that blocks read, by upstream's names without ``_ptr``: ``seqstart_q``,
    ``seqstart_k``, ``seqlen_k`` (forward), ``cu_seqlens_q``, ``cu_seqlens_k`` (backward).
    """

    way: Way
    dtype: str
    cc: int
    kernel: str
    params: bytes
    arrays: Mapping[str, Sequence[int]] = field(default_factory=dict)
    blocks: bool = True

    def line(self) -> str:
        """The question in the program's input format."""
        arrays = "".join(f" {name}={','.join(map(str, values))}" for name, values in self.arrays.items())
        return (
            f"call=examine way={self.way} dtype={self.dtype} cc={self.cc} kernel={self.kernel} "
            f"params={self.params.hex()} blocks={int(self.blocks)}{arrays}"
        )


@dataclass(frozen=True)
class Examined:
    """What upstream's kernel makes of its parameters.

    ``refused`` is the text of ``check_supported``, or empty. ``blocks`` has the parameter struct of each block after
    ``advance_to_block``, x fastest, and None for one without work. ``workspace`` (bytes) and ``zero`` (whether it must
    be zeroed) are None for a forward kernel.
    """

    refused: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    workspace: int | None
    zero: bool | None
    blocks: tuple[bytes | None, ...]


@dataclass(frozen=True)
class Layout:
    """A parameter struct as this compiler lays it out."""

    size: int
    fields: Fields

    def value(self, params: bytes, name: str, *, signed: bool = False) -> int:
        """A field as an integer."""
        offset, size = self.fields[name]
        return int.from_bytes(params[offset : offset + size], "little", signed=signed)


class XformersHost(Program):
    """The host code of memory-efficient attention."""

    def layout(self, way: Way) -> Layout:
        """The parameter struct of a direction."""
        (found,) = self.raw([f"call=layout way={way}"])
        return Layout(found["bytes"], {name: (offset, size) for name, offset, size in found["fields"]})

    def kernels(self, asked: Iterable[tuple[Way, str, int]]) -> list[list[dict[str, Any]]]:
        """For each (direction, element type, compute capability), the facts of the kernels in upstream's order."""
        return self.raw([f"call=kernels way={way} dtype={dtype} cc={cc}" for way, dtype, cc in asked])

    def examine(self, asked: Iterable[PackedKernel]) -> list[Examined]:
        """What upstream's kernels make of packed parameters."""
        return [_examined(found) for found in self.raw([one.line() for one in asked])]


def _examined(found: dict[str, Any]) -> Examined:
    return Examined(
        refused=found["refused"],
        grid=tuple(found["grid"]),
        block=tuple(found["block"]),
        workspace=found.get("workspace"),
        zero=found.get("zero"),
        blocks=tuple(None if text is None else bytes.fromhex(text) for text in found["blocks"]),
    )

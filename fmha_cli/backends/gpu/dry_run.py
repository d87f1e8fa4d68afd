"""Device addresses for launches that are shown and not made, and the arguments and texts that describe them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any

from fmha_cli.backends.gpu.arena_views import extent
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.backends.gpu.upstream import Upstream
from fmha_cli.codegen.struct import Layout, c_fields
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import KernelArgument

ARENA = 0x5000_0000_0000
AUXILIARIES = 0x7000_0000_0000
"""The addresses that a dry run assigns to the arena and to the auxiliary arrays. Nothing reads there."""

_SPACE = 1 << 32
Place = tuple[int, int, str]
"""First address, end address, and the name of the tensor or array between them."""


def auxiliary_places(names: Iterable[str]) -> dict[str, int]:
    """An address for each auxiliary array of a dry run."""
    return {name: AUXILIARIES + index * _SPACE for index, name in enumerate(names)}


def places_of(call: Call[Any]) -> Iterator[Place]:
    """Every tensor, workspace and auxiliary array that a pointer may point to."""
    for name, bound in call.tensors.items():
        start = call.arena + bound.offset
        yield start, start + max(1, extent(bound)), name
    for name, address in call.auxiliaries.items():
        yield address, address + _SPACE, name


def pointer_text(address: int, places: Sequence[Place]) -> str | None:
    """A pointer as ``q`` or ``o_acc+256``, or as a number where it points to nothing known; None for a null pointer."""
    if not address:
        return None
    for start, end, name in places:
        if start <= address < end:
            return name if address == start else f"{name}+{address - start}"
    return f"{address:#x}"


def zeroed_note(names: Sequence[str]) -> str:
    """A launch's note about workspaces that are filled with zeros before it."""
    return f"before it, not timed: {', '.join(names)} zeroed"


def launch_notes(upstream: Upstream, stage: Stage, call: Call[Any], launch: Launch) -> Iterator[str]:
    """What is unusual about a launch."""
    if not upstream.launches(call.situation):
        yield "not launched: there is nothing to attend to, so the host fills the outputs"
    elif launch.empty:
        yield "not launched: its grid is empty"
    if launch.cleared:
        yield f"before it, timed with it: {', '.join(launch.cleared)} zeroed"
    names = [name for name in upstream.list_zeroed(call.plan) if name in call.tensors]
    if names and stage is call.plan.stages[0]:
        yield zeroed_note(names)


def block_members(params: Any, layout: Layout, places: Sequence[Place]) -> Iterator[KernelArgument]:
    """Every field of a parameter block. A field that is a structure is replaced by its own fields."""
    block: type = type(params)
    kinds = {name: kind.ctype for name, kind in c_fields(block)}
    for name, offset, size in layout:
        value, kind = getattr(params, name), kinds[name]
        if not issubclass(kind, ctypes.Structure):
            yield _member(name, offset, size, kind, value, places)
            continue
        given = (*value, *(0,) * (len(kind._fields_) - len(value)))  # ctypes makes the members behind the value zero
        for (part, inner), number in zip(kind._fields_, given, strict=True):
            mark = getattr(kind, part)
            yield _member(f"{name}.{part}", offset + mark.offset, mark.size, inner, number, places)


_KINDS = {
    ctypes.c_void_p: "pointer",
    ctypes.c_float: "float",
    ctypes.c_bool: "bool",
    ctypes.c_uint16: "unsigned",
    ctypes.c_uint32: "unsigned",
    ctypes.c_uint64: "unsigned",
}


def _member(name: str, offset: int, size: int, ctype: Any, value: Any, places: Sequence[Place]) -> KernelArgument:
    kind, shown = _KINDS.get(ctype, "signed"), value
    if isinstance(value, tuple | str):
        kind, shown = "bytes", value if isinstance(value, str) else ", ".join(map(str, value))
    elif kind == "pointer":
        shown = pointer_text(value, places)
    elif kind == "float" and not isfinite(value):
        shown = str(value)  # JSON has no such number
    return KernelArgument(name=name, offset=offset, bytes=size, kind=kind, value=shown)

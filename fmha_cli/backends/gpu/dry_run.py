"""Device addresses for launches that are shown and not made, and the text that describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fmha_cli.backends.gpu.arena_views import extent
from fmha_cli.backends.gpu.call import Call

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

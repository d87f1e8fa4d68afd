"""Device addresses in words, for launches that are shown and not made."""

from __future__ import annotations

from collections.abc import Sequence

Place = tuple[int, int, str]
"""First address, end, and the name of what lies there."""


def pointer_text(address: int, places: Sequence[Place]) -> str | None:
    """``q``, ``o_acc+256``, None for a null pointer, the number where nothing lies."""
    if not address:
        return None
    for start, end, name in places:
        if start <= address < end:
            return name if address == start else f"{name}+{address - start}"
    return f"{address:#x}"

"""NaN and infinity in JSON: a null in their place, and one note that states the value.

JSON has no token for them (RFC 8259, section 6), and a script must never read one. The note is exact, so
a record read back from a journal equals the original.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

_NOTE = re.compile(r"(\S+) is (nan|inf|-inf)\Z")


def nulled(tree: Any, path: str = "") -> tuple[Any, list[str]]:
    """The tree with None for every non-finite float, and the notes ``path.to.it is nan``."""
    if isinstance(tree, dict):
        parts = {key: nulled(value, f"{path}.{key}" if path else str(key)) for key, value in tree.items()}
        return {k: v for k, (v, _) in parts.items()}, [n for _, notes in parts.values() for n in notes]
    if isinstance(tree, list | tuple):
        items = [nulled(value, f"{path}.{i}") for i, value in enumerate(tree)]
        return [v for v, _ in items], [n for _, notes in items for n in notes]
    if isinstance(tree, float) and not math.isfinite(tree):
        return None, [f"{path} is {tree}"]
    return tree, []


def is_note(text: str) -> bool:
    """Whether a note comes from :func:`nulled`; people need not read those."""
    return _NOTE.match(text) is not None


def restored(tree: Any, notes: Sequence[str]) -> tuple[Any, list[str]]:
    """The inverse of :func:`nulled`: puts values back from their notes, and returns the other notes.

    This changes ``tree`` itself; pass a copy if you still need the original.
    """
    left = []
    for note in notes:
        match = _NOTE.match(note)
        if match is None or not _put(tree, match[1].split("."), float(match[2])):
            left.append(note)
    return tree, left


def _put(tree: Any, path: Sequence[str], value: float) -> bool:
    """Replace the null at ``path``; False if there is no null."""
    node = tree
    try:
        for key in path[:-1]:
            node = node[int(key)] if isinstance(node, list) else node[key]
        if not isinstance(node, dict) or node[path[-1]] is not None:
            return False
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    node[path[-1]] = value
    return True

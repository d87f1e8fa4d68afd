"""NaN and infinity in JSON: a null in their place, and one note that states the value.

JSON has no token for them (RFC 8259, section 6), and a script must never read one. The note is exact, so
a record read back from a journal equals the original.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from typing import Any

PLAIN = frozenset({str, int, bool, type(None)})
"""Types that hold nothing else; samples, of which a run has millions, are integers."""
_NOTE = re.compile(r"(\S+) is (nan|inf|-inf)\Z")


def nulled(tree: Any) -> tuple[Any, list[str]]:
    """The tree with None for every non-finite float, and the notes ``path.to.it is nan``."""
    lost: list[str] = []

    def clean(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {key: v if type(v) in PLAIN else clean(v, f"{path}.{key}") for key, v in value.items()}
        if isinstance(value, list | tuple):
            return [v if type(v) in PLAIN else clean(v, f"{path}.{place}") for place, v in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            lost.append(f"{path[1:]} is {value}")
            return None
        return value

    return clean(tree, ""), lost


def is_note(text: str) -> bool:
    """Whether a note comes from :func:`nulled`; people need not read those."""
    return _NOTE.match(text) is not None


def restored(tree: Any, notes: Sequence[str]) -> tuple[Any, list[str]]:
    """The inverse of :func:`nulled`: a tree with the values of the notes, and the other notes."""
    if not any(map(is_note, notes)):
        return tree, list(notes)
    tree, left = copy.deepcopy(tree), []
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

"""Near names: suggestions for a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """``did you mean a or b?``, or all existing names if none is near."""
    import difflib  # slow to import, and only errors need it

    names = list(known)
    near = difflib.get_close_matches(name, names, 3, 0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"one of {', '.join(names)}" if names else "there are none"

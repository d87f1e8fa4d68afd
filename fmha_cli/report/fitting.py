"""Fit lines of text into the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

LEAST = 40
"""Narrower terminals get lines of this width."""


def cut(text: str, width: int | None) -> str:
    """The text, or its beginning and an ellipsis; a width of None keeps it whole."""
    if width is None or len(text) <= width:
        return text
    return text[: max(width - 3, 0)].rstrip() + "..."


def folded(text: str, width: int | None, *, hang: int = 2) -> list[str]:
    """The text as lines of at most ``width`` characters. Its own indent stays, and further lines are indented by
    ``hang`` more."""
    if width is None or len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    more = indent + " " * hang
    return wrap(text.strip(), max(width, LEAST), initial_indent=indent, subsequent_indent=more, break_on_hyphens=False)


def folded_all(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Every line, folded."""
    for line in lines:
        yield from folded(line, width)

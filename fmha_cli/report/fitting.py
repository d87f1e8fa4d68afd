"""Fit text into the width of a terminal: how wide a text is, where a line breaks, what an ellipsis replaces.

A width is a number of terminal columns. None means no limit: the output does not go to a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator

LEAST = 40
"""Narrower terminals get lines of this width."""

ELLIPSIS = "…"

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_SEPARATOR = re.compile(r"[/,:;|]")
_PASTED = re.compile(r"\bagain(?:, upstream)?: [^'\"]*$")
_WORD = re.compile(r"\S+")


def columns(text: str) -> int:
    """How many columns a terminal needs for one line of text; colour codes need none, CJK characters two."""
    if text.isascii():
        return len(text) if "\x1b" not in text else len(_ESCAPE.sub("", text))
    return sum(map(_columns, _ESCAPE.sub("", text)))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def widest(text: str) -> int:
    """The columns of the longest line of a text."""
    return columns(text) if "\n" not in text else max(map(columns, text.split("\n")))


def widest_of(texts: Collection[str]) -> int:
    """The columns of the longest line of some texts; 0 without any."""
    joined = "".join(texts)
    plain = joined.isascii() and "\x1b" not in joined and "\n" not in joined
    return max(map(len if plain else widest, texts), default=0)


def cut(text: str, width: int | None) -> str:
    """The text, or the words at its beginning that fit and an ellipsis. A part of a word stands for a word only if it is
    alone, because a part of a number is another number."""
    if width is None or columns(text) <= width:
        return text
    front = _front(text, max(width - 1, 0))
    if not text[len(front)].isspace():
        front = front.rpartition(" ")[0] or front
    return front.rstrip() + ELLIPSIS[:width]


def shortened(text: str, width: int | None) -> str:
    """The text, or both its ends with an ellipsis between them."""
    if width is None or columns(text) <= width:
        return text
    room = max(width - 1, 0)
    tail = _front(text[::-1], room // 2)[::-1]
    return _front(text, room - columns(tail)) + ELLIPSIS[:width] + tail


def _front(text: str, width: int) -> str:
    """As many characters from the front as fit."""
    if text.isascii():
        return text[:width]
    used = 0
    for at, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:at]
    return text


def folded(text: str, width: int | None, *, hang: int = 2) -> list[str]:
    """The text as lines that fit, broken at word ends.

    Its own indent stays, and further lines are indented by ``hang`` more. A word that is longer than a line is broken where
    the line ends. Line breaks of the text stay. A command to be pasted (``again: fmha run ...``) gets the shell's mark at
    the end of a line that goes on; one with quotes does not, because the mark would change what they hold.
    """
    if width is None:
        return text.split("\n")
    return [line for own in text.split("\n") for line in _folded(own, max(width, LEAST), hang)]


def _folded(text: str, width: int, hang: int) -> list[str]:
    text = text.expandtabs().rstrip()
    if columns(text) <= width:
        return [text]
    indent = " " * min(len(text) - len(text.lstrip()), width // 2)
    mark = " \\" if _PASTED.search(text) else ""
    *lines, last = broken(text, width - len(mark), indent, indent + " " * hang)
    return [*(line + mark for line in lines), last]


def folded_all(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Every line, folded."""
    for line in lines:
        yield from folded(line, width)


def broken(text: str, width: int, first: str = "", more: str = "") -> list[str]:
    """The words of a text in lines of at most ``width`` columns, at least one; the first begins with ``first``, the others
    with ``more``."""
    lines, line, begun = [], first, False
    for word in _WORD.findall(text):
        if begun and columns(line) + 1 + columns(word) <= width:
            line += " " + word
            continue
        if begun:
            lines.append(line)
            line = more
        while columns(line) + columns(word) > width:
            part = _part(word, width - columns(line))
            lines.append(line + part)
            line, word = more, word[len(part) :]
        line, begun = line + word, bool(word)
    return [*lines, line] if begun or not lines else lines


def _part(word: str, width: int) -> str:
    """The first part of a word that is longer than a line: it ends behind a separator, if one is near."""
    part = _front(word, width) or word[:1]
    ends = [at.end() for at in _SEPARATOR.finditer(part)]
    return part[: ends[-1]] if ends and ends[-1] * 2 > len(part) else part

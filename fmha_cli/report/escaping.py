"""Text of others on its way to people: control characters are shown, never obeyed.

Names of files, messages of kernels and logs of compilers may hold anything: codes that move a terminal's cursor or rename its
window, marks that turn the direction of a line, bytes that are not text. All of them are printed as JSON escapes them
(``\\u001b``), which keeps JSON the same document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HARMFUL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters (C0 but tab and line break, DEL, C1), separators and overrides of direction, lone surrogates."""


def escaped(text: str) -> str:
    """The text with every character escaped that a terminal might obey or no encoding can hold."""
    if text.isprintable() or text.replace("\n", "").isprintable():  # much faster than the search
        return text
    return re.sub(_HARMFUL, lambda match: _escape(match[0]), text)


def cleaned(value: Any) -> Any:
    """A JSON value whose texts are :func:`escaped`; the names of members are ours."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item) for item in value)
    return {key: cleaned(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def printable(text: str, encoding: str) -> str:
    """The text with everything escaped that ``encoding`` cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return "".join(c if _holds(encoding, c) else _escape(c) for c in text)


def _holds(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str) -> str:
    words = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{words[i]:02x}{words[i + 1]:02x}" for i in range(0, len(words), 2))

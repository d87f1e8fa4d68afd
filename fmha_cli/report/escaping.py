"""Text of others on its way to people: control characters are shown, never obeyed.

Names of files, messages of kernels and logs of compilers may hold anything: codes that move a terminal's cursor or rename its
window, marks that turn the direction of a line, bytes that are not text. All of them are printed as JSON escapes them
(``\\u001b``), which keeps JSON the same document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter, is_
from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import SharedJson, once

_HARMFUL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters (C0 but tab and line break, DEL, C1), separators and overrides of direction, lone surrogates."""


def escaped(text: str) -> str:
    """The text with every character escaped that a terminal might obey or no encoding can hold."""
    if text.isprintable() or text.replace("\n", "").isprintable():  # much faster than the search
        return text
    return re.sub(_HARMFUL, lambda match: _escape(match[0]), text)


_PLAIN = frozenset({int, float, bool, type(None)})


def cleaned(value: Any) -> Any:
    """A document, or a JSON value, whose texts are :func:`escaped`; the same object if none changes. Only tables need it, to which
    colours are added afterwards."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, list | tuple):
        items = value if _PLAIN.issuperset(map(type, value)) else [cleaned(item) for item in value]
        return value if all(map(is_, items, value)) else kind(items)
    if isinstance(value, Mapping):
        return once(value, "_cleaned", _cleaned_object) if kind is SharedJson else _cleaned_object(value)
    if isinstance(value, Path):
        return Path(escaped(str(value)))
    if not is_dataclass(kind):
        return value
    changed = {}
    names, held = _held_by(kind)
    for name, item in zip(
        names, held(value), strict=True
    ):  # a list of kernels has 70,000 texts, almost all of them plain
        if not (item.isprintable() if type(item) is str else type(item) in _PLAIN):
            clean = cleaned(item)
            if clean is not item:
                changed[name] = clean
    return replace(value, **changed) if changed else value


def _cleaned_object(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    found = {key: cleaned(item) for key, item in value.items()}
    return value if all(map(is_, found.values(), value.values())) else found


@cache
def _held_by(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The fields of a dataclass, and what gets their values."""
    names = tuple(field.name for field in fields(kind) if field.init)
    get = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    return names, get


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

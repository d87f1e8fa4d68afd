"""JSON for people and programs: sorted keys, an indent of two spaces, lists of plain values on one line.

Lists of kernels have a million values, and ``json.dumps`` makes a new encoder for each call. So strings go to its C function
directly, and the sorted keys of objects with equal members are prepared once, as is the text of ``SharedJson``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

from fmha_cli.domain.codec import SharedJson
from fmha_cli.report.escaping import escaped

_PLAIN = frozenset({str, int, float, bool, type(None)})
_CONSTANTS: Mapping[Any, str] = {None: "null", True: "true", False: "false"}


def json_text(value: Any) -> str:
    """A document as JSON text; samples stay readable, and characters that a terminal might obey are escaped.

    Raises:
        ValueError: the document contains NaN or infinity, which ``finite`` should have replaced.
        TypeError: a value has no JSON form.
    """
    return "".join(_Writer().parts(value, "\n"))


def _is_nested(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether each value of a list needs a line."""
    return not _PLAIN.issuperset(map(type, value)) and any(isinstance(v, Mapping | list | tuple) for v in value)


class _Writer:
    """One document being written; it keeps the sorted keys of the objects that it has seen, and the texts of shared ones."""

    def __init__(self) -> None:
        self._shared: dict[tuple[int, str], str] = {}
        self._orders: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}

    def parts(self, value: Any, line: str) -> Iterator[str]:
        """The text in parts that need no other copy, however long the lists of a document are."""
        if not isinstance(value, Mapping) or not value:
            yield self.text(value, line)
            return
        inner, item = line + "  ", line + "    "
        before = "{" + inner
        for key, name in self._order(value):
            yield before + name
            member = value[key]
            if isinstance(member, list | tuple) and _is_nested(member):
                yield "[" + item + self.text(member[0], item)
                for other in member[1:]:
                    yield "," + item
                    yield self.text(other, item)
                yield inner + "]"
            else:
                yield self.text(member, inner)
            before = "," + inner
        yield line + "}"

    def text(self, value: Any, line: str) -> str:
        """A value whose first line begins after a line break and an indent, ``line``."""
        kind = type(value)
        if kind is str:
            text: str = encode_basestring(value)
            return text if value.isprintable() else escaped(text)
        if kind is int:
            return int.__repr__(value)
        if kind is bool or value is None:
            return _CONSTANTS[value]
        if kind is SharedJson:
            key = (id(value), line)
            if key not in self._shared:
                self._shared[key] = self._object(value, line)
            return self._shared[key]
        if kind is dict or isinstance(value, Mapping):
            return self._object(value, line)
        if isinstance(value, list | tuple):
            return self._list(value, line)
        return escaped(json.dumps(value, allow_nan=False, ensure_ascii=False))

    def _object(self, value: Mapping[Any, Any], line: str) -> str:
        if not value:
            return "{}"
        inner, text = line + "  ", self.text
        parts = [
            name + (encode_basestring(v) if type(v := value[key]) is str and v.isprintable() else text(v, inner))
            for key, name in self._order(value)
        ]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"

    def _order(self, value: Mapping[Any, Any]) -> list[tuple[Any, str]]:
        """The keys, sorted, each with its text up to the value."""
        keys = tuple(value)
        found = self._orders.get(keys)
        if found is None:
            found = [(key, escaped(encode_basestring(str(key))) + ": ") for key in sorted(value)]
            self._orders[keys] = found
        return found

    def _list(self, value: list[Any] | tuple[Any, ...], line: str) -> str:
        inner, text = line + "  ", self.text
        if not value:
            return "[]"
        if _is_nested(value):
            return f"[{inner}{f',{inner}'.join([text(v, inner) for v in value])}{line}]"
        return f"[{', '.join([text(v, inner) for v in value])}]"

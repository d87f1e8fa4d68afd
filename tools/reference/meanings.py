"""What members of JSON documents mean where their schema does not say it: the docstrings of the classes that documents are made of."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import Any, get_args

from fmha_cli.domain.codec import alternatives, bare, members_of
from fmha_cli.report.document import document, names
from fmha_cli.report.parts import COMMON

from .markdown import first_paragraph
from .source import attributes


def meaning(members: frozenset[str], name: str) -> str:
    """The text about a member in the docstring of the class that has exactly these members, or in that of its property."""
    kind = _classes().get(members)
    if kind is None:
        return ""
    own = inspect.getattr_static(kind, name, None)
    text = first_paragraph(own.__doc__) if isinstance(own, property) else ""
    return attributes(inspect.getdoc(kind) or "").get(name, text)


@cache
def _classes() -> dict[frozenset[str], type]:
    """Every class of which a part of a document is made, by the names of its members."""
    found: dict[type, frozenset[str]] = {}
    for name in names():
        one = document(name)
        for hint in (*(get_args(one.kind) or (one.kind,)), *one.definitions.values()):
            _collect(hint, found)
    for hint in COMMON.values():
        _collect(hint, found)
    return {members: kind for kind, members in reversed(found.items())}


def _collect(hint: Any, found: dict[type, frozenset[str]]) -> None:
    """Add the classes in a type to the found ones."""
    for kind in (bare(one) for one in alternatives(bare(hint))):
        if isinstance(kind, type) and is_dataclass(kind):
            if kind not in found:
                found[kind] = frozenset(member.key for member in members_of(kind))
                for member in members_of(kind):
                    _collect(member.hint, found)
        else:
            for inner in _arguments(kind):
                _collect(inner, found)


def _arguments(kind: Any) -> Iterator[Any]:
    return (one for one in get_args(kind) if not isinstance(one, str | int))

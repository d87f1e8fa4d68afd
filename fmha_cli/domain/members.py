"""Metadata that the annotation of a field may add to its type: ``Annotated[int, Least(0), "rows compared"]``.

``codec`` reads ``Hidden``, ``Key``, ``Then`` and the limits. The published schemas are generated from the limits and the
rest, with a plain string as the member's description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import ge, gt, lt
from typing import Annotated, Any


@dataclass(frozen=True)
class Hidden:
    """The field is not a member of the JSON form."""


@dataclass(frozen=True)
class Key:
    """The member's name in JSON, if it differs from the field's name."""

    text: str


class Then:
    """Properties that follow the field as members of the JSON form; reading checks them and drops them."""

    def __init__(self, *names: str) -> None:
        self.names = names


@dataclass(frozen=True)
class Keyword:
    """A keyword of JSON Schema that limits the values, and its value."""

    name: str
    value: int | str

    def allows(self, value: Any) -> bool:
        """Whether a value of the right type is within the limit."""
        return bool(_LIMITS[self.name][0](value, self.value))

    @property
    def refusal(self) -> str:
        """The fault of a value outside the limit."""
        return f"{_LIMITS[self.name][1]} {self.value}"


def _matches(text: str, pattern: str) -> bool:
    end = pattern.removesuffix("$")  # in ECMA-262 it matches at the very end only, not before a last newline
    return re.search(end + r"\Z" if end != pattern else pattern, text) is not None


_LIMITS: Mapping[str, tuple[Callable[[Any, Any], object], str]] = {
    "minimum": (ge, "less than"),
    "exclusiveMaximum": (lt, "not less than"),
    "exclusiveMinimum": (gt, "not above"),
    "minItems": (lambda items, least: len(items) >= least, "fewer items than"),
    "pattern": (_matches, "not of the form"),
}
"""Whether a value is within the limit of a keyword, and what is wrong otherwise."""

Least = partial(Keyword, "minimum")
"""The smallest number."""
Below = partial(Keyword, "exclusiveMaximum")
"""The number that the value must stay below."""
Above = partial(Keyword, "exclusiveMinimum")
"""The number that the value must exceed."""
Pattern = partial(Keyword, "pattern")
"""The regular expression that a text matches (ECMA-262)."""
FewestItems = partial(Keyword, "minItems")
"""The smallest length of a list."""


@dataclass(frozen=True)
class NullWhenNotFinite:
    """A number that JSON cannot write is null."""


@dataclass(frozen=True)
class ShownAs:
    """The schema is that of another type, whose JSON form the values already have; or it is the given schema."""

    type: Any


@dataclass(frozen=True)
class Named:
    """A type to which schemas refer by name."""

    name: str


Count = Annotated[int, Least(0)]
Hex64 = Annotated[str, Pattern("^[0-9a-f]{64}$")]
Sha256 = Annotated[Hex64, Named("sha256")]
Digests = tuple[Sha256, ...]

"""Names and digests: dataclass fields to a readable name and back, to canonical JSON, and to a digest.

Names are ``key=value`` pairs joined by commas. A field that holds its declared default is left out, which keeps names
short; ``decode_fields(encode_fields(x), type(x)) == x`` holds. A digest covers *all* fields, so a changed default
changes the digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from fmha_cli.domain.codec import once, shared_json
from fmha_cli.domain.errors import UsageError

T = TypeVar("T")

SCHEMA_VERSION = 1
"""Raised when the meaning of an encoded field changes; part of every digest and cache key."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; the text is the same in every process and for every hash seed.

    Raises:
        TypeError: a value has no JSON form.
    """
    return _ENCODER.encode(value)


def digest_of(value: object) -> str:
    """sha256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_fields(noun: object) -> str:
    """:func:`canonical_json` of :func:`to_json`, computed once for each object because kernels share their parts."""
    return once(noun, "_canonical_fields", lambda noun: canonical_json(shared_json(noun)))


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Name and default of each field, in declaration order."""
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))


def encode_fields(noun: object) -> str:
    """The fields that differ from their defaults, as ``key=value,key=value`` in declaration order."""
    return once(noun, "_encoded_fields", _encoded)


def _encoded(noun: object) -> str:
    parts = []
    for name, default in _fields(cast(Any, type(noun))):
        value = getattr(noun, name)
        if default is dataclasses.MISSING or value != default:
            parts.append(f"{name}={field_text(value)}")
    return ",".join(parts)


def field_text(value: Any) -> str:
    """One field's value as names write it: ``yes``, ``no``, an enum's value, ``64x128`` for a tuple."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    return "x".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


_types: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)


def decode_fields(text: str, kind: type[T]) -> T:
    """The inverse of :func:`encode_fields`.

    Raises:
        UsageError: an unknown field, a malformed value, or a missing field that has no default.
    """
    types = _types(cast(Any, kind))
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in types or key in values:
            raise UsageError(f"{part!r} is not a field of {kind.__name__}", code="E003", where=text)
        try:
            values[key] = _value(value, types[key])
        except (ValueError, KeyError) as fault:
            raise UsageError(f"{part!r}: not a value of {kind.__name__}.{key}", code="E003", where=text) from fault
    try:
        return kind(**values)
    except TypeError as fault:
        raise UsageError(f"{text!r} lacks a field of {kind.__name__}: {fault}", code="E003", where=text) from fault


def _value(text: str, kind: Any) -> Any:
    if kind is bool:
        return {"yes": True, "no": False}[text]
    if kind in (int, str, float):
        return kind(text)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(text)
    if getattr(kind, "__origin__", None) is tuple:
        return tuple(int(v) for v in text.split("x")) if text else ()
    raise ValueError(f"a field of type {kind} has no text form")

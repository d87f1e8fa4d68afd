"""Converts dataclasses to plain JSON values and back, by their fields and type hints.

Enums are written by value, paths as text, tuples as lists, nested dataclasses as objects. A member that is typed
``Any`` already holds JSON values. Reading is strict: an unknown member, a missing member or a value of another type is
an error that names the path of the member. ``members`` lists what an annotation may add.

If a class sets the attribute ``json_kept`` to true, each object keeps its JSON values, because many kernels share one
signature. Such a class must be frozen and flat. A class that hides fields without defaults has a class method
``from_members``, which makes an object from all its members.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fmha_cli.domain.members import Hidden, Key, Then

T = TypeVar("T")
Encoder = Callable[[Any], Any]
Decoder = Callable[[Any], Any]


class DecodeError(ValueError):
    """The JSON does not have the shape that the class requires. The text is ``path.to[3].it: what is wrong``."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(f"{path}: {what}" if path else what)
        self.what = what
        self.path = path

    def within(self, part: str) -> DecodeError:
        """The same error, seen from one level above."""
        return DecodeError(self.what, part + self.path)


@dataclasses.dataclass(frozen=True)
class Member:
    """One member of a class's JSON form.

    Attributes:
        key: the member's name in JSON.
        hint: the type with its annotations.
        stored: true for a field; false for a property that is derived from the fields.
    """

    name: str
    key: str
    hint: Any
    stored: bool


def members_of(kind: Any) -> tuple[Member, ...]:
    """The members of a dataclass's JSON form, in the order of its fields."""
    return _members(kind)


@cache
def _members(kind: Any) -> tuple[Member, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found: list[Member] = []
    for field in dataclasses.fields(kind):
        hint, notes = hints[field.name], extras(hints[field.name])
        if not any(isinstance(note, Hidden) for note in notes):
            key = next((note.text for note in notes if isinstance(note, Key)), field.name)
            found.append(Member(field.name, key, hint, True))
        for name in (name for note in notes if isinstance(note, Then) for name in note.names):
            returned = get_type_hints(getattr(kind, name).fget, include_extras=True)["return"]
            found.append(Member(name, name, returned, False))
    return tuple(found)


def extras(hint: Any) -> tuple[Any, ...]:
    """What ``Annotated`` adds to a type."""
    return tuple(hint.__metadata__) if get_origin(hint) is Annotated else ()


def bare(hint: Any) -> Any:
    """The type without what ``Annotated`` adds."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union; a tuple of the type itself if it is not a union."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def choices(hint: Any) -> tuple[Any, ...]:
    """The JSON values of an enum or a Literal; empty for other types.

    A mapping with such a key type has all of them as keys.
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(m.value for m in hint) if isinstance(hint, type) and issubclass(hint, Enum) else ()


def to_json(noun: object) -> dict[str, Any]:
    """The dataclass as a new object of plain JSON values."""
    return _plan(type(noun)).encoded(noun)


def from_json(kind: type[T], data: Any, where: str = "") -> T:
    """The inverse of :func:`to_json`.

    Args:
        where: the start of the path in an error (``record``).

    Raises:
        DecodeError: a member is unknown, missing or of another type, or the class refuses the values.
    """
    try:
        return cast(T, _plan(kind).decoded(data))
    except DecodeError as fault:
        raise (fault.within(where) if where else DecodeError(fault.what, fault.path.lstrip("."))) from fault


class _Plan:
    """How to write and read one class, computed once."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.writers = [(m.name, m.key, _encoder(m.hint)) for m in members_of(kind)]
        self.kept = getattr(kind, "json_kept", False)

    def encoded(self, noun: Any) -> dict[str, Any]:
        if not self.kept or (kept := getattr(noun, "__dict__", None)) is None:
            return self._written(noun)
        if "_json" not in kept:
            kept["_json"] = self._written(noun)
        return {name: v.copy() if type(v) is list else v for name, v in kept["_json"].items()}

    def _written(self, noun: Any) -> dict[str, Any]:
        out = {}
        for name, key, encode in self.writers:
            value = getattr(noun, name)
            out[key] = value if encode is None or value is None else encode(value)
        return out

    def decoded(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise DecodeError("not an object")
        readers = _readers(self.kind)
        _check_keys(data, readers.keys())
        values = {}
        key = ""
        try:
            for key, (member, decode) in readers.items():
                values[member.name] = decode(data[key])
        except DecodeError as fault:
            raise fault.within(f".{key}") from fault
        try:
            if hasattr(self.kind, "from_members"):
                return self.kind.from_members(values)
            return self.kind(**{m.name: values[m.name] for m, _ in readers.values() if m.stored})
        except (TypeError, ValueError) as fault:
            raise DecodeError(str(fault)) from fault


_plan: Callable[[Any], _Plan] = cache(_Plan)


@cache
def _readers(kind: Any) -> dict[str, tuple[Member, Decoder]]:
    return {m.key: (m, _decoder(m.hint)) for m in members_of(kind)}


def _check_keys(data: Mapping[str, Any], names: Set[str]) -> None:
    if data.keys() != names:
        lacking, surprising = sorted(names - data.keys()), sorted(map(str, data.keys() - names))
        raise DecodeError(f"lacks {', '.join(lacking)}" if lacking else f"unknown: {', '.join(surprising)}")


def _enum(value: Any) -> Any:
    return value._value_


def _encoder(hint: Any) -> Encoder | None:
    """The function that converts a value other than None to JSON; None if the value is already JSON."""
    hint = bare(hint)
    kinds = [kind for kind in alternatives(hint) if kind is not type(None)]
    if len(kinds) > 1:
        return None if all(_encoder(kind) is None for kind in kinds) else _written
    (hint,) = kinds or (hint,)
    hint, origin = bare(hint), get_origin(bare(hint))
    if origin is tuple:
        return _listing(get_args(hint))
    if origin in (Mapping, dict):
        return _mapping(*get_args(hint))
    if dataclasses.is_dataclass(hint):
        return to_json
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum
    return str if hint is Path else None


def _written(value: Any) -> Any:
    """Writes a member that may be of several classes by the class that the value has."""
    return to_json(value) if dataclasses.is_dataclass(value) else dict(value) if isinstance(value, Mapping) else value


def _listing(args: tuple[Any, ...]) -> Encoder:
    if args[-1] is Ellipsis:
        encode = _nullable(args[0])
        return list if encode is None else lambda value: [encode(item) for item in value]
    encoders = [_nullable(arg) for arg in args]
    if all(encode is None for encode in encoders):
        return list
    return lambda value: [v if e is None else e(v) for e, v in zip(encoders, value, strict=True)]


def _mapping(key: Any, item: Any) -> Encoder:
    encode, name = _nullable(item), _encoder(key)
    if encode is None and name is None:
        return dict
    return lambda value: {
        (k if name is None else name(k)): (v if encode is None else encode(v)) for k, v in value.items()
    }


def _nullable(hint: Any) -> Encoder | None:
    encode = _encoder(hint)
    if encode is None or type(None) not in alternatives(bare(hint)):
        return encode
    return lambda value: None if value is None else encode(value)


_WORDS = {int: "not an integer", float: "not a number", str: "not a text", bool: "not true or false"}


def _decoder(hint: Any) -> Decoder:
    hint = bare(hint)
    kinds = alternatives(hint)
    if len(kinds) > 1:
        return _either([_decoder(kind) for kind in kinds if kind is not type(None)], type(None) in kinds)
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is Literal:
        return lambda value: _checked(value, value in args, f"not {' or '.join(map(str, args))}")
    if origin is tuple:
        return _read_list(args)
    if origin in (Mapping, dict):
        return _read_mapping(*args)
    if dataclasses.is_dataclass(hint):
        return lambda value: _plan(hint).decoded(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: _read_enum(hint, value)
    if hint is Path:
        return lambda value: Path(_checked(value, type(value) is str, _WORDS[str]))
    if hint is float:
        return lambda value: _checked(value, type(value) in (float, int), _WORDS[float])
    if hint in _WORDS:
        return lambda value: _checked(value, type(value) is hint, _WORDS[hint])
    raise TypeError(f"a member of type {hint} has no JSON form")


def _checked(value: Any, good: bool, what: str) -> Any:
    if not good:
        raise DecodeError(what)
    return value


def _read_enum(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError as fault:
        raise DecodeError(f"{value!r} is no {kind.__name__}") from fault


def _either(decoders: Sequence[Decoder], nullable: bool) -> Decoder:
    def decode(value: Any) -> Any:
        if value is None and nullable:
            return None
        fault: DecodeError | None = None
        for attempt in decoders:
            try:
                return attempt(value)
            except DecodeError as found:
                fault = found
        raise fault or DecodeError("not null")

    return decode


def _read_list(args: tuple[Any, ...]) -> Decoder:
    same = _decoder(args[0]) if args[-1] is Ellipsis else None
    decoders = [] if same else [_decoder(arg) for arg in args]

    def decode(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise DecodeError("not a list")
        if same is None and len(value) != len(decoders):
            raise DecodeError(f"has {len(value)} items instead of {len(decoders)}")
        out: list[Any] = []
        try:
            for i, item in enumerate(value):
                out.append((same or decoders[i])(item))
        except DecodeError as fault:
            raise fault.within(f"[{len(out)}]") from fault
        return tuple(out)

    return decode


def _read_mapping(key: Any, item: Any) -> Decoder:
    name, decode, names = _decoder(key), _decoder(item), frozenset(choices(key))

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise DecodeError("not an object")
        if names:
            _check_keys(value, names)
        out = {}
        for k, v in value.items():
            try:
                out[name(k)] = decode(v)
            except DecodeError as fault:
                raise fault.within(f".{k}") from fault
        return out

    return read

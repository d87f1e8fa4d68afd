"""Converts dataclasses to plain JSON values and back, by their fields and type hints.

Enums are written by value, paths as text, tuples as lists, nested dataclasses as objects; other values already are JSON
values. Reading follows the type hints and is strict: an unknown member, a missing member, a value of another type or one
outside the limits of its annotation is an error that names the path of the member. ``members`` lists the possible
additions of an annotation.

A class may name later members in ``json_later``: fields that were added when documents and digests existed already. JSON has
them only where they differ from their defaults.

If a class sets the attribute ``json_kept`` to true, each object keeps its JSON values, because many kernels share one
signature or Reason. Such a class must be frozen. A class that hides fields without defaults has a class method
``from_members``, which makes an object from all its members.

No library replaces the readers. msgspec with a struct for each class needs 0.18 ms for a row and this module 0.20, most of it to
make the dataclasses; it turns integers into floats and words errors otherwise. Others take 50 ms and more to import.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fmha_cli.domain.members import Hidden, Key, Keyword, Then

N = TypeVar("N")
T = TypeVar("T")


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
        default: the value at which the member is left out, in a tuple; empty for a member that is always present.
    """

    name: str
    key: str
    hint: Any
    stored: bool
    default: tuple[Any, ...] = ()


def _members(kind: Any) -> tuple[Member, ...]:
    """The members of a dataclass's JSON form, in the order of its fields."""
    hints, later = get_type_hints(kind, include_extras=True), getattr(kind, "json_later", ())
    found: list[Member] = []
    for field in dataclasses.fields(kind):
        hint, notes = hints[field.name], extras(hints[field.name])
        if not any(isinstance(note, Hidden) for note in notes):
            key = next((note.text for note in notes if isinstance(note, Key)), field.name)
            found.append(Member(field.name, key, hint, True, (field.default,) if field.name in later else ()))
        for name in (name for note in notes if isinstance(note, Then) for name in note.names):
            returned = get_type_hints(getattr(kind, name).fget, include_extras=True)["return"]
            found.append(Member(name, name, returned, False))
    return tuple(found)


members_of: Callable[[Any], tuple[Member, ...]] = cache(_members)


def extras(hint: Any) -> tuple[Any, ...]:
    """The metadata that ``Annotated`` adds to a type."""
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


def taken_from(source: object, kind: type[T], /, **other: Any) -> T:
    """An object of a class that has its fields from the attributes of ``source``, except those given in ``other``.

    Raises:
        AttributeError: ``source`` lacks one of the other fields.
    """
    names = (m.name for m in members_of(kind) if m.stored and m.name not in other)
    return kind(**{name: getattr(source, name) for name in names}, **other)


def to_json(noun: object) -> dict[str, Any]:
    """The dataclass as a new object of plain JSON values; the objects in it may stand in other documents too (``json_kept``)."""
    out = {}
    for member, written in _writers_of(cast(Any, type(noun))):
        value = getattr(noun, member.name)
        if not member.default or value != member.default[0]:
            out[member.key] = value if type(value) in _AS_THEY_ARE else written(value)
    return out


class SharedJson(dict[str, Any]):
    """The JSON of a noun that stands in many places of a document, so nobody may change it."""


def shared_json(noun: object) -> SharedJson:
    """As :func:`to_json`, but the same object each time."""
    return once(noun, "_shared_json", lambda noun: SharedJson(to_json(noun)))


@cache
def _writers_of(kind: Any) -> tuple[tuple[Member, Callable[[Any], Any]], ...]:
    """The members, each with the conversion of its values; the content of a mapping to ``Any`` is JSON already."""
    return tuple((m, _same if bare(m.hint) == Mapping[str, Any] else json_of) for m in members_of(kind))


def _same(value: Any) -> Any:
    return value


def once(noun: N, key: str, make: Callable[[N], T]) -> T:
    """Compute something about a frozen dataclass once and keep it with the object.

    Equality, hash and copies ignore the kept values.
    """
    try:
        return cast(T, noun.__dict__[key])
    except KeyError:
        made = noun.__dict__[key] = make(noun)
        return made
    except AttributeError:  # a dataclass with slots
        return make(noun)


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def json_of(value: Any) -> Any:
    """Any value as plain JSON values, which other documents may share. A class with a method ``to_dict`` writes itself."""
    return value if type(value) in _AS_THEY_ARE else _writer(cast(Any, type(value)))(value)


@cache
def _writer(kind: Any) -> Callable[[Any], Any]:
    """Converts values of a class to JSON; the class is examined once, because lists have thousands of values."""
    if issubclass(kind, Enum):
        return attrgetter("_value_")
    if issubclass(kind, tuple | list):
        return lambda items: [json_of(item) for item in items]
    if issubclass(kind, Mapping):
        return lambda items: {json_of(key): json_of(item) for key, item in items.items()}
    if dataclasses.is_dataclass(kind):
        if getattr(kind, "json_kept", False):
            return shared_json
        return getattr(kind, "to_dict", to_json)
    return str if issubclass(kind, Path) else _same


def from_json(kind: type[T], data: Any, where: str = "") -> T:
    """The inverse of :func:`to_json`.

    Args:
        where: the start of the path in an error (``record``).

    Raises:
        DecodeError: a member is unknown, missing or of another type, or the class refuses the values.
    """
    try:
        return cast(T, _reader(cast(Any, kind))(data))
    except DecodeError as fault:
        raise (fault.within(where) if where else DecodeError(fault.what, fault.path.lstrip("."))) from fault


_WORDS = {int: "not an integer", float: "not a number", str: "not a text", bool: "not true or false"}

_Reader = Callable[[Any], Any]
"""Takes a JSON value and returns that of the type for which it was made, or raises DecodeError."""


@cache
def _reader(hint: Any) -> _Reader:
    """The reader of a type, which is examined once: a stored run has thousands of values of each type."""
    if limits := [note for note in extras(hint) if isinstance(note, Keyword)]:
        return _limited(_reader(bare(hint)), limits)
    hint = bare(hint)
    origin, args, kinds = get_origin(hint), get_args(hint), alternatives(hint)
    if len(kinds) > 1:
        return _reader_of_union(kinds)
    if hint is Any:
        return lambda value: value
    if origin is Literal:
        return _reader_of_choices({value: value for value in args}, f"not {' or '.join(map(str, args))}")
    if origin is tuple:
        return _reader_of_list(args)
    if origin in (Mapping, dict):
        return _reader_of_mapping(*args)
    if dataclasses.is_dataclass(hint):
        return _reader_of_object(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _reader_of_choices({member.value: member for member in hint}, f"{{!r}} is not a valid {hint.__name__}")
    if hint is Path:
        text = _reader(str)
        return lambda value: Path(text(value))
    if hint in _WORDS:
        return _reader_of_word(hint)
    raise TypeError(f"a member of type {hint} has no JSON form")


def _limited(read: _Reader, limits: Sequence[Keyword]) -> _Reader:
    def limited(value: Any) -> Any:
        found = read(value)
        for limit in limits if value is not None else ():
            if not limit.allows(value):
                raise DecodeError(limit.refusal)
        return found

    return limited


def _reader_of_word(kind: type) -> _Reader:
    def word(value: Any) -> Any:
        if type(value) is kind or (kind is float and type(value) is int and value.bit_length() <= 1023):
            return value  # an integer in JSON can stand for a float
        raise DecodeError(_WORDS[kind])

    return word


def _reader_of_choices(found: Mapping[Any, Any], refusal: str) -> _Reader:
    def choice(value: Any) -> Any:
        try:
            return found[value]
        except (KeyError, TypeError):  # a list cannot be a key
            raise DecodeError(refusal.format(value)) from None

    return choice


def _reader_of_union(kinds: Sequence[Any]) -> _Reader:
    *others, last = (_reader(kind) for kind in kinds if kind is not type(None))
    optional = type(None) in kinds

    def union(value: Any) -> Any:
        if value is None and optional:
            return None
        for read in others:
            with suppress(DecodeError):
                return read(value)
        return last(value)

    return union


def _check_keys(data: Mapping[str, Any], names: Set[str]) -> None:
    if data.keys() != names:
        lacking, surprising = sorted(names - data.keys()), sorted(map(str, data.keys() - names))
        raise DecodeError(f"lacks {', '.join(lacking)}" if lacking else f"unknown: {', '.join(surprising)}")


def _reader_of_list(args: Sequence[Any]) -> _Reader:
    readers = tuple(_reader(hint) for hint in args if hint is not Ellipsis)

    def items(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise DecodeError("not a list")
        each = readers * len(value) if Ellipsis in args else readers
        if len(value) != len(each):
            raise DecodeError(f"has {len(value)} items instead of {len(each)}")
        found: list[Any] = []
        try:
            for read, item in zip(each, value, strict=True):
                found.append(read(item))
        except DecodeError as fault:
            raise fault.within(f"[{len(found)}]") from fault
        return tuple(found)

    return items


def _reader_of_mapping(key: Any, item: Any) -> _Reader:
    names, read_key, read_item = frozenset(choices(key)), _reader(key), _reader(item)

    def mapping(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise DecodeError("not an object")
        if names:
            _check_keys(value, names)
        found, name = {}, None
        try:
            for name, held in value.items():
                found[read_key(name)] = read_item(held)
        except DecodeError as fault:
            raise fault.within(f".{name}") from fault
        return found

    return mapping


def _reader_of_object(kind: Any) -> _Reader:
    """The readers of its members are made when it is first read: a type may hold itself.

    A member that follows from others may be absent, as in an object of a version that did not have it yet.
    """
    make = getattr(kind, "from_members", None)
    readers = cache(lambda: [(member, _reader(member.hint)) for member in members_of(kind)])
    names = cache(lambda: {member.key for member in members_of(kind)})

    def noun(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise DecodeError("not an object")
        members = readers()
        if value.keys() != names():
            members = [one for one in members if one[0].key in value or (one[0].stored and not one[0].default)]
            _check_keys(value, {member.key for member, _ in members})
        values = {}
        for member, read in members:
            try:
                found = read(value[member.key])
            except DecodeError as fault:
                raise fault.within(f".{member.key}") from fault
            if member.stored or make:
                values[member.name] = found
        try:
            return make(values) if make else kind(**values)
        except KeyError as fault:  # of a derived member, which may be absent unless ``from_members`` reads it
            raise DecodeError(f"lacks {fault.args[0]}") from fault
        except (TypeError, ValueError) as fault:
            raise DecodeError(str(fault)) from fault

    return noun

"""Converts dataclasses to plain JSON values and back, by their fields and type hints.

Enums are written by value, paths as text, tuples as lists, nested dataclasses as objects; other values already are JSON
values. Reading follows the type hints and is strict: an unknown member, a missing member, a value of another type or one
outside the limits of its annotation is an error that names the path of the member. ``members`` lists the possible
additions of an annotation.

A class may name later members in ``json_later``: fields that were added when documents and digests existed already. JSON has
them only where they differ from their defaults.

If a class sets the attribute ``json_kept`` to true, each object keeps its JSON values, because many kernels share one
signature or Reason. Such a class must be frozen and flat. A class that hides fields without defaults has a class method
``from_members``, which makes an object from all its members.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence, Set
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

    @property
    def written(self) -> Callable[[Any], Any]:
        """Converts a value to JSON; the content of a mapping to ``Any`` is JSON already, and so are lists of such
        mappings.
        """
        hint = bare(self.hint)
        return dict if hint == Mapping[str, Any] else list if hint == tuple[Mapping[str, Any], ...] else _plain


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
    """The dataclass as a new object of plain JSON values."""
    if not getattr(noun, "json_kept", False):
        return _written(noun)
    kept = shared_json(noun)
    out = kept.copy()
    for name in once(noun, "_json_lists", lambda _: [key for key, value in kept.items() if type(value) is list]):
        out[name] = kept[name].copy()
    return out


class SharedJson(dict[str, Any]):
    """The JSON of a noun that stands in many places of a document, so nobody may change it."""


def shared_json(noun: object) -> SharedJson:
    """As :func:`to_json`, but the same object each time."""
    return once(noun, "_json", lambda noun: SharedJson(_written(noun)))


def _written(noun: object) -> dict[str, Any]:
    out = {}
    for name, key, written, default in _writers_of(cast(Any, type(noun))):
        value = getattr(noun, name)
        if not default or value != default[0]:
            out[key] = value if type(value) in _AS_THEY_ARE else written(value)
    return out


@cache
def _writers_of(kind: Any) -> tuple[tuple[str, str, Callable[[Any], Any], tuple[Any, ...]], ...]:
    """Name, key, conversion and default of each member."""
    return tuple((member.name, member.key, member.written, member.default) for member in members_of(kind))


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


def _plain(value: Any) -> Any:
    return value if type(value) in _AS_THEY_ARE else _writer(cast(Any, type(value)))(value)


@cache
def _writer(kind: Any) -> Callable[[Any], Any]:
    """Converts values of a class to JSON; the class is examined once, because lists have thousands of values."""
    if issubclass(kind, Enum):
        return attrgetter("_value_")
    if issubclass(kind, tuple | list):
        return lambda items: [_plain(item) for item in items]
    if issubclass(kind, Mapping):
        return lambda items: {_plain(key): _plain(item) for key, item in items.items()}
    if dataclasses.is_dataclass(kind):
        return to_json
    return str if issubclass(kind, Path) else lambda value: value


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
    if get_origin(hint) is Annotated:
        limits = tuple(limit for limit in extras(hint) if isinstance(limit, Keyword))
        return _limited(_reader(bare(hint)), limits) if limits else _reader(bare(hint))
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
        return _reader_of_mapping(args[0], args[1])
    if dataclasses.is_dataclass(hint):
        return _reader_of_object(cast(Any, hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _reader_of_choices(
            {member.value: member for member in hint}, f"is not a valid {hint.__name__}", told=True
        )
    if hint is Path:
        text = _reader(str)
        return lambda value: Path(text(value))
    if hint in _WORDS:
        return _reader_of_word(hint)
    raise TypeError(f"a member of type {hint} has no JSON form")


def _limited(read: _Reader, limits: tuple[Keyword, ...]) -> _Reader:
    def limited(value: Any) -> Any:
        found = read(value)
        if value is not None:
            for limit in limits:
                if not limit.allows(value):
                    raise DecodeError(limit.refusal)
        return found

    return limited


def _reader_of_word(kind: type) -> _Reader:
    what = _WORDS[kind]

    def word(value: Any) -> Any:
        if type(value) is kind or (kind is float and _is_float(value)):
            return value
        raise DecodeError(what)

    return word


def _reader_of_choices(found: Mapping[Any, Any], what: str, *, told: bool = False) -> _Reader:
    """``told``: the refusal begins with the value."""

    def choice(value: Any) -> Any:
        try:
            return found[value]
        except (KeyError, TypeError):  # a list cannot be a key
            raise DecodeError(f"{value!r} {what}" if told else what) from None

    return choice


def _is_float(value: Any) -> bool:
    """Whether an integer in JSON can stand for a float."""
    return type(value) is int and value.bit_length() <= 1023


def _checked(value: Any, good: bool, what: str) -> Any:
    if not good:
        raise DecodeError(what)
    return value


def _check_keys(data: Mapping[str, Any], names: Set[str]) -> None:
    if data.keys() != names:
        lacking, surprising = sorted(names - data.keys()), sorted(map(str, data.keys() - names))
        raise DecodeError(f"lacks {', '.join(lacking)}" if lacking else f"unknown: {', '.join(surprising)}")


def _part(part: str, read: _Reader, value: Any) -> Any:
    try:
        return read(value)
    except DecodeError as fault:
        raise fault.within(part) from fault


def _reader_of_union(kinds: Sequence[Any]) -> _Reader:
    readers = tuple(_reader(kind) for kind in kinds if kind is not type(None))
    optional = len(readers) < len(kinds)

    def union(value: Any) -> Any:
        if value is None and optional:
            return None
        fault = DecodeError("not null")
        for read in readers:
            try:
                return read(value)
            except DecodeError as found:
                fault = found
        raise fault

    return union


def _reader_of_list(args: Sequence[Any]) -> _Reader:
    same = args[-1] is Ellipsis
    readers = tuple(_reader(hint) for hint in args if hint is not Ellipsis)
    word = args[0] if same and args[0] in _WORDS else None

    def items(value: Any) -> tuple[Any, ...]:
        _checked(value, isinstance(value, list | tuple), "not a list")
        if word is not None and all(type(item) is word for item in value):
            return tuple(value)
        each = readers * len(value) if same else readers
        _checked(value, len(value) == len(each), f"has {len(value)} items instead of {len(each)}")
        return tuple(_part(f"[{i}]", read, item) for i, (read, item) in enumerate(zip(each, value, strict=True)))

    return items


def _reader_of_mapping(key: Any, item: Any) -> _Reader:
    names, read_key, read_item = frozenset(choices(key)), _reader(key), _reader(item)

    def mapping(value: Any) -> dict[Any, Any]:
        _checked(value, isinstance(value, Mapping), "not an object")
        if names:
            _check_keys(value, names)
        return {_part(f".{k}", read_key, k): _part(f".{k}", read_item, v) for k, v in value.items()}

    return mapping


def _reader_of_object(kind: Any) -> _Reader:
    """The readers of its members are made when it is first read: a type may hold itself."""
    make = getattr(kind, "from_members", None)

    def noun(value: Any) -> Any:
        _checked(value, isinstance(value, Mapping), "not an object")
        members, names = _member_readers(kind)
        if value.keys() != names:
            members = tuple(m for m in members if m[0].key in value or not m[0].default)
            _check_keys(value, frozenset(member.key for member, _ in members))
        values = {}
        for member, read in members:
            try:
                values[member.name] = read(value[member.key])
            except DecodeError as fault:
                raise fault.within(f".{member.key}") from fault
        try:
            if make is not None:
                return make(values)
            return kind(**{member.name: values[member.name] for member, _ in members if member.stored})
        except (TypeError, ValueError) as fault:
            raise DecodeError(str(fault)) from fault

    return noun


@cache
def _member_readers(kind: Any) -> tuple[tuple[tuple[Member, _Reader], ...], frozenset[str]]:
    """The members of a class, each with the reader of its type, and the keys of all."""
    members = members_of(kind)
    return tuple((member, _reader(member.hint)) for member in members), frozenset(member.key for member in members)

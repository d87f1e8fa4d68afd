"""Converts dataclasses to plain JSON values and back, by their fields and type hints.

Enums are written by value, paths as text, tuples as lists, nested dataclasses as objects; other values already are JSON
values. Reading follows the type hints and is strict: an unknown member, a missing member, a value of another type or one
outside the limits of its annotation is an error that names the path of the member. ``members`` lists what an annotation
may add.

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
        """Converts a value to JSON; what a mapping to ``Any`` holds is JSON already, and so are lists of such mappings."""
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
    kept = once(noun, "_json", lambda: _written(noun))
    out = kept.copy()
    for name in once(noun, "_json_lists", lambda: [key for key, value in kept.items() if type(value) is list]):
        out[name] = kept[name].copy()
    return out


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


def once(noun: object, key: str, make: Callable[[], T]) -> T:
    """Compute something about a frozen dataclass once and keep it with the object.

    Equality, hash and copies ignore what is kept.
    """
    kept: dict[str, Any] | None = getattr(noun, "__dict__", None)
    if kept is None:  # a dataclass with slots
        return make()
    if key not in kept:
        kept[key] = make()
    return cast(T, kept[key])


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
        return cast(T, _read_object(kind, data))
    except DecodeError as fault:
        raise (fault.within(where) if where else DecodeError(fault.what, fault.path.lstrip("."))) from fault


_WORDS = {int: "not an integer", float: "not a number", str: "not a text", bool: "not true or false"}


def _read(hint: Any, value: Any) -> Any:
    if get_origin(hint) is Annotated:
        found = _read(bare(hint), value)
        if value is not None:
            for limit in extras(hint):
                if isinstance(limit, Keyword) and not limit.allows(value):
                    raise DecodeError(limit.refusal)
        return found
    origin, args, kinds = get_origin(hint), get_args(hint), alternatives(hint)
    if len(kinds) > 1:
        return _read_union(kinds, value)
    if hint is Any:
        return value
    if origin is Literal:
        return _checked(value, value in args, f"not {' or '.join(map(str, args))}")
    if origin is tuple:
        return _read_list(args, value)
    if origin in (Mapping, dict):
        return _read_mapping(args[0], args[1], value)
    if dataclasses.is_dataclass(hint):
        return _read_object(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(_checked(value, value in choices(hint), f"{value!r} is not a valid {hint.__name__}"))
    if hint is Path:
        return Path(_read(str, value))
    if hint in _WORDS:
        return _checked(value, type(value) is hint or (hint is float and _is_float(value)), _WORDS[hint])
    raise TypeError(f"a member of type {hint} has no JSON form")


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


def _read_part(part: str, hint: Any, value: Any) -> Any:
    try:
        return _read(hint, value)
    except DecodeError as fault:
        raise fault.within(part) from fault


def _read_union(kinds: Sequence[Any], value: Any) -> Any:
    if value is None and type(None) in kinds:
        return None
    fault = DecodeError("not null")
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, value)
            except DecodeError as found:
                fault = found
    raise fault


def _read_list(args: Sequence[Any], value: Any) -> tuple[Any, ...]:
    _checked(value, isinstance(value, list | tuple), "not a list")
    hints = [args[0]] * len(value) if args[-1] is Ellipsis else args
    _checked(value, len(value) == len(hints), f"has {len(value)} items instead of {len(hints)}")
    return tuple(_read_part(f"[{i}]", hint, item) for i, (hint, item) in enumerate(zip(hints, value, strict=True)))


def _read_mapping(key: Any, item: Any, value: Any) -> dict[Any, Any]:
    _checked(value, isinstance(value, Mapping), "not an object")
    if names := choices(key):
        _check_keys(value, frozenset(names))
    return {_read_part(f".{k}", key, k): _read_part(f".{k}", item, v) for k, v in value.items()}


def _read_object(kind: Any, value: Any) -> Any:
    _checked(value, isinstance(value, Mapping), "not an object")
    members = tuple(m for m in members_of(kind) if m.key in value or not m.default)
    _check_keys(value, frozenset(m.key for m in members))
    values = {m.name: _read_part(f".{m.key}", m.hint, value[m.key]) for m in members}
    try:
        if hasattr(kind, "from_members"):
            return kind.from_members(values)
        return kind(**{m.name: values[m.name] for m in members if m.stored})
    except (TypeError, ValueError) as fault:
        raise DecodeError(str(fault)) from fault

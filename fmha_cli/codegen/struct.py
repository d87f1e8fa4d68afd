"""Argument blocks: one Python dataclass gives the C struct, the ctypes structure and the table that proves them equal.

A kernel library exports the version and size of the struct that it was compiled with, and every field's name, offset
and size. The host compares all of them before the first call, so it never calls a library whose layout differs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints


@dataclass(frozen=True)
class CType:
    """A C type.

    Attributes:
        spelling: its name in C.
        ctype: the ctypes class with the same size and, unless ``align`` is more, alignment.
        align: bytes of whose multiples its offset is.
    """

    spelling: str
    ctype: Any
    align: int = 1


Pointer = Annotated[int, CType("void*", ctypes.c_void_p)]
ConstPointer = Annotated[int, CType("const void*", ctypes.c_void_p)]
ConstFloats = Annotated[int, CType("const float*", ctypes.c_void_p)]
ConstInts = Annotated[int, CType("const int64_t*", ctypes.c_void_p)]
ConstInt32s = Annotated[int, CType("const int32_t*", ctypes.c_void_p)]
Floats = Annotated[int, CType("float*", ctypes.c_void_p)]
Int32s = Annotated[int, CType("int*", ctypes.c_void_p)]
Int64s = Annotated[int, CType("int64_t*", ctypes.c_void_p)]
UInt64s = Annotated[int, CType("uint64_t*", ctypes.c_void_p)]
Int64 = Annotated[int, CType("int64_t", ctypes.c_int64)]
Int32 = Annotated[int, CType("int32_t", ctypes.c_int32)]
UInt32 = Annotated[int, CType("uint32_t", ctypes.c_uint32)]
UInt64 = Annotated[int, CType("uint64_t", ctypes.c_uint64)]
UInt8 = Annotated[int, CType("uint8_t", ctypes.c_uint8)]
Int16 = Annotated[int, CType("int16_t", ctypes.c_int16)]
Int8 = Annotated[int, CType("int8_t", ctypes.c_int8)]
Bool = Annotated[bool, CType("bool", ctypes.c_bool)]
Float32 = Annotated[float, CType("float", ctypes.c_float)]
Float64 = Annotated[float, CType("double", ctypes.c_double)]
TensorMap = Annotated[Any, CType("CUtensorMap", ctypes.c_uint64 * 16)]
"""A TMA descriptor, as a separate parameter. The compiler aligns it to 64 bytes, ctypes to 8."""


def record(spelling: str, **members: Any) -> Any:
    """The type of a field that is a C struct: its name in C, and its members with their ctypes classes. Its values are tuples
    of the members' values, from the first on."""
    made = type(spelling.rpartition(":")[2], (ctypes.Structure,), {"_fields_": list(members.items())})
    return Annotated[tuple[Any, ...], CType(spelling, made)]


_PLAIN: tuple[Any, ...] = (
    *(Pointer, Floats, Int32s, Int64s, UInt64s),
    *(Int64, UInt64, Int32, UInt32, Int16, UInt8, Int8, Bool, Float32),
)

Rows = Sequence[tuple[Any, str] | tuple[Any, str, Any]]
"""Runs of fields: their common annotation, their names in one text, and their common default if they have one."""


class ArgumentBlock:
    """The base of argument blocks with many fields of few types. Every subclass is a frozen, keyword-only dataclass.

    Attributes:
        rows: the class's own fields in order. They follow those of its bases.
    """

    rows: ClassVar[Rows] = ()

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

    def __init_subclass__(cls) -> None:
        own: dict[str, Any] = {}
        for kind, names, *default in cls.__dict__.get("rows", ()):
            for name in names.split():
                own[name] = kind
                if default:
                    setattr(cls, name, default[0])
        cls.__annotations__ = own
        dataclass(frozen=True, kw_only=True)(cls)


def make_typed_rows(rows: Iterable[Sequence[str]], more: Mapping[str, tuple[Any, Any]]) -> Rows:
    """The fields of an argument block from their C types and names. Numbers and pointers are 0 by default.

    Args:
        rows: (C type, names in one text), and more members that are for people.
        more: C type -> annotation and default, for types that are not numbers or pointers.

    Raises:
        KeyError: an unknown type.
    """
    known = {get_args(kind)[1].spelling: (kind, get_args(kind)[0](0)) for kind in _PLAIN} | dict(more)
    return tuple((known[kind][0], names, known[kind][1]) for kind, names, *_ in rows)


Layout = tuple[tuple[str, int, int], ...]
"""(name, offset, size) of every field, in order."""


@cache
def c_fields(block: type) -> tuple[tuple[str, CType], ...]:
    """The fields of an argument block with their C types.

    Raises:
        TypeError: the annotation of a field has no ``CType``.
    """
    hints = get_type_hints(block, include_extras=True)
    out = []
    for field in fields(block):
        marks = [a for a in get_args(hints[field.name]) if isinstance(a, CType)]
        if len(marks) != 1:
            raise TypeError(f"{block.__name__}.{field.name} has no C type")
        out.append((field.name, marks[0]))
    return tuple(out)


@cache
def ctypes_structure(block: type) -> type[ctypes.Structure]:
    """The ``ctypes.Structure`` of an argument block. What a larger alignment leaves free is a member ``_free…``."""
    members: list[tuple[str, Any]] = []
    end = 0
    for name, kind in c_fields(block):
        start = end + -end % max(kind.align, ctypes.alignment(kind.ctype))
        members += (*_free(start - end, len(members)), (name, kind.ctype)) if kind.align > 1 else ((name, kind.ctype),)
        end = start + ctypes.sizeof(kind.ctype)
    members += _free(-end % block_alignment(block), len(members))
    return type(block.__name__, (ctypes.Structure,), {"_fields_": members})


def block_alignment(block: type) -> int:
    """The bytes of whose multiples the block's address is, where a field demands it; else 1."""
    return max((kind.align for _, kind in c_fields(block)), default=1)


def _free(size: int, number: int) -> list[tuple[str, Any]]:
    return [(f"_free{number}", ctypes.c_char * size)] if size else []


@cache
def host_layout(block: type) -> Layout:
    """The layout of the block on the host."""
    structure = ctypes_structure(block)
    marks = [(name, getattr(structure, name)) for name, _ in c_fields(block)]
    return tuple((name, mark.offset, mark.size) for name, mark in marks)


def pack(block: Any) -> ctypes.Structure:
    """An argument block's values as its ``ctypes.Structure``."""
    kind: type = type(block)
    return ctypes_structure(kind)(**{name: getattr(block, name) for name, _ in c_fields(kind)})


def struct_text(block: type) -> str:
    """The C definition of an argument block."""
    lines = [f"  {kind.spelling} {name};" for name, kind in c_fields(block)]
    return "\n".join([f"struct {block.__name__} {{", *lines, "};", ""])


def table_text(block: type, prefix: str, version: int) -> str:
    """The C definitions of the exported data from which :func:`layout_faults` reads the compiled layout."""
    name, names = block.__name__, [n for n, _ in c_fields(block)]
    rows = "".join(f",\n  offsetof({name}, {n}), sizeof((({name}*)0)->{n})" for n in names)
    return (
        f'extern "C" EXPORT const uint32_t {prefix}_abi_table[] = {{{version}, sizeof({name}), {len(names)}{rows}}};\n'
        f'extern "C" EXPORT const char {prefix}_abi_names[] = "{" ".join(names)}";\n'
    )


def layout_faults(library: ctypes.CDLL, block: type, prefix: str, version: int) -> list[str]:
    """Every difference between the layout that a library was compiled with and the host's; empty when they agree."""
    try:
        head = (ctypes.c_uint32 * 3).in_dll(library, f"{prefix}_abi_table")
        words = (ctypes.c_uint32 * (3 + 2 * head[2])).in_dll(library, f"{prefix}_abi_table")
        names = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, f"{prefix}_abi_names"))).decode()
    except ValueError as missing:
        return [f"the library exports no ABI table: {missing}"]
    size = ctypes.sizeof(ctypes_structure(block))
    faults = [] if head[0] == version else [f"ABI version {head[0]}, the host expects {version}"]
    if head[1] != size:
        faults.append(f"sizeof({block.__name__}) is {head[1]}, the host's is {size}")
    there = tuple(zip(names.split(), words[3::2], words[4::2], strict=False))
    if len(there) != head[2]:
        faults.append(f"the library names {len(there)} fields and counts {head[2]}")
    here = host_layout(block)
    theirs, ours = {n: (o, s) for n, o, s in there}, {n: (o, s) for n, o, s in here}
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            faults.append(f"field {name}: (offset, size) {theirs.get(name)} in the library, {ours.get(name)} here")
    return faults

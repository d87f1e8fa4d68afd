"""A reader of 64-bit little-endian ELF files (code objects, cubins, shared libraries): sections, symbols and notes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS, _SHT_DYNSYM = 2, 7, 8, 11
_STT_OBJECT, _STT_FUNC = 1, 2
_LONGEST_NAME = 1 << 16

MACHINES = {62: "x86_64", 183: "aarch64"}
"""Hosts by ``e_machine`` (System V ABI, ELF header: EM_X86_64, EM_AARCH64), as Linux spells them."""


class MalformedObject(ValueError):
    """Bytes that do not have the expected form. The message names the part."""


@dataclass(frozen=True)
class Section:
    """One section.

    Attributes:
        kind: ``sh_type``.
        address: where it is loaded.
        link: index of the section that it refers to.
        info: ``sh_info``.
        size: ``sh_size``, even if the file holds none of its bytes.
        data: its bytes in the file; may be none.
    """

    name: str
    kind: int
    address: int
    link: int
    info: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    """One symbol with its address, its size in bytes and whether it is a function.

    Attributes:
        section: index of its section.
        other: ``st_other``.
        is_data: whether it is a variable, ``STT_OBJECT``.
    """

    name: str
    address: int
    size: int
    is_function: bool
    section: int = 0
    other: int = 0
    is_data: bool = False


@dataclass(frozen=True)
class Note:
    """One note: its owner, its type, its content."""

    owner: str
    kind: int
    data: bytes


class Elf:
    """The parts of one ELF file.

    Args:
        raw: the whole file.

    Attributes:
        machine, flags: ``e_machine``, ``e_flags``; abi, abi_version: ``EI_OSABI``, ``EI_ABIVERSION``.

    Raises:
        MalformedObject: no 64-bit little-endian ELF, or a part that is outside the file.
    """

    def __init__(self, raw: bytes) -> None:
        if raw[:6] != b"\x7fELF\x02\x01":
            raise MalformedObject("not a 64-bit little-endian ELF file")
        self._raw = raw
        header = _unpack(_HEADER, raw, 0, "the ELF header")
        self.machine, self.flags, self.abi, self.abi_version = header[2], header[7], raw[7], raw[8]
        self._table, self._entry, self._count, self._names = header[6], header[11], header[12], header[13]

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections, in the order of the file.

        Raises:
            MalformedObject: a section is outside the file, or together they claim more than twice its bytes.
        """
        heads = [
            _unpack(_SECTION, self._raw, self._table + i * self._entry, f"section header {i}")
            for i in range(self._count)
        ]
        if sum(head[5] for head in heads if head[1] != _SHT_NOBITS) > 2 * len(self._raw):
            raise MalformedObject("the sections overlap")
        contents = [b"" if h[1] == _SHT_NOBITS else self._slice(h[4], h[5]) for h in heads]
        names = contents[self._names] if self._names < len(contents) else b""
        return tuple(
            Section(_text_at(names, h[0]), h[1], h[3], h[6], h[7], h[5], data)
            for h, data in zip(heads, contents, strict=True)
        )

    def section(self, name: str) -> Section | None:
        """The first section with a name."""
        return next((section for section in self.sections if section.name == name), None)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the full table, or of the dynamic table if the file was stripped."""
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            for table in self.sections:
                if table.kind == kind and table.link < len(self.sections):
                    return tuple(_symbols(table.data, self.sections[table.link].data))
        return ()

    @property
    def notes(self) -> Iterator[Note]:
        """Every note of every note section.

        Raises:
            MalformedObject: a note is longer than its section.
        """
        for section in self.sections:
            if section.kind == _SHT_NOTE:
                yield from _notes(section.data)

    def at(self, address: int, size: int) -> bytes:
        """The bytes that will be at an address once the file is loaded.

        Raises:
            MalformedObject: no section holds them.
        """
        for section in self.sections:
            start = address - section.address
            if section.address and start >= 0 and start + size <= len(section.data):
                return section.data[start : start + size]
        raise MalformedObject(f"nothing is at address {address:#x}")

    def _slice(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._raw):
            raise MalformedObject("a section is outside the file")
        return self._raw[offset : offset + size]


def machine_of_file(path: Path) -> str | None:
    """The host that a file's code is for; None if it is not an ELF file, or is for another host.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(20)
    return MACHINES.get(int.from_bytes(head[18:20], "little")) if head[:4] == b"\x7fELF" else None


def _unpack(form: struct.Struct, raw: bytes, offset: int, what: str) -> tuple[int, ...]:
    if offset + form.size > len(raw):
        raise MalformedObject(f"{what} is outside the file")
    return form.unpack_from(raw, offset)


def _text_at(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset, offset + _LONGEST_NAME)
    if end < 0 and len(table) - offset > _LONGEST_NAME:
        raise MalformedObject("a name is too long")
    return table[offset : end if end >= 0 else len(table)].decode("utf-8", "replace")


def _symbols(table: bytes, names: bytes) -> Iterator[Symbol]:
    for offset in range(0, len(table) - _SYMBOL.size + 1, _SYMBOL.size):
        name, info, other, section, address, size = _SYMBOL.unpack_from(table, offset)
        kind = info & 0xF
        yield Symbol(_text_at(names, name), address, size, kind == _STT_FUNC, section, other, kind == _STT_OBJECT)


def _notes(data: bytes) -> Iterator[Note]:
    offset = 0
    while offset < len(data):
        name_size, size, kind = _unpack(_NOTE, data, offset, "a note")
        name_at = offset + _NOTE.size
        data_at = name_at + (name_size + 3) // 4 * 4
        if data_at + size > len(data):
            raise MalformedObject("a note is longer than its section")
        yield Note(data[name_at : name_at + name_size].rstrip(b"\0").decode("latin-1"), kind, data[data_at:][:size])
        offset = data_at + (size + 3) // 4 * 4

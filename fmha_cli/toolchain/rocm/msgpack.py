"""The part of MessagePack that AMDGPU metadata uses: maps, arrays, text, integers, booleans, nil."""

from __future__ import annotations

import struct
from typing import Any

from fmha_cli.toolchain.elf import MalformedObject

_NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_FLOATS = {0xCA: ">f", 0xCB: ">d"}
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_ARRAYS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}
_SINGLES: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_DEPTH = 64


def decode(data: bytes) -> Any:
    """One value (https://github.com/msgpack/msgpack/blob/master/spec.md); bytes behind it are ignored.

    Raises:
        MalformedObject: it is cut short, nested too deep, or of a type that metadata does not use.
    """
    return _Reader(data).value(0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise MalformedObject("metadata is nested too deep")
        tag = self.take(1)[0]
        if tag <= 0x7F:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag <= 0x8F:
            return self.map(tag & 0x0F, depth)
        if tag <= 0x9F:
            return self.array(tag & 0x0F, depth)
        if tag <= 0xBF:
            return self.text(tag & 0x1F)
        if tag in _SINGLES:
            return _SINGLES[tag]
        if tag in _NUMBERS or tag in _FLOATS:
            return self.number((_NUMBERS | _FLOATS)[tag])
        if tag in _TEXTS:
            return self.text(self.number(_TEXTS[tag]))
        if tag in _ARRAYS:
            return self.array(self.number(_ARRAYS[tag]), depth)
        if tag in _MAPS:
            return self.map(self.number(_MAPS[tag]), depth)
        raise MalformedObject(f"metadata holds a value of type {tag:#x}")

    def take(self, count: int) -> bytes:
        found = self.data[self.offset : self.offset + count]
        if len(found) != count:
            raise MalformedObject("metadata is cut short")
        self.offset += count
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, size: int) -> str:
        return self.take(size).decode("utf-8", "replace")

    def array(self, count: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(count)]

    def map(self, count: int, depth: int) -> dict[Any, Any]:
        out = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, str | int):
                raise MalformedObject("metadata has a key that is neither text nor number")
            out[key] = self.value(depth + 1)
        return out

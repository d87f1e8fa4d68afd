"""Device code inside a host library: the section ``.hip_fatbin`` with its offload bundles.

Source: clang's documentation, "Clang Offload Bundler" (bundled binary layout, compressed offload bundles).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.installation import import_modules
from fmha_cli.toolchain.elf import Elf, MalformedObject
from fmha_cli.toolchain.rocm.metadata import INSTALL_HELP, target_of

FATBIN_SECTION = ".hip_fatbin"
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_PACKED_MAGIC = b"CCOB"
_U64 = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_PACKED: Mapping[int, struct.Struct] = {
    1: struct.Struct("<4sHHI8s"),
    2: struct.Struct("<4sHHII8s"),
    3: struct.Struct("<4sHHQQ8s"),
}
"""Headers of compressed bundles by version: magic, version, method, [size in the file,] size unpacked, hash."""

_ZLIB, _ZSTD = 0, 1
_EM_AMDGPU = 224


@dataclass(frozen=True)
class CodeObject:
    """One device ELF and its target (``gfx942``, ``gfx90a:xnack-``)."""

    target: str
    data: bytes

    @property
    def arch(self) -> str:
        """The target without its feature flags."""
        return self.target.partition(":")[0]


def code_objects(library: bytes) -> tuple[CodeObject, ...]:
    """The device code objects of a host library, of a bundle, or the code object itself, in their order.

    Raises:
        MalformedObject: it is none of these, or a bundle is damaged or packed by an unknown method.
    """
    if library[:4] == b"\x7fELF":
        elf = Elf(library)
        if elf.machine == _EM_AMDGPU:
            return (CodeObject(target_of(library), library),)
        section = elf.section(FATBIN_SECTION)
        if section is None:
            raise MalformedObject(f"the library holds no device code (section {FATBIN_SECTION})")
        library = section.data
    return tuple(_all_bundles(library))


def _all_bundles(data: bytes) -> Iterator[CodeObject]:
    """Every code object of every bundle: the linker appends one bundle for each translation unit."""
    offset, found = 0, False
    while (start := _next_bundle(data, offset)) is not None:
        found = True
        if data.startswith(_PACKED_MAGIC, start):
            packed, offset = _packed_extent(data, start)
            yield from _bundle(_unpack(packed), 0)[0]
        else:
            objects, offset = _bundle(data, start)
            yield from objects
    if not found:
        raise MalformedObject("the device code is not an offload bundle")


def _next_bundle(data: bytes, offset: int) -> int | None:
    places = [place for magic in (_MAGIC, _PACKED_MAGIC) if (place := data.find(magic, offset)) >= 0]
    return min(places, default=None)


def _bundle(data: bytes, start: int) -> tuple[list[CodeObject], int]:
    """The device entries of a plain bundle, and where it ends."""
    objects = []
    try:
        count = _U64.unpack_from(data, start + len(_MAGIC))[0]
        place = end = start + len(_MAGIC) + _U64.size
        for _ in range(count):
            offset, size, length = _ENTRY.unpack_from(data, place)
            name = data[place + _ENTRY.size : place + _ENTRY.size + length].decode("utf-8", "replace")
            place += _ENTRY.size + length
            content = data[start + offset : start + offset + size]
            if len(content) != size:
                raise MalformedObject(f"the code object of {name} is cut short")
            end = max(end, place, start + offset + size)
            if size and not name.startswith("host"):
                objects.append(CodeObject(_target_in(name), content))
    except struct.error:
        raise MalformedObject("an offload bundle is cut short") from None
    return objects, end


def _target_in(entry: str) -> str:
    """The target behind the four parts of the triple: ``gfx90a:xnack-`` of ``hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-``."""
    return entry.split("-", 5)[-1] if entry.count("-") >= 5 else entry


def _packed_extent(data: bytes, start: int) -> tuple[bytes, int]:
    """A compressed bundle and its end. Version 1 does not state its size, so it reaches to the next bundle."""
    version = int.from_bytes(data[start + 4 : start + 6], "little")
    if version not in _PACKED:
        raise MalformedObject(f"a compressed offload bundle has the unknown version {version}")
    if version == 1:
        end = _next_bundle(data, start + 4) or len(data)
    else:
        try:
            end = start + _PACKED[version].unpack_from(data, start)[3]
        except struct.error:
            raise MalformedObject("a compressed offload bundle is cut short") from None
    return data[start:end], end


def _unpack(packed: bytes) -> bytes:
    header = _PACKED[int.from_bytes(packed[4:6], "little")]
    method = int.from_bytes(packed[6:8], "little")
    if method not in (_ZLIB, _ZSTD):
        raise MalformedObject(f"a compressed offload bundle is packed by the unknown method {method}")
    unpacker: Any = zlib.decompressobj()
    damaged: type[Exception] = zlib.error
    if method == _ZSTD:
        (zstandard,) = import_modules(["zstandard"], "zstandard", "B012", INSTALL_HELP)
        unpacker, damaged = zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
    try:
        data: bytes = unpacker.decompress(packed[header.size :])
    except damaged as error:
        raise MalformedObject(f"a compressed offload bundle is damaged: {error}") from error
    if not unpacker.eof:
        raise MalformedObject("a compressed offload bundle is damaged: it ends too early")
    return data

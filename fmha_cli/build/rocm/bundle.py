"""The code objects in a library of host and device code: clang's offload bundle in the section ``.hip_fatbin``.

Format: LLVM's ClangOffloadBundler document (magic, number of entries, then offset, size and target id of each).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"
SECTION = ".hip_fatbin"
EM_AMDGPU = 224
_DEVICE = "hip"


class BundleError(ValueError):
    """A file that holds no code object where it should; the message says what is wrong."""


def code_objects(library: Path) -> Mapping[str, bytes]:
    """Architecture -> code object, from a library, an executable, or a code object by itself (then under ``""``).

    An architecture comes with its features where the compiler was given any (``gfx942:xnack-``).

    Raises:
        BundleError: no ELF file, no bundle in it, or a compressed or damaged one.
        OSError: the file cannot be read.
    """
    data = library.read_bytes()
    try:
        if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
            raise BundleError("it is not a 64-bit little-endian ELF file")
        (machine,) = struct.unpack_from("<H", data, 18)
        return {"": data} if machine == EM_AMDGPU else unbundled(_section(data, SECTION))
    except (struct.error, IndexError) as error:
        raise BundleError("it ends in the middle of a header") from error


def code_object(library: Path, arch: str) -> bytes:
    """The code object for one architecture.

    Raises:
        BundleError: as :func:`code_objects`, or there is none for it.
        OSError: the file cannot be read.
    """
    found = code_objects(library)
    for target, data in found.items():
        if target.split(":")[0] in ("", arch):
            return data
    raise BundleError(f"it holds no code object for {arch}, but for {', '.join(found) or 'none'}")


def unbundled(bundle: bytes) -> dict[str, bytes]:
    """Target id -> code object of one bundle; entries for the host are left out.

    Raises:
        BundleError: compressed, damaged, or no bundle.
    """
    if bundle.startswith(COMPRESSED):
        raise BundleError("its code objects are compressed")
    if not bundle.startswith(MAGIC):
        raise BundleError("it does not begin as an offload bundle")
    found: dict[str, bytes] = {}
    at = len(MAGIC)
    try:
        (count,) = struct.unpack_from("<Q", bundle, at)
        at += 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", bundle, at)
            name = bundle[at + 24 : at + 24 + length].decode("ascii")
            at += 24 + length
            kind, _, rest = name.partition("-")
            if not kind.startswith(_DEVICE):
                continue
            if offset + size > len(bundle):
                raise BundleError(f"its entry {name} lies outside of it")
            found[rest.partition("--")[2]] = bundle[offset : offset + size]
    except (struct.error, UnicodeDecodeError) as error:
        raise BundleError("its table of entries is damaged") from error
    return found


def _section(elf: bytes, wanted: str) -> bytes:
    """The bytes of one section of an ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    base = headers[names][4] if names < count else 0
    for name, _, _, _, offset, length in headers:
        start = base + name
        if elf[start : elf.index(b"\0", start)].decode("ascii", "replace") == wanted:
            return elf[offset : offset + length]
    raise BundleError(f"it has no section {wanted}")

"""``.npy`` and ``.npz`` files that may be damaged: headers are checked before anything is allocated, nothing is unpickled.

Source: numpy's "NPY format" (``numpy.lib.format``, versions 1 to 3); PKWARE's APPNOTE for archives, as ``zipfile`` reads
them.
numpy's own reader of headers does not say what is wrong with one, and is public for versions 1 and 2 only.
"""

from __future__ import annotations

import ast
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.device import available_bytes
from fmha_cli.domain.quantities import size as in_words

Array = npt.NDArray[Any]

Choose = Callable[[list[str]], str]
"""Picks one of the names that an archive holds; raises ``UsageError`` if it cannot."""

_NPY, _ZIP = b"\x93NUMPY", b"PK\x03\x04"
_HEADER = 10_000
"""Bytes of the longest header that numpy itself accepts from strangers."""

_MOST_AXES = 64


class Unreadable(Exception):
    """A file's fault, as the predicate of a sentence about the file, and the remedy."""

    def __init__(self, what: str, *, help: str | None = None) -> None:
        super().__init__(what)
        self.help = help


def fits(size: int, what: str) -> None:
    """Refuse ``size`` bytes that this machine cannot hold now.

    Raises:
        Unreadable: with both sizes.
    """
    free = available_bytes()
    if free is not None and size > free:
        needs = f"{what} needs {in_words(size)}, and {in_words(free)} of memory are available"
        raise Unreadable(needs, help="use a machine with more memory, or smaller tensors")


def read_npy(stream: IO[bytes], size: int, what: str = "it") -> Array:
    """The array of a ``.npy`` file, or of a member of an archive, of ``size`` bytes.

    Raises:
        Unreadable: it is damaged, too large, or holds no numbers.
    """
    shape, fortran, dtype, header = _header(stream, what)
    count = prod(shape)
    declared, held = count * dtype.itemsize, size - header
    if declared != held:
        state = "is cut short" if held < declared else "has more data than its header declares"
        raise Unreadable(f"{state}: the header of shape {_short(shape)} means {declared:,} bytes, {held:,} are there")
    fits(declared, what)
    array = np.empty(count, dtype)
    into, done = array.view(np.uint8), 0
    while done < declared:
        part = stream.read(min(1 << 24, declared - done))
        if not part:
            raise Unreadable(f"is cut short after {done:,} of {declared:,} bytes of data")
        into[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 80 else f"{text[:60]}..."


def _header(stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, Fortran order, element type, and the bytes before the data."""
    start = stream.read(12)
    if start[:4] == _ZIP:
        raise Unreadable("is a zip archive and no .npy", help="name it .npz")
    if start[:6] != _NPY or len(start) < 12:
        raise Unreadable(f"does not begin as a .npy does: {what} is of another kind, or damaged")
    wide = start[6] > 1
    if start[6] not in (1, 2, 3):
        raise Unreadable(f"has version {start[6]}.{start[7]} of the .npy format; 1 to 3 exist")
    length = int.from_bytes(start[8 : 12 if wide else 10], "little")
    if length > _HEADER:
        raise Unreadable(f"is damaged: a header of {length:,} bytes")
    text = (b"" if wide else start[10:]) + stream.read(length if wide else max(0, length - 2))
    if len(text) < length:
        raise Unreadable("is cut short within its header")
    try:
        found = ast.literal_eval(text[:length].decode("utf-8" if start[6] == 3 else "latin-1").strip())
        shape, fortran, name = (found[key] for key in ("shape", "fortran_order", "descr"))
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, MemoryError, RecursionError) as fault:
        raise Unreadable("is damaged: its header cannot be understood") from fault
    return _shape(shape), _switch(fortran), _dtype(name), (12 if wide else 10) + length


def _shape(shape: Any) -> tuple[int, ...]:
    whole = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not whole or len(shape) > _MOST_AXES:
        raise Unreadable("is damaged: its header declares no shape")
    return tuple(shape)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unreadable("is damaged: its header does not say whether it is in Fortran order")
    return value


def _dtype(name: Any) -> np.dtype[Any]:
    """An element type of numbers. Raises Unreadable: a damaged one, Python objects, records, text."""
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except (TypeError, ValueError, SyntaxError, OverflowError) as fault:
        raise Unreadable("is damaged: its header names no element type") from fault
    if dtype is not None and dtype.kind in "biuf" and dtype.itemsize:
        return dtype
    help = "convert it to float32 or float16, and save that"
    if dtype is not None and dtype.hasobject:
        raise Unreadable("holds Python objects, which fmha never unpickles", help=help)
    if dtype is not None and dtype.kind == "V" and dtype.itemsize <= 2:
        help = "numpy has no bf16 or fp8: save float32, or use .safetensors"
    raise Unreadable(f"holds elements of type {str(name)[:40]!r}, and only numbers can be read", help=help)


def read_npz(file: IO[bytes], size: int, choose: Choose) -> Array:
    """The one array of an archive that ``choose`` picks; no other member is read.

    Raises:
        Unreadable: the archive or the array is damaged, encrypted, too large, or no array.
        UsageError: from ``choose``.
    """
    start = file.read(6)
    file.seek(0)
    if start == _NPY:
        raise Unreadable("is a .npy and no archive", help="name it .npy")
    try:
        archive = zipfile.ZipFile(file)
        members = [member for member in archive.infolist() if not member.is_dir()]
    except _DAMAGE as fault:
        raise Unreadable("is damaged: it is not an archive, or its end is missing (a copy that stopped?)") from fault
    names = [member.filename.removesuffix(".npy") for member in members]
    name = choose(names)
    if names.count(name) > 1:
        raise Unreadable(f"is damaged: two of its arrays are named {name!r}")
    return _member(archive, members[names.index(name)], name)


_DAMAGE = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error),
    *(ValueError, KeyError, IndexError, TypeError, OverflowError, RuntimeError),
)
"""What ``zipfile`` and its decompressors raise for damaged archives; ``RuntimeError`` is that of a method it does not know."""


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Array:
    if member.flag_bits & 1:
        raise Unreadable(f"is encrypted (array {name!r})", help="save it without a password")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        method = f"compressed by method {member.compress_type}, which fmha does not know"
        raise Unreadable(f"holds array {name!r} {method}", help="save it with numpy.savez or numpy.savez_compressed")
    fits(member.file_size, f"array {name!r}")
    try:
        with archive.open(member) as stream:
            array = read_npy(stream, member.file_size, f"array {name!r}")
            stream.read(1)  # the checksum is compared at the end
            return array
    except MemoryError as fault:
        raise Unreadable(f"holds array {name!r}, for which the memory does not suffice") from fault
    except _DAMAGE as fault:
        crc = isinstance(fault, zipfile.BadZipFile) and "CRC" in str(fault)
        state = "do not agree with their checksum" if crc else "are damaged or cut short"
        raise Unreadable(f"is damaged: the data of array {name!r} {state}") from fault

"""The attribute records of a cubin: ``.nv.info`` of the file and of each kernel, and ``.nv.compat``.

A record has a format byte, an attribute byte and a value. The value is two bytes in place (formats 1 to 3), or a length
and that many bytes (format 4). The numbers and names of attributes are the ones that ``cuobjdump -elf`` of CUDA 13
prints (``EIATTR_*``, ``EIFMT_*``, ``EICOMPAT_ATTR_*``), because NVIDIA documents neither. The reader skips attributes
without a name in this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.toolchain.elf import MalformedObject

MAX_THREADS = 0x05
PARAM_CBANK = 0x0A
REQNTID = 0x10
FRAME_SIZE = 0x11
MIN_STACK_SIZE = 0x12
KPARAM_INFO = 0x17
CBANK_PARAM_SIZE = 0x19
MAXREG_COUNT = 0x1B
REGCOUNT = 0x2F
NUM_BARRIERS = 0x4C
ANNOTATIONS = 0x55

COMPAT_ACCELERATOR_TARGET = 0x09
"""An attribute of ``.nv.compat``. It is 1 where the code uses features of one architecture only (suffix ``a``)."""

_SPILL_REFILL = 1
_KPARAM = struct.Struct("<IHHI")
_SIZED = 4


@dataclass(frozen=True)
class Attribute:
    """One record.

    Attributes:
        code: the attribute's number.
        value: the bytes of its value as in the file.
    """

    code: int
    value: bytes

    @property
    def words(self) -> tuple[int, ...]:
        """The value as 32-bit numbers. Leftover bytes are dropped."""
        return struct.unpack_from(f"<{len(self.value) // 4}I", self.value)

    @property
    def small(self) -> int:
        """The 16-bit number of a value in place.

        Raises:
            MalformedObject: the value has another format.
        """
        if len(self.value) != 2:
            raise MalformedObject(f"attribute {self.code:#x} is not a number in place")
        return int.from_bytes(self.value, "little")


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel.

    Attributes:
        ordinal: its place in the list of arguments.
        offset: its offset in the arguments, bytes.
        size: its size in bytes.
    """

    ordinal: int
    offset: int
    size: int


def attributes(data: bytes) -> Iterator[Attribute]:
    """The records of a section.

    Raises:
        MalformedObject: a format does not exist, or a record is longer than its section.
    """
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise MalformedObject("an attribute is longer than its section")
        form, code = data[at], data[at + 1]
        if not 1 <= form <= _SIZED:
            raise MalformedObject(f"attribute {code:#x} has format {form}")
        start, size = (at + 4, int.from_bytes(data[at + 2 : at + 4], "little")) if form == _SIZED else (at + 2, 2)
        if start + size > len(data):
            raise MalformedObject("an attribute is longer than its section")
        yield Attribute(code, data[start : start + size])
        at = start + size


def parameter_of(record: Attribute) -> Parameter:
    """The argument that a ``KPARAM_INFO`` record describes. Its size is in the upper 14 bits of the last word.

    Raises:
        MalformedObject: the record is not 12 bytes long.
    """
    if len(record.value) != _KPARAM.size:
        raise MalformedObject("a parameter's record does not have 12 bytes")
    _index, ordinal, offset, packed = _KPARAM.unpack(record.value)
    return Parameter(ordinal, offset, packed >> 18)


def spill_offsets_of(record: Attribute) -> tuple[int, ...] | None:
    """Offsets in the code of the instructions that an ``ANNOTATIONS`` record marks as a spill or a refill.

    The result is None where the record holds another kind too. The lengths of other kinds are unknown, so the rest of
    the record cannot be read.
    """
    words = record.words
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or any(kind != _SPILL_REFILL for kind, _ in pairs):
        return None
    return tuple(offset for _, offset in pairs)

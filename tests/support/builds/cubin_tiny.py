"""The smallest cubin that a driver would accept: one kernel without instructions, and exported data."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_EM_CUDA, _ABI_NEW, _STO_ENTRY = 190, 8, 0x10
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 1, 2, 3, 8
_REGCOUNT, _KPARAM_INFO, _CBANK_PARAM_SIZE, _PARAM_CBANK = 0x2F, 0x17, 0x19, 0x0A


@dataclass
class _Section:
    name: str
    kind: int
    data: bytes
    link: int = 0
    info: int = 0
    entry: int = 0
    size: int = 0


def tiny_cubin(
    symbol: str,
    parameters: tuple[int, ...],
    *,
    capability: int = 90,
    accelerated: bool = False,
    shared: int = 0,
    data: Mapping[str, bytes] | None = None,
    lead: int = 0,
) -> bytes:
    """A cubin of one kernel.

    Args:
        parameters: bytes of each argument; they are laid out in order, aligned to 4.
        capability: 10 x major + minor. accelerated: with the suffix ``a``.
        shared: static shared memory of a block. data: exported variables. lead: where the first argument is.
    """
    pool = b"".join(data.values()) if data else b"\0"
    names = [symbol, *(data or {})]
    strings = b"\0" + b"".join(n.encode() + b"\0" for n in names)
    places = [1 + sum(len(n) + 1 for n in names[:i]) for i in range(len(names))]
    code = bytes(128)
    symbols = [_SYM.pack(0, 0, 0, 0, 0, 0), _SYM.pack(places[0], 0x12, _STO_ENTRY, 3, 0, len(code))]
    at = 0
    for place, value in zip(places[1:], (data or {}).values(), strict=True):
        symbols.append(_SYM.pack(place, 0x11, 0, 5, at, len(value)))
        at += len(value)
    reserved = 1024 if capability >= 90 else 0
    sections = [
        _Section("", 0, b""),
        _Section(".strtab", _STRTAB, strings),
        _Section(".symtab", _SYMTAB, b"".join(symbols), link=1, info=1, entry=_SYM.size),
        _Section(f".text.{symbol}", _PROGBITS, code, link=2, info=32 << 24 | 1),
        _Section(f".nv.info.{symbol}", _PROGBITS, _kernel_info(parameters, lead)),
        _Section(".nv.global.init", _PROGBITS, pool),
        _Section(".nv.info", _PROGBITS, struct.pack("<BBHII", 4, _REGCOUNT, 8, 1, 32)),
        _Section(f".nv.shared.{symbol}", _NOBITS, b"", size=shared + reserved),
        _Section(".shstrtab", _STRTAB, b""),
    ]
    table = b"\0" + b"".join(s.name.encode() + b"\0" for s in sections[1:])
    sections[-1].data = table
    offset, body, headers = _EHDR.size, b"", b""
    for section in sections:
        pad = -(offset + len(body)) % 16
        body += bytes(pad)
        name = table.index(b"\0" + section.name.encode() + b"\0") + 1 if section.name else 0
        where = offset + len(body) if section.name else 0
        size = section.size or len(section.data)
        headers += _SHDR.pack(name, section.kind, 0, 0, where, size, section.link, section.info, 16, section.entry)
        body += section.data
    body += bytes(-(offset + len(body)) % 16)
    ident = bytes([0x7F, *b"ELF", 2, 1, 1, 0x41, _ABI_NEW]).ljust(16, b"\0")
    flags = 0x06000004 | capability << 8 | (8 if accelerated else 0)
    head = (2, _EM_CUDA, 1, 0, 0, offset + len(body), flags, _EHDR.size, 56, 0, _SHDR.size, len(sections))
    return _EHDR.pack(ident, *head, len(sections) - 1) + body + headers


def _kernel_info(parameters: tuple[int, ...], lead: int) -> bytes:
    out, offset = b"", lead
    for ordinal, size in enumerate(parameters):
        offset += -offset % 4
        out += struct.pack("<BBHIHHI", 4, _KPARAM_INFO, 12, 0, ordinal, offset, size << 18 | 0x1F000)
        offset += size
    out += struct.pack("<BBHIHH", 4, _PARAM_CBANK, 8, 0, 0x210, offset)
    return out + struct.pack("<BBH", 3, _CBANK_PARAM_SIZE, offset)

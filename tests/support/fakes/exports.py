"""Cubins with the exported tables that a host expects of a kernel and no code, for sessions on a simulated device."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping

from fmha_cli.backends.cuda.tables import Expected
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from tests.support.builds.cubin_tiny import tiny_cubin


def fake_exports(arch: str, expected: Expected, *, drift: int = 0) -> bytes:
    """The cubin of a kernel; ``drift`` shifts the last field by that many bytes, or lengthens the last parameter."""
    if expected.separate:
        *sizes, last = (width for _, _, width in host_layout(expected.block))
        return _cubin(arch, expected.symbol, (*sizes, last + drift), {})
    size, fields = ctypes.sizeof(ctypes_structure(expected.block)), list(host_layout(expected.block))
    name, offset, width = fields[-1]
    fields[-1] = (name, offset + drift, width)
    pairs = [number for _, offset, width in fields for number in (offset, width)]
    table = (expected.version, size, len(fields), *pairs)
    facts = (*map(int, expected.facts.values()), expected.shared_bytes)
    symbol = expected.symbol
    data = {
        f"{symbol}_abi_table": struct.pack(f"<{len(table)}I", *table),
        f"{symbol}_abi_names": " ".join(n for n, _, _ in fields).encode() + b"\0",
        f"{symbol}_facts": struct.pack(f"<{len(facts)}I", *facts),
    }
    return _cubin(arch, symbol, (size, *(4 for _ in expected.extra)), data)


def _cubin(arch: str, symbol: str, parameters: tuple[int, ...], data: Mapping[str, bytes]) -> bytes:
    number = arch.removeprefix("sm_")
    capability, accelerated = int(number.rstrip("a")), number.endswith("a")
    return tiny_cubin(symbol, parameters, capability=capability, accelerated=accelerated, data=data)

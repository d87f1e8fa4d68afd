"""One tensor of a ``.safetensors`` file that may be damaged. The header is checked as a whole, as the format demands.

Source: the safetensors format, https://github.com/huggingface/safetensors#format: 8 bytes with the header's length
(little-endian), the header (JSON), the data; the tensors fill the data from its first byte to its last, without gaps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import prod
from typing import IO, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.oracle.mx import unpacked_fp4
from fmha_cli.walk.npy_files import Array, Choose, Unreadable, fits

_READ: Mapping[str, npt.DTypeLike] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "I64": np.int64,
    "I32": np.int32,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_FP4 = "F4"
"""Two elements of fp4 in a byte; the shape counts elements."""

_BITS = re.compile(r"(?:BOOL|[A-Z]+?(\d+)(?:_\w+)?)\Z")
"""``BOOL`` (8 bits), or a name that says its bits: ``F32``, ``BF16``, ``F8_E4M3``."""

_HEADER = 100_000_000
"""Bytes of the longest header that the format allows."""


class _Repeated(ValueError):
    """A JSON object with one key twice."""


def read_safetensors(file: IO[bytes], size: int, choose: Choose) -> Array:
    """The one tensor of a file of ``size`` bytes that ``choose`` picks; no other is read.

    Raises:
        Unreadable: the file is damaged, or the tensor's element type cannot be read.
        UsageError: from ``choose``.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > min(_HEADER, size - 8):
        raise Unreadable(f"is damaged or no .safetensors: a header of {length:,} bytes in a file of {size:,}")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_object)
    except (ValueError, RecursionError) as fault:
        raise Unreadable("is damaged or no .safetensors: its header is not the JSON of tensors") from fault
    if not isinstance(header, dict):
        raise Unreadable("is damaged or no .safetensors: its header is not the JSON of tensors")
    header.pop("__metadata__", None)
    places = {name: _place(name, entry) for name, entry in header.items()}
    _cover(places, size - 8 - length)
    name = choose(list(places))
    start, end = places[name]
    dtype = header[name]["dtype"]
    if dtype not in (*_READ, _FP4):
        what = f"holds array {name!r} of type {dtype[:40]}, which fmha does not read"
        raise Unreadable(what, help=f"one of {', '.join((*_READ, _FP4))}")
    fits(end - start, f"array {name!r}")
    file.seek(8 + length + start)
    data = file.read(end - start)
    if len(data) < end - start:
        raise Unreadable(f"is cut short within array {name!r}")
    if dtype == _FP4:
        return unpacked_fp4(np.frombuffer(data, np.uint8)).reshape(header[name]["shape"])
    return np.frombuffer(data, dtype=_READ[dtype]).reshape(header[name]["shape"])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated("a name occurs twice")
    return found


def _place(name: str, entry: Any) -> tuple[int, int]:
    """First byte and end of a tensor in the data. Raises Unreadable: its entry contradicts itself."""
    shown = f"array {name[:60]!r}"
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        raise Unreadable(f"is damaged: the header's entry of {shown} has no dtype")
    shape, offsets = (_naturals(entry.get(key), f"{key} of {shown}") for key in ("shape", "data_offsets"))
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise Unreadable(f"is damaged: the offsets of {shown} are no range")
    bits = _BITS.match(entry["dtype"])
    if bits is None or len(entry["dtype"]) > 20:
        raise Unreadable(f"is damaged: {shown} has the element type {entry['dtype'][:20]!r}")
    needed, held = prod(shape) * int(bits[1] or 8), 8 * (offsets[1] - offsets[0])
    if needed != held:
        raise Unreadable(
            f"is damaged: {shown} needs {needed // 8:,} bytes by its shape, its offsets give {held // 8:,}"
        )
    return offsets[0], offsets[1]


def _naturals(value: Any, what: str) -> list[int]:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise Unreadable(f"is damaged: its header has no {what}")
    return value


def _cover(places: Mapping[str, tuple[int, int]], held: int) -> None:
    """The tensors must fill the data without gaps and overlaps. Raises Unreadable: they do not."""
    end = 0
    for name, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        if start != end:
            raise Unreadable(f"is damaged: array {name[:60]!r} begins at byte {start:,} of the data, {end:,} was due")
        end = stop
    if end != held:
        raise Unreadable(f"is damaged or cut short: its arrays take {end:,} bytes, {held:,} are there")

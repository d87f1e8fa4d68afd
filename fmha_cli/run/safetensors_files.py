"""``.safetensors``: one tensor of a file that may be damaged, and the bytes of a new file. The header that is read is checked as a
whole, as the format demands. fmha writes the format itself, because releases of the library know different types
(``tests/run/test_safetensors_releases.py``).

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

from fmha_cli.oracle.mx import unpack_fp4
from fmha_cli.run.npy_files import Array, Choose, Unreadable, fits

_READ: Mapping[str, npt.DTypeLike] = {
    "I64": np.int64,
    "F64": np.float64,
    "F32": np.float32,
    "I32": np.int32,
    "BF16": ml_dtypes.bfloat16,
    "F16": np.float16,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
"""In the order in which the library places tensors."""
_NAMES = {np.dtype(kind): name for name, kind in _READ.items()}
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
        return unpack_fp4(np.frombuffer(data, np.uint8)).reshape(header[name]["shape"])
    return np.frombuffer(data, dtype=_READ[dtype]).reshape(header[name]["shape"])


def safetensors_of(arrays: Mapping[str, Array]) -> bytes:
    """A file with these tensors; types that the format has no name for become float32. Byte for byte what safetensors 0.8.0
    writes: tensors in the order of ``_READ`` and then of their names, and the header padded to 8 bytes."""
    kept = {name: array if array.dtype in _NAMES else array.astype(np.float32) for name, array in arrays.items()}
    places = list(_NAMES)
    order = sorted(kept, key=lambda name: (places.index(kept[name].dtype), name))
    header, end = dict[str, object](), 0
    for name in order:
        start, end = end, end + kept[name].nbytes
        about = {"dtype": _NAMES[kept[name].dtype], "shape": kept[name].shape, "data_offsets": (start, end)}
        header[name] = about
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *(kept[name].tobytes() for name in order)))


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

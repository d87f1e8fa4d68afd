"""The bytes of tensor files, good and damaged ones, for ``tensor_corpus``."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Q = np.random.Generator(np.random.PCG64(1)).standard_normal((1, 1, 8, 16)).astype(np.float32)


def npy(array: np.ndarray[Any, Any] = Q, *, pickled: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=pickled)
    return out.getvalue()


def header(text: str, version: int = 1, data: bytes = b"") -> bytes:
    """A ``.npy`` with a header of one's own."""
    body = text.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(body))
    return b"\x93NUMPY" + bytes([version, 0]) + length + body + data


def described(shape: str, descr: str = "'<f4'", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"


def npz(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def put(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def central(data: bytes) -> int:
    """Where the central directory of an archive begins."""
    return data.index(b"PK\x01\x02")


def payload(data: bytes) -> int:
    """Where the data of the first member begin."""
    name, extra = struct.unpack("<HH", data[26:30])
    return 30 + name + extra


def safetensors(entries: object, data: bytes = Q.tobytes(), length: int | None = None) -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(start: int = 0, end: int = Q.nbytes, dtype: str = "F32", shape: object = Q.shape) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}

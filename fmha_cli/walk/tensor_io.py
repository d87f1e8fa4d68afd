"""Tensor files that are written: ``.npy``, ``.npz`` and ``.safetensors``, atomically and without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fmha_cli.report.target import Target

Array = npt.NDArray[Any]


def write_tensors(path: Path, arrays: Mapping[str, Array], flag: str = "--out") -> None:
    """Write results atomically; ``.npy`` holds only ``o``. bf16 and fp8 become float32 in ``.npy`` and ``.npz``, types that the
    format has no name for (``UNNAMED``) in ``.safetensors`` too.

    Raises:
        EnvironmentProblem: X040, the file cannot be written.
    """
    with Target(path, flag).opened() as file:
        stream: IO[bytes] = file if file.seekable() else BytesIO()
        if path.suffix == ".npy":
            np.save(stream, _plain(arrays["o"]), allow_pickle=False)
        elif path.suffix == ".npz":
            np.savez(stream, allow_pickle=False, **{k: _plain(a) for k, a in arrays.items()})
        else:
            stream.write(_safetensors(arrays))
        if isinstance(stream, BytesIO):  # a pipe: numpy wants to seek
            file.write(stream.getbuffer())


UNNAMED = frozenset({"float4_e2m1fn"})
"""numpy types that the safetensors library does not write: its fp4 has two codes in a byte."""


def _plain(array: Array) -> Array:
    native = array.dtype.kind in "fi" and array.dtype.isbuiltin == 1
    return array if native else array.astype(np.float32)


def _safetensors(arrays: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    def named(array: Array) -> Array:
        return array.astype(np.float32) if array.dtype.name in UNNAMED else array

    return save({name: np.ascontiguousarray(named(array)) for name, array in arrays.items()})

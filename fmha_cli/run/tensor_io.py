"""Tensor files that are written: ``.npy``, ``.npz`` and ``.safetensors``, atomically and without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fmha_cli.report.target import Target
from fmha_cli.run.safetensors_files import safetensors_of

Array = npt.NDArray[Any]


def write_tensors(path: Path, arrays: Mapping[str, Array], flag: str = "--out") -> None:
    """Write results atomically; ``.npy`` holds only ``o``. bf16 and fp8 become float32 in ``.npy`` and ``.npz``, types that the
    format has no name for in ``.safetensors`` too.

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
            stream.write(safetensors_of(arrays))
        if isinstance(stream, BytesIO):  # a pipe: numpy wants to seek
            file.write(stream.getbuffer())


def _plain(array: Array) -> Array:
    native = array.dtype.kind in "fi" and array.dtype.isbuiltin == 1
    return array if native else array.astype(np.float32)

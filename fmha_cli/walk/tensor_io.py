"""Tensor files that are written: ``.npy``, ``.npz`` and ``.safetensors``, atomically and without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.toolchain.cache.files import replacing
from fmha_cli.walk.request import Request
from fmha_cli.walk.tensor_read import SUFFIXES

Array = npt.NDArray[Any]


def check_out(points: Sequence[Problem], request: Request) -> None:
    """Refuse, before anything runs, an ``--out`` whose file could not hold the results.

    Raises:
        UsageError: unknown suffix, no folder, more than O in a ``.npy``, or several rows and no ``{i}``.
    """
    if request.out is None:
        return
    path = Path(request.out)
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--out {path}: unknown kind of file", code="E031", where="--out", help=", ".join(SUFFIXES))
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder {path.parent}", code="E033", where="--out")
    if path.suffix == ".npy" and any(p.lse or p.direction.backward for p in points):
        help = "use .npz or .safetensors"
        raise UsageError(f"--out {path}: a .npy file holds only O", code="E036", where="--out", help=help)
    if "{i}" not in request.out and (len(points) > 1 or request.all_kernels or request.ab):
        what = f"--out {path}: several rows would write one file"
        raise UsageError(what, code="E037", where="--out", help="put {i} into the name, e.g. out-{i}.npz")


def write_tensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write results atomically; ``.npy`` holds only ``o``. bf16 and fp8 become float32 in ``.npy`` and ``.npz``.

    Raises:
        EnvironmentProblem: E033, the folder cannot be written to.
    """
    try:
        with replacing(path) as stream:
            if path.suffix == ".npy":
                np.save(stream, _plain(arrays["o"]), allow_pickle=False)
            elif path.suffix == ".npz":
                np.savez(stream, allow_pickle=False, **{k: _plain(a) for k, a in arrays.items()})
            else:
                stream.write(_safetensors(arrays))
    except OSError as fault:
        what = f"--out {path}: cannot be written"
        raise EnvironmentProblem(what, code="E033", where="--out", why=str(fault)) from fault


def _plain(array: Array) -> Array:
    native = array.dtype.kind in "fi" and array.dtype.isbuiltin == 1
    return array if native else array.astype(np.float32)


def _safetensors(arrays: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})

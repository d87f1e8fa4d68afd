"""Tensor files: ``.npy``, ``.npz`` and ``.safetensors``, read and written without pickle, written atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.toolchain.cache.files import replacing
from fmha_cli.walk.request import Request

Array = npt.NDArray[Any]

SUFFIXES = (".npy", ".npz", ".safetensors")

_SAFE_DTYPES: Mapping[str, npt.DTypeLike] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": np.int64,
    "I32": np.int32,
}


def read_tensor(spec: str, flag: str, default_key: str) -> Array:
    """The array of ``FILE`` or ``FILE:KEY``; a file with one array needs no key.

    Raises:
        UsageError: a missing, unreadable or ambiguous file, an unknown key or suffix.
    """
    path, key = Path(spec), None
    if not path.exists() and ":" in spec:
        path, key = Path(spec.rpartition(":")[0]), spec.rpartition(":")[2]
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{flag} {spec}: unknown kind of file", code="E031", where=flag, help=", ".join(SUFFIXES))
    try:
        arrays = _read_all(path)
    except (OSError, ValueError, KeyError, EOFError) as fault:
        why = str(fault) or type(fault).__name__
        raise UsageError(f"{flag} {path}: cannot be read", code="E030", where=flag, why=why) from fault
    if key is None:
        key = default_key if default_key in arrays or len(arrays) != 1 else next(iter(arrays))
    if key not in arrays:
        held = ", ".join(sorted(arrays))
        what = f"{flag} {path}: no array {key!r}"
        raise UsageError(what, code="E032", where=flag, help=f"FILE:KEY with one of {held}")
    return arrays[key]


def _read_all(path: Path) -> dict[str, Array]:
    if path.suffix == ".npy":
        return {"": np.load(path, allow_pickle=False)}
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    import safetensors

    try:
        parts: Any = cast(Any, safetensors).deserialize(path.read_bytes())
    except safetensors.SafetensorError as fault:
        raise ValueError(str(fault)) from fault
    out = {}
    for name, info in parts:
        if info["dtype"] not in _SAFE_DTYPES:
            raise ValueError(f"array {name!r} has dtype {info['dtype']}")
        out[name] = np.frombuffer(info["data"], dtype=_SAFE_DTYPES[info["dtype"]]).reshape(info["shape"])
    return out


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

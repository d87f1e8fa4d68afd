"""Tensors in ``.npy``, ``.npz`` and ``.safetensors`` files. One that is read may be damaged, hostile or missing.

Only the requested array is read. Its declared size is compared with the file's size and with the memory that
is available before anything is allocated. Every fault becomes a ``UsageError`` that states the fault of the file.
Files are written atomically and without pickle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.regular import open_regular
from fmha_cli.report.target import Target
from fmha_cli.run.npy_files import Array, Choose, Unreadable, read_npy, read_npz
from fmha_cli.run.safetensors_files import read_safetensors, safetensors_of

SUFFIXES = (".npy", ".npz", ".safetensors")

_WRITE = "write it again, e.g. with numpy.save, numpy.savez or safetensors"


def read_tensor(spec: str, flag: str, default_key: str) -> Array:
    """The array of ``FILE`` or ``FILE:KEY``, in C order and in the machine's byte order; a file with one array needs no
    key.

    Raises:
        UsageError: E030 a missing, damaged or too large file, E031 an unknown suffix, E032 an unknown or ambiguous key.
    """
    path, key = _located(spec, flag)
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{flag} {spec}: unknown kind of file", code="E031", where=flag, help=", ".join(SUFFIXES))

    def choose(held: list[str]) -> str:
        if held == [""] and key is None:  # a .npy
            return ""
        wanted = key if key is not None else default_key if default_key in held or len(held) != 1 else held[0]
        if wanted not in held:
            listed = ", ".join(sorted(name for name in held if name))
            alone = "name the file alone: a .npy holds one array without a name" if held else "the file holds no arrays"
            help = f"FILE:KEY with one of {listed}" if listed else alone
            raise UsageError(f"{flag} {path}: no array {wanted!r}", code="E032", where=flag, help=help)
        return wanted

    try:
        array = _read(path, choose)
    except Unreadable as fault:
        help = fault.help or _WRITE
        raise UsageError(f"{flag} {path} {fault}", code="E030", where=flag, help=help) from fault
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)


def file_of(spec: str) -> tuple[Path, str | None]:
    """The path and the key of ``FILE`` or ``FILE:KEY``. A file whose own name has the colon comes first.

    Raises:
        OSError, ValueError: there is no such file, or its name is not valid (``ValueError``: a zero byte).
    """
    name, colon, key = spec.rpartition(":")
    try:
        Path(spec).stat()
        return Path(spec), None
    except (OSError, ValueError):
        if not (colon and name):
            raise
    Path(name).stat()
    return Path(name), key


def _located(spec: str, flag: str) -> tuple[Path, str | None]:
    """Like ``file_of``. Raises UsageError: E030, there is no such file."""
    try:
        return file_of(spec)
    except (OSError, ValueError) as fault:
        why = (fault.strerror or str(fault)) if isinstance(fault, OSError) else str(fault)
        shown = spec if len(spec) <= 120 else f"{spec[:60]}...{spec[-40:]} ({len(spec)} characters)"
        raise UsageError(f"{flag} {shown}: cannot be opened", code="E030", where=flag, why=why.lower()) from fault


def _read(path: Path, choose: Choose) -> Array:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise Unreadable("is empty")
            if path.suffix == ".npy":
                choose([""])
                return read_npy(file, size)
            return (read_npz if path.suffix == ".npz" else read_safetensors)(file, size, choose)
    except OSError as fault:
        raise Unreadable(f"cannot be read: {fault.strerror or fault}", help="name a file that can be read") from fault


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

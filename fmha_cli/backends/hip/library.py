"""Find libamdhip64 and make hip-python and kernel libraries use the same copy."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import DoctorCheck, Surroundings, import_modules
from fmha_cli.toolchain.framework import check_release, find_release, numbers_of
from fmha_cli.toolchain.rocm.installed import RUNTIME, installed_roots, runtimes

_BINDINGS = (("hip.chip", "hip.hip"), ("rocm.bindings.util.paths", "rocm.bindings.hip"))
"""Of hip-python to 7, and from 10: the module that names the library which the first call opens (by ``DLL``, by
``get_library_path``), and that of the calls. In 10, ``hip`` is another name of ``rocm.bindings`` without the first and without
submodules (hip-python 10.0.0.0.1.2, ``hip/__init__.py``)."""
_RENAMED = (10,)
TRIED = ("6.2.0.499.16", "7.2.2.562.43", "10.0.0.0.1.2")
"""Releases of hip-python whose calls were made to a runtime in a test without a GPU."""

_FIRST_CALL = "hipInit"


def candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """Names to try, in order: the library that the dynamic linker finds, the runtimes of installed ROCms, and the
    numbered name that the linker's cache has where only packages to run programs are installed.
    """
    yield RUNTIME
    yield from (str(path) for root in installed_roots(environ) for path in runtimes(root))
    numbered = find_library("amdhip64")
    if numbered is not None:
        yield numbered


def open_library(path: Path | None = None) -> tuple[ctypes.CDLL, str]:
    """Load the runtime library with its symbols visible to kernel libraries loaded later; also return its name.

    Args:
        path: a specific library to load instead of the first one found.

    Raises:
        EnvironmentProblem: H002, no library loads, or none that does is a HIP runtime.
    """
    faults = []
    for name in (str(path),) if path is not None else candidates(os.environ):
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
        except OSError as fault:
            faults.append(str(fault))
            continue
        if hasattr(library, _FIRST_CALL):
            return library, name
        faults.append(f"{name} is no HIP runtime: it has no {_FIRST_CALL}")
    raise EnvironmentProblem(
        f"the HIP runtime ({RUNTIME}) does not load",
        code="H002",
        where=str(path or RUNTIME),
        why="; ".join(dict.fromkeys(faults)),
        help="install ROCm, or set ROCM_PATH or HIP_PATH to where it is",
    )


def open_bindings(library: str) -> Any:
    """hip-python's module of calls, bound to the named library.

    Raises:
        EnvironmentProblem: H003, hip-python is not installed or does not import.
    """
    help = "pip install 'fmha[rocm]', in a version for the installed ROCm"
    renamed = numbers_of(find_release("hip-python") or "") >= _RENAMED
    low, high = import_modules(_BINDINGS[renamed], "hip-python", "H003", help)
    if renamed:
        others = low.get_library_path
        low.get_library_path = lambda name, *more: os.fsencode(library) if name == "amdhip64" else others(name, *more)
    else:
        low.DLL = library.encode()
    return high


def check_bindings(surroundings: Surroundings) -> Iterator[DoctorCheck]:
    """For ``fmha doctor``: whether the installed hip-python is one of the tried ones, or between them."""
    yield from check_release("hip-python", TRIED, surroundings)

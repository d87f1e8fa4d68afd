"""Find libamdhip64 and make hip-python and kernel libraries use the same copy."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.driver import imported
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.rocm.installed import RUNTIME, installed_roots, runtimes

_BINDINGS = ("hip.chip", "hip.hip")
"""hip-python's low layer, whose ``DLL`` names the library that the first call opens, and its high layer."""

_FIRST_CALL = "hipInit"


def candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """Names to try, in order: what the dynamic linker finds, the runtimes of installed ROCms, and the numbered name that the linker's
    cache has where only packages to run programs are installed."""
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
    """hip-python's module ``hip.hip``, bound to the named library.

    Raises:
        EnvironmentProblem: H003, hip-python is not installed or does not import.
    """
    help = "pip install 'fmha[rocm]', in a version for the installed ROCm"
    low, high = imported(_BINDINGS, "hip-python", "H003", help)
    low.DLL = library.encode()
    return high

"""Find libamdhip64 and make hip-python and kernel libraries use the same copy."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.driver import imported
from fmha_cli.domain.errors import EnvironmentProblem

NAME = "libamdhip64.so"
_ROOT_VARIABLES = ("ROCM_PATH", "HIP_PATH")
"""ROCm's own environment variables for its installation folder."""

_DEFAULT_ROOT = "/opt/rocm"
_BINDINGS = ("hip.chip", "hip.hip")
"""hip-python's low layer, whose ``DLL`` names the library that the first call opens, and its high layer."""


def candidates() -> tuple[str, ...]:
    """Names to try, in order: those that the dynamic linker finds, then those in ROCm's folders."""
    roots = [os.environ[v] for v in _ROOT_VARIABLES if os.environ.get(v)]
    return (NAME, *(str(Path(root, "lib", NAME)) for root in (*roots, _DEFAULT_ROOT)))


def open_library(path: Path | None = None) -> tuple[ctypes.CDLL, str]:
    """Load the runtime library with its symbols visible to kernel libraries loaded later; also return its name.

    Args:
        path: a specific library to load instead of the first one found.

    Raises:
        EnvironmentProblem: H002, no library loads.
    """
    faults = []
    for name in (str(path),) if path is not None else candidates():
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW), name
        except OSError as fault:
            faults.append(str(fault))
    raise EnvironmentProblem(
        f"the HIP runtime ({NAME}) does not load",
        code="H002",
        where=str(path or NAME),
        why="; ".join(dict.fromkeys(faults)),
        help="install ROCm, or set ROCM_PATH to where it is",
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

"""Installed ROCms: the folders in which one may be, and the HIP runtimes in them. Nothing here is loaded or started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

RUNTIME = "libamdhip64.so"
_NUMBERED = re.compile(rf"{re.escape(RUNTIME)}(\.\d+)+")

_VARIABLES = ("ROCM_PATH", "HIP_PATH")
"""ROCm's own variables for its folder."""

_WHEELS = ("_rocm_sdk_devel", "_rocm_sdk_core")
"""The folders of ROCm's wheels in site-packages, each laid out as a ROCm. The run-time wheels have no links, so a
library has only its numbered name (ROCm/TheRock, docs/packaging/python_packaging.md).
"""


def installed_roots(environ: Mapping[str, str]) -> list[Path]:
    """Folders that exist and may be a ROCm: ROCM_PATH, HIP_PATH, /opt/rocm, the versions next to it (newest first),
    that of ``hipcc`` on PATH, and the wheels in site-packages.
    """
    hipcc = shutil.which("hipcc", path=environ.get("PATH", os.defpath))
    versions = sorted(Path("/opt").glob("rocm-*"), key=_numbers, reverse=True)
    behind = [Path(hipcc).resolve().parent.parent] if hipcc else []
    found: dict[Path, Path] = {}
    for path in (*named_roots(environ), Path("/opt/rocm"), *versions, *behind, *_wheels()):
        if path.is_dir():
            found.setdefault(path.resolve(), path)
    return list(found.values())


def named_roots(environ: Mapping[str, str]) -> list[Path]:
    """The folders that ROCM_PATH and HIP_PATH name, whether or not they exist."""
    return list(dict.fromkeys(Path(environ[name]) for name in _VARIABLES if environ.get(name)))


def runtimes(root: Path) -> list[Path]:
    """The HIP runtimes of a ROCm: the one that its link names, then those with a number, newest first."""
    link = root / "lib" / RUNTIME
    numbered = [path for path in link.parent.glob(f"{RUNTIME}.*") if _NUMBERED.fullmatch(path.name)]
    return [*([link] if link.exists() else []), *sorted(numbered, key=_numbers, reverse=True)]


def is_rocm(path: Path) -> bool:
    """Whether a folder has the headers of HIP."""
    return (path / "include" / "hip" / "hip_version.h").is_file()


def _wheels() -> Iterator[Path]:
    for name in _WHEELS:
        spec = find_spec(name)
        yield from map(Path, (spec.submodule_search_locations if spec else None) or ())


def _numbers(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.name.replace(RUNTIME, ""))))

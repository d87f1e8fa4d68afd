"""NVIDIA's wheels of this Python: NVRTC, and the headers that kernels include. Found by their metadata, not imported.

``importlib.metadata`` does the same and takes longer to import than a kernel to load from the cache.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RELEASE = "13.0"
"""NVRTC's release: its cubins load on every driver of CUDA 13. CUTLASS 4.0.0 does not compile with a later CCCL."""

COMPILER, RUNTIME, CCCL = "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"
INSTALL_HELP = "pip install 'fmha[cuda]'"


class WheelProblem(Exception):
    """A wheel that is missing, of another release, or damaged; the message says which in one line."""


@dataclass(frozen=True)
class Wheel:
    """An installed distribution: its name, its version, the folder that it is installed in, and its record."""

    name: str
    version: str
    root: Path
    record: Path


def wheel(name: str, folders: Iterable[str] | None = None) -> Wheel:
    """A distribution of ``RELEASE``: the first in the folders of modules, as an import would find it.

    Raises:
        WheelProblem: it is not installed, or of another release.
    """
    for folder in sys.path if folders is None else folders:
        for entry in _names(folder or "."):
            title, _, version = entry.removesuffix(".dist-info").rpartition("-")
            if entry.endswith(".dist-info") and re.sub(r"[-_.]+", "-", title).lower() == name:
                if not version.startswith(f"{RELEASE}."):
                    raise WheelProblem(f"{name} is {version}, not {RELEASE}.*")
                root = Path(folder or ".").absolute()
                return Wheel(name, version, root, root / entry / "RECORD")
    raise WheelProblem(f"{name} is not installed")


def recorded(found: Wheel, folder: str) -> list[Path]:
    """The wheel's files below a folder whose last parts are given (``include``), sorted.

    Raises:
        WheelProblem: it has none, one is missing, or its record cannot be read.
    """
    try:
        with found.record.open(encoding="utf-8", newline="") as file:
            names = [row[0] for row in csv.reader(file) if row and f"/{folder}/" in f"/{row[0]}"]
    except (OSError, ValueError) as fault:
        raise WheelProblem(f"the record of {found.name} {found.version} cannot be read: {fault}") from fault
    paths = sorted(found.root / name for name in names if not name.endswith((".pyc", "/")))
    if not paths:
        raise WheelProblem(f"{found.name} {found.version} holds nothing below {folder}/")
    return paths


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []

"""NVIDIA's wheels in this Python: NVRTC, ptxas, and the headers that kernels include.

The wheels are found by their metadata and not imported. ``importlib.metadata`` does the same, but importing it takes
longer than loading a kernel from the cache.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.cache.memo import Stamps, stamps
from fmha_cli.toolchain.cpp.headers import sha256_of

RELEASE = "13.0"
"""The release of NVRTC and the headers. Its cubins load on every driver of CUDA 13, and CUTLASS 4.0.0 does not compile
with a later CCCL."""

COMPILER, RUNTIME, CCCL = "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"
ASSEMBLER = "nvidia-cuda-nvcc"
"""The wheel that holds ptxas."""
INSTALL_HELP = "pip install 'fmha[cuda]'"

_LIBCUDACXX = ("cuda/", "nv/")
"""The part of CCCL that kernels include: libcu++, without Thrust and CUB."""
_CUDA, _CCCL = "include", "include/cccl"


class WheelProblem(Exception):
    """A wheel is missing, of another release, or damaged. The message states it in one line."""


@dataclass(frozen=True)
class Wheel:
    """An installed distribution.

    Attributes:
        root: the folder that it is installed in.
        record: its list of files, ``RECORD``.
    """

    name: str
    version: str
    root: Path
    record: Path


def wheel(name: str, folders: Iterable[str] | None = None) -> Wheel:
    """A distribution of ``RELEASE``: the first of that name in the folders of modules, as an import would find it.

    Args:
        folders: folders of modules to search instead of this Python's own.

    Raises:
        WheelProblem: the distribution is not installed, or is of another release.
    """
    for folder in sys.path if folders is None else folders:
        root = Path(folder or ".").absolute()
        for info in sorted(root.glob("*.dist-info")):
            title, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            if re.sub(r"[-_.]+", "-", title).lower() == name:
                if not version.startswith(f"{RELEASE}."):
                    raise WheelProblem(f"{name} is {version}, not {RELEASE}.*")
                return Wheel(name, version, root, info / "RECORD")
    raise WheelProblem(f"{name} is not installed")


def list_recorded(found: Wheel, folder: str) -> list[Path]:
    """The wheel's files below a folder, sorted.

    Args:
        folder: the last parts of the folder's path, such as ``include``.

    Raises:
        WheelProblem: the wheel has no such file, or its record cannot be read.
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


@dataclass(frozen=True)
class CudaHeaders:
    """Two folders to include from, and the files in them that kernels may include.

    Attributes:
        digest: of those files, wherever the folders are.
        watched: stamps of those files and of the wheels' records from before they were read.
    """

    cuda: Path
    cccl: Path
    digest: str
    watched: Stamps


def packaged_headers(runtime: Wheel, cccl: Wheel) -> CudaHeaders:
    """The headers of the wheels.

    Raises:
        WheelProblem: a wheel is damaged.
        OSError: a header cannot be read.
    """
    cuda_files = list_recorded(runtime, _CUDA)
    cuda = _root(cuda_files, _CUDA)
    all_cccl = list_recorded(cccl, _CCCL)
    root = _root(all_cccl, _CCCL)
    cccl_files = [path for path in all_cccl if path.relative_to(root).as_posix().startswith(_LIBCUDACXX)]
    watched = stamps(map(str, (runtime.record, cccl.record, *cuda_files, *cccl_files)))
    try:
        listed = [[_relative(path, cuda, root), sha256_of(path)] for path in (*cuda_files, *cccl_files)]
    except FileNotFoundError as missing:
        raise WheelProblem(f"{missing.filename} is missing: {INSTALL_HELP} --force-reinstall") from missing
    return CudaHeaders(cuda, root, digest_of(listed), watched)


def _root(paths: Sequence[Path], folder: str) -> Path:
    """The folder itself: the path of the first file up to and including ``folder``."""
    return Path(paths[0].as_posix().partition(f"/{folder}/")[0], folder)


def _relative(path: Path, cuda: Path, cccl: Path) -> str:
    below = path.is_relative_to(cccl)
    return f"{'cccl' if below else 'cuda'}/{path.relative_to(cccl if below else cuda).as_posix()}"

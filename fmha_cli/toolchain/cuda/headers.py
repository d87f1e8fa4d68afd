"""The CUDA headers that kernels include: those of the runtime and libcu++, with one digest for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.cache.memo import Stamps, stamps
from fmha_cli.toolchain.cpp.headers import sha256_of
from fmha_cli.toolchain.cuda.packages import INSTALL_HELP, Wheel, WheelProblem, recorded

_LIBCUDACXX = ("cuda/", "nv/")
"""The part of CCCL that kernels include: libcu++, without Thrust and CUB."""
_CUDA, _CCCL = "include", "include/cccl"


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
    cuda_files = recorded(runtime, _CUDA)
    cuda = _root(cuda_files, _CUDA)
    all_cccl = recorded(cccl, _CCCL)
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

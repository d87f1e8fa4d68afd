"""The CUDA headers that kernels include: those of the runtime and libcu++, with one digest for both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import recall, remember, stamps
from fmha_cli.toolchain.cuda.packages import CCCL, INSTALL_HELP, RUNTIME, Wheel, WheelProblem, recorded, wheel

_LIBCUDACXX = ("cuda/", "nv/")
"""The part of CCCL that kernels include: libcu++, without Thrust and CUB."""
_CUDA, _CCCL = "include", "include/cccl"


@dataclass(frozen=True)
class CudaHeaders:
    """Two folders to include from, and a digest of the files in them that kernels may include.

    The digest does not depend on where the folders are.
    """

    cuda: Path
    cccl: Path
    digest: str


def packaged_headers(layout: CacheLayout, folders: Iterable[str] | None = None) -> CudaHeaders:
    """The headers of the wheels. They are hashed once. Later calls cost a thousand ``stat`` calls if no file changed.

    Args:
        folders: folders of modules to search instead of this Python's own.

    Raises:
        WheelProblem: a wheel is missing, of another release, or damaged.
        EnvironmentProblem: a header cannot be read.
    """
    where = None if folders is None else tuple(folders)
    runtime, cccl = wheel(RUNTIME, where), wheel(CCCL, where)
    question = {"cccl": str(cccl.record), "part": list(_LIBCUDACXX), "runtime": str(runtime.record)}
    memo = layout.toolchains / f"cuda-headers-{digest_of(question)[:16]}.json"
    known = recall(memo, question)
    if isinstance(known, list) and len(known) == 3:
        return CudaHeaders(Path(known[0]), Path(known[1]), str(known[2]))
    with as_environment_problem("reading the CUDA headers"):
        return _hashed((runtime, cccl), memo, question)


def _hashed(wheels: tuple[Wheel, Wheel], memo: Path, question: object) -> CudaHeaders:
    runtime, cccl = wheels
    cuda_files = recorded(runtime, _CUDA)
    cuda = _root(cuda_files, _CUDA)
    all_cccl = recorded(cccl, _CCCL)
    root = _root(all_cccl, _CCCL)
    cccl_files = [path for path in all_cccl if path.relative_to(root).as_posix().startswith(_LIBCUDACXX)]
    watched = stamps(map(str, (*(w.record for w in wheels), *cuda_files, *cccl_files)))
    try:
        listed = [[_relative(path, cuda, root), _sha256(path)] for path in (*cuda_files, *cccl_files)]
    except FileNotFoundError as missing:
        raise WheelProblem(f"{missing.filename} is missing: {INSTALL_HELP} --force-reinstall") from missing
    found = CudaHeaders(cuda, root, digest_of(listed))
    # A read-only cache works without the memo.
    with suppress(OSError):
        remember(memo, question, [str(cuda), str(root), found.digest], watched)
    return found


def _root(paths: Sequence[Path], folder: str) -> Path:
    """The folder itself: the path of the first file up to and including ``folder``."""
    return Path(paths[0].as_posix().partition(f"/{folder}/")[0], folder)


def _relative(path: Path, cuda: Path, cccl: Path) -> str:
    below = path.is_relative_to(cccl)
    return f"{'cccl' if below else 'cuda'}/{path.relative_to(cccl if below else cuda).as_posix()}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""What can be refused before anything runs: outputs that a file cannot hold, and names that would be overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fmha_cli.errors import UsageError
from fmha_cli.problem import Problem
from fmha_cli.walk.request import Request
from fmha_cli.walk.tensor_io import SUFFIXES


def check_out(points: Sequence[Problem], request: Request) -> None:
    """Refuse an ``--out`` that cannot be kept.

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
        raise UsageError(
            f"--out {path}: a .npy file holds O alone", code="E036", where="--out", help="use .npz or .safetensors"
        )
    if "{i}" not in request.out and (len(points) > 1 or request.all_kernels or request.ab):
        raise UsageError(
            f"--out {path}: several rows would write one file",
            code="E037",
            where="--out",
            help="put {i} into the name, e.g. out-{i}.npz",
        )

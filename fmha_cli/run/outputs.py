"""The files that a walk writes, ``--out``, ``--save-failures`` and ``--journal``: refused before anything runs if they cannot be
written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.fields import asks_fill
from fmha_cli.domain.problem import Problem
from fmha_cli.report.target import Target, check_folder
from fmha_cli.results.journal import refuse_taken
from fmha_cli.run.request import Request
from fmha_cli.run.tensor_files import SUFFIXES, file_of


def check_outputs(points: Sequence[Problem], request: Request, rows: int | None = None) -> None:
    """Refuse ``--out``, ``--save-failures`` and ``--journal`` that could not take the results.

    Args:
        rows: how many rows there are, once that is known; there is at least one for each point.

    Raises:
        UsageError: unknown suffix, more than O in a ``.npy``, several rows and no ``{i}``, an input as the output, a journal
            that is there already.
        EnvironmentProblem: X040, a place that cannot be written to.
    """
    if request.save_failures is not None:
        check_folder(Path(request.save_failures), "--save-failures")
    if request.journal is not None and rows is None:
        refuse_taken(Path(request.journal))
        Target(Path(request.journal), "--journal").check()
    if request.out is None:
        return
    path = Path(request.out)
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--out {path}: unknown kind of file", code="E031", where="--out", help=", ".join(SUFFIXES))
    if path.suffix == ".npy" and any(p.lse or p.direction.backward for p in points):
        help = "use .npz or .safetensors"
        raise UsageError(f"--out {path}: a .npy file holds only O", code="E036", where="--out", help=help)
    if "{i}" not in request.out and (len(points) > 1 or request.all_kernels or request.ab or request.wanted.several):
        what = f"--out {path}: several rows would write one file"
        raise UsageError(what, code="E037", where="--out", help="put {i} into the name, e.g. out-{i}.npz")
    paths = [out_path(request.out, index) for index in range(rows or len(points))]
    refuse_inputs(paths, "--out", request.files)
    probed: set[Path] = set()
    for one in paths:
        Target(one, "--out").check(probe=one.parent not in probed)
        probed.add(one.parent)


def out_path(pattern: str, index: int) -> Path:
    """The file of row ``index`` (from 0); ``{i}`` is its number from 1, as in the table."""
    return Path(pattern.replace("{i}", str(index + 1)))


def refuse_inputs(paths: Iterable[Path], flag: str, inputs: Mapping[str, str]) -> None:
    """Refuse to write onto a file that is read, by whatever name or link.

    Args:
        inputs: flag key -> FILE[:KEY].

    Raises:
        UsageError: E038.
    """
    read: dict[str, Path] = {}
    for key, spec in inputs.items():
        with suppress(OSError, ValueError):
            if not asks_fill(key, spec):
                read[f"--{key.replace('_', '-')}"] = file_of(spec)[0]
    refuse_overwriting(paths, flag, read)


def refuse_overwriting(paths: Iterable[Path], flag: str, inputs: Mapping[str, Path]) -> None:
    """Like ``refuse_inputs``.

    Args:
        inputs: the name of an input -> its file, which need not exist.

    Raises:
        UsageError: E038.
    """
    read: dict[tuple[int, int], str] = {}
    for name, one in inputs.items():
        with suppress(OSError, ValueError):
            status = one.stat()
            read[status.st_dev, status.st_ino] = name
    for path in paths if read else ():
        with suppress(OSError, ValueError):
            status = path.stat()
            if other := read.get((status.st_dev, status.st_ino)):
                what, why = f"{flag} {path}: this is the file of {other}", "an output would overwrite an input"
                raise UsageError(what, code="E038", where=flag, why=why, help="write to another file")


def refuse_shared(places: Mapping[str, str | None]) -> None:
    """Refuse two outputs in one file, of which the later would replace the earlier.

    Args:
        places: flag -> the path that it names, if it was given.

    Raises:
        UsageError: E038.
    """
    taken: dict[str, str] = {}
    for flag, place in places.items():
        if place is None:
            continue
        other = taken.setdefault(os.path.realpath(place), flag)
        if other != flag:
            what, why = f"{flag} {place}: this is the file of {other}", "one output would overwrite the other"
            raise UsageError(what, code="E038", where=flag, why=why, help="write to another file")

"""What a run refuses before anything runs: files of ``--out``, ``--save-failures`` and ``--journal`` that cannot be written, and given tensors
that are not all that a problem reads.

A result on real tensors mixed with generated ones looks like a result on real tensors. So the word ``filled`` asks for each of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fmha_cli.domain.errors import ImpossibleProblem, UnsupportedError, UsageError
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.fields import asks_fill
from fmha_cli.domain.flags import FILLED
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Role, shapes_of
from fmha_cli.report.target import Target, check_folder
from fmha_cli.results.plans import refuse_taken
from fmha_cli.run.input_files import FLAG_OF, InputFiles, check_fit
from fmha_cli.run.request import Request
from fmha_cli.run.tensor_files import SUFFIXES, file_of


def refuse_misfits(problems: Iterable[Problem], given: InputFiles) -> None:
    """Refuse tensors that do not fit one of the problems, or are not all that it reads, before any of them runs.

    Raises:
        ImpossibleProblem, UsageError: P021, a tensor that is neither given nor asked for; see also ``check_fit``.
    """
    for problem in problems if given.arrays else ():
        with suppress(UnsupportedError):  # its row says so
            check_fit(problem, given)
            _refuse_missing(problem, given)


def generated(problem: Problem, given: InputFiles) -> tuple[str, ...]:
    """The tensors of a problem that are generated although others are given; none if none is given.

    Standard ALiBi slopes are a formula, O and LSE of a backward pass are computed, and the scales of an MX type belong to its
    elements.

    Raises:
        UnsupportedError: T001, see ``fmha_cli.domain.tensors.shapes_of``.
    """
    if not given.arrays:
        return ()
    apart = {"o", "lse", *(("alibi_slopes",) if problem.alibi is Alibi.STANDARD else ())}
    read = (name for name, shape in shapes_of(problem).items() if shape.role is not Role.OUTPUT and name not in apart)
    return tuple(name for name in read if name not in given.arrays and not name.endswith("_scale"))


def sources_of(problem: Problem, given: InputFiles) -> Mapping[str, str]:
    """Tensor name -> its file, or ``filled`` if it was generated next to given ones; empty if no tensor was given."""
    out = {name: path for name, path in given.paths.items() if name in given.arrays}
    with suppress(UnsupportedError):
        out |= dict.fromkeys(generated(problem, given), FILLED)
    return out


def _refuse_missing(problem: Problem, given: InputFiles) -> None:
    missing = [name for name in generated(problem, given) if given.paths.get(name) != FILLED]
    if "k" not in given.arrays:  # the table of generated pages is a part of them
        missing = [name for name in missing if name != "block_table"]
    if missing:
        flags = [FLAG_OF[name] for name in missing]
        what = f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} not given beside {_listed(given.arrays)}"
        given_so, filled_so = (" ".join(f"{flag} {value}" for flag in flags) for value in ("FILE", FILLED))
        help = f"{given_so}, or {filled_so} to generate {'it' if len(missing) == 1 else 'them'} from the seed"
        why = "where a tensor is given, no other is generated unless you ask for it"
        raise ImpossibleProblem(what, code="P021", where=flags[0], why=why, help=help)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


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

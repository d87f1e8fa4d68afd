"""A sweep on disk: a folder with the request (``sweep.json``) and the workers' output. Its rows are in the store that the request
names.

The folder is in the user's state folder until every row is done; ``fmha sweep --resume RUN`` finds it there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.documents.workloads import WorkloadRow
from fmha_cli.run.request import Request
from fmha_cli.run.tuned_choice import Kept

SPEC, LINES = "sweep.json", "journal.jsonl"
"""The request, and the journal of a sweep that an earlier version began."""

_SHORTEST = 4


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The request.

    Attributes:
        run: id of the run, 32 hexadecimal digits. started: ISO 8601 in UTC.
        argv: the words after ``fmha``.
        points: the flags of every problem.
        layers: of a model or workload, one for each problem; empty without one.
        refused: the calls of a workload that have no row.
        devices, scheduler, chunk, retries: as the options of ``fmha sweep``.
        overlap: the share of the problems that run at every place.
        tuned: what ``fmha tune`` had remembered of the problems when the sweep began; empty for a cluster.
        silence_s: seconds without a sign of life after which a worker is given up.
        store: of all runs, which takes the rows; None for none.
    """

    schema: Literal["fmha.sweep-folder/1"] = "fmha.sweep-folder/1"
    run: str
    started: str
    argv: tuple[str, ...]
    request: Request
    points: tuple[str, ...]
    layers: tuple[Layer | None, ...]
    devices: str
    scheduler: str
    chunk: int
    retries: int
    silence_s: float
    overlap: float = 0.0
    tuned: Kept = field(default_factory=dict)
    store: str | None = None
    refused: tuple[WorkloadRow, ...] = ()

    json_later: ClassVar[tuple[str, ...]] = ("refused",)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every problem, in order."""
        return tuple(map(Problem.from_cli, self.points))


def sweeps_folder(states: Path) -> Path:
    """Where the folders of sweeps are."""
    return states / "sweeps"


def write_spec(states: Path, spec: Spec) -> Path:
    """Make the folder of a new sweep, and return it.

    Raises:
        EnvironmentProblem: X060.
    """
    folder = sweeps_folder(states) / spec.run
    try:
        folder.mkdir(mode=0o700, parents=True)
        part = folder / f".{SPEC}"
        with part.open(
            "w", encoding="utf-8"
        ) as file:  # a budget without a limit is infinite, which no canonical JSON has
            json.dump(to_json(spec), file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(folder / SPEC)
    except OSError as fault:
        what, help = "the sweep cannot be kept", "set XDG_STATE_HOME to a folder that can be written"
        raise EnvironmentProblem(what, code="X060", where=str(folder), why=fault.strerror, help=help) from fault
    return folder


def read_spec(folder: Path) -> Spec:
    """What a sweep was asked for.

    Raises:
        UsageError: E051, the file is missing, or an other version of fmha wrote it.
    """
    path = folder / SPEC
    try:
        data = regular_bytes(path)
        return from_json(Spec, json.loads(data), "sweep")
    except (OSError, ValueError) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "start the sweep again"
        raise UsageError("the sweep cannot be resumed", code="E051", where=str(path), why=why, help=help) from fault


def unfinished(states: Path) -> Sequence[Path]:
    """The folders of sweeps that can be resumed, the newest first."""
    try:
        found = [path for path in sweeps_folder(states).iterdir() if (path / SPEC).is_file()]
        return sorted(found, key=lambda path: (path / SPEC).stat().st_mtime, reverse=True)
    except OSError:
        return ()


def named_sweep(states: Path, name: str) -> Path:
    """The folder of a sweep: by the beginning of its id, its label, ``latest``, or its path.

    Raises:
        UsageError: E051, no unfinished sweep has the name, or several begin so.
    """
    if os.path.isfile(Path(name) / SPEC):
        return Path(name)
    there = unfinished(states)
    fitting = [path for path in there if len(name) >= _SHORTEST and path.name.startswith(name)]
    fitting = fitting or [path for path in there if _label(path) == name]
    if name == "latest" and there:
        fitting = [there[0]]
    if len(fitting) == 1 or (fitting and _label(fitting[0]) == name):
        return fitting[0]
    why = f"{len(fitting)} sweeps begin so" if fitting else "a sweep whose rows are all done has nothing to resume"
    ids = [path.name[:8] for path in there]
    known = [*ids, *filter(None, map(_label, there)), *(["latest"] if there else [])]
    help = suggest(name, known, otherwise=f"unfinished are {', '.join(ids)}" if ids else "no sweep is unfinished")
    raise UsageError(f"no unfinished sweep is called {name}", code="E051", where=name, why=why, help=help)


def _label(folder: Path) -> str | None:
    try:
        spec = json.loads(regular_bytes(folder / SPEC))  # a budget without a limit is not strict JSON
    except (OSError, ValueError):
        return None
    request = spec.get("request") if isinstance(spec, dict) else None
    label = request.get("label") if isinstance(request, dict) else None
    return label if isinstance(label, str) else None


def remove(folder: Path) -> None:
    """Remove the folder of a sweep whose rows are all done and printed."""
    shutil.rmtree(folder, ignore_errors=True)

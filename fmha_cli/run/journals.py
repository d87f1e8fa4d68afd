"""The journal of a run: a new one, or an earlier one whose records must belong to the rows planned now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.report.parts import Environment, RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.plans import refused, run_called
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.toolchain.cache.root import cache_root


def open_journal(
    rows: Sequence[Row],
    request: Request,
    run: RunRow,
    parts: Callable[[], Mapping[str, str]],
    store: Path | None = None,
    environment: Callable[[], Environment | None] = lambda: None,
) -> Journal | None:
    """The journal, which has the records of earlier sessions. One row alone cannot be resumed, and without a store needs none.

    Args:
        run: of this invocation; a journal that is resumed keeps the id of its first.
        parts: the identity of this invocation, computed if the run can be resumed.
        store: of all runs.
        environment: of the run, computed if there is a journal.

    Raises:
        UsageError: the journal of ``--resume`` is damaged, or belongs to another invocation.
        EnvironmentProblem: it cannot be written.
    """
    alone = request.resume is None and request.journal is None and len(rows) == 1
    if alone and store is None:
        return None
    start = start_of(rows, request.argv, run, {} if alone else parts())
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.time_ns() % 10**6:06d}"
    places = JournalPlaces(
        store=store,
        file=None if request.journal is None else Path(request.journal),
        spare=spare_file(request, name),
        environment=environment(),
    )
    if request.resume is None:
        return Journal.create(start, run, places, resumable=not alone)
    path, known = Path(request.resume), None
    if store is not None and (known := run_called(request.resume, store)) is not None:
        path = store
    return Journal.resume(path, known, start, places, partial(refuse_others, path, rows))


def spare_file(request: Request, name: str) -> Path:
    """The file of a run that neither the store nor a file of the user takes."""
    return cache_root(request.cache_root) / "journals" / f"{name}.sqlite"


def start_of(rows: Sequence[Row], argv: Sequence[str], run: RunRow, parts: Mapping[str, str]) -> Start:
    """An invocation and its rows, as its journal has them."""
    asked = tuple(JournalRow(key=row.key, what=row.what) for row in rows)
    return Start(fmha=__version__, argv=tuple(argv), run=run.id, started=run.started, parts=parts, rows=asked)


def refuse_others(path: Path, rows: Sequence[Row], records: Mapping[str, Record], *, anywhere: bool = False) -> None:
    """Refuse records of a journal that belong to other rows than those that have their keys.

    Args:
        anywhere: whether another device of the same kind may have run a row.

    Raises:
        UsageError: X030.
    """
    for row in rows:
        record = records.get(row.key)
        if record is None:
            continue
        kernel = None if row.choice is None else row.choice.kernel.digest
        device = row.choice.device.id if row.choice is not None and row.choice.runnable else None
        same = (
            record.problem == row.problem.to_dict()
            and (None if record.kernel is None else record.kernel.digest) == kernel
            and (anywhere or record.device == device)
            and (row.asked is None or record.backend == row.asked)
            and (record.measurement is None or record.measurement.cache is row.cache)
        )
        if not same:
            raise refused(path, f"the record under the key of row {row.key} belongs to another row")


def keys_of(built: Mapping[str, KernelOutcome]) -> dict[str, str | None]:
    """``Order.key`` -> digest of the key of its build; None if it could not be built."""
    return {kernel: None if outcome.value is None else outcome.value.digest for kernel, outcome in built.items()}

"""The journal of a run: a new one, or an earlier one whose records must belong to the rows planned now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.history import refused
from fmha_cli.results.journal import Journal
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.toolchain.cache.root import cache_root


def open_journal(
    rows: Sequence[Row], request: Request, run: RunRow, parts: Callable[[], Mapping[str, str]], stack: ExitStack
) -> tuple[Journal | None, Mapping[str, Record]]:
    """The journal, and the records of earlier sessions by key. One row alone needs no journal.

    Args:
        run: of this invocation; a journal that is resumed keeps the id of its first.
        parts: the identity of this invocation, computed if there is a journal.
        stack: closes the journal.

    Raises:
        UsageError: the journal of ``--resume`` is damaged, or belongs to another invocation.
        EnvironmentProblem: it cannot be written.
    """
    if request.resume is None and request.journal is None and len(rows) == 1:
        return None, {}
    start = Start(
        fmha=__version__,
        argv=request.argv,
        run=run.id,
        started=run.started,
        parts=parts(),
        rows=tuple(JournalRow(key=row.key, what=row.what) for row in rows),
    )
    if request.resume is not None:
        path = Path(request.resume)
        journal, history = Journal.resume(path, start)
        stack.enter_context(journal)
        return journal, {
            row.key: past_record(path, row, history.done[row.key]) for row in rows if row.key in history.done
        }
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.time_ns() % 10**6:06d}.jsonl"
    path = Path(request.journal) if request.journal else cache_root(request.cache_root) / "journals" / name
    return stack.enter_context(Journal.create(path, start)), {}


def past_record(path: Path, row: Row, data: Mapping[str, object], *, anywhere: bool = False) -> Record:
    """The record of a row in a journal.

    Args:
        anywhere: whether another device of the same kind may have run the row.

    Raises:
        UsageError: it is not a record, or belongs to another row.
    """
    try:
        record = Record.from_dict(data)
    except DecodeError as fault:
        raise refused(path, f"row {row.key}: {fault}") from fault
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
    return record


def keys_of(built: Mapping[str, KernelOutcome]) -> dict[str, str | None]:
    """``Order.key`` -> digest of the key of its build; None if it could not be built."""
    return {kernel: None if outcome.value is None else outcome.value.digest for kernel, outcome in built.items()}

"""Runs and stores for the tests of the room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fmha_cli.domain.encode import digest_of
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.parts import row_key
from fmha_cli.results.store import Store
from fmha_cli.results.writing import put_record, put_run
from tests.support.generators.report.samples import ENVIRONMENT, record


def run_row(number: int = 0, **changes: Any) -> RunRow:
    """One of many runs."""
    row = RunRow(
        id=digest_of(number)[:32],
        command="bench",
        started=f"2026-11-{number % 28 + 1:02d}T10:00:00Z",
        label=None,
        revision=digest_of([number])[:40],
        dirty=False,
    )
    return replace(row, **changes)


def row_of(run: RunRow, index: int, **changes: Any) -> Record:
    """One of a run's many rows."""
    return record(run=run, row=digest_of([run.id, index])[:24], **changes)


def filled(path: Path, *rows: Record) -> None:
    """Write rows, each into the run that it names."""
    with Store.open(path) as store:
        for row in rows:
            assert row.run is not None
            with store.transaction() as db:
                run = put_run(db, row.run, argv=("bench", "-s", "64"), environment=ENVIRONMENT)
                put_record(store, db, run, row, row_key(row, {}))

"""Bringing the records of files into the store: reports, lines of records, and journals of runs that were killed."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.report.parts import RunRow
from fmha_cli.results.parts import about, row_key
from fmha_cli.results.run import KeptRun, run_of_file
from fmha_cli.results.store import Store
from fmha_cli.results.writing import end_run, put_record, put_run

UNKNOWN = "unknown"
"""The command, and the start, of a run whose records do not name it."""


def bring(store: Store, path: Path) -> tuple[set[str], int, int]:
    """Bring the records of a file into the store, all of them or none.

    Returns:
        The ids of its runs, and how many records the store did not have, and had.

    Raises:
        UsageError: E050, the file holds no results.
        EnvironmentProblem: X050, the store cannot be used.
    """
    run = run_of_file(path)
    nameless = RunRow(id=_id_of(run), command=UNKNOWN, started="")
    added, seen, runs = 0, dict[str, int](), set[str]()
    with store.transaction() as db:
        for record in run.records:
            row = record.run or nameless
            key = row_key(record, seen)
            seen[about(record)] = seen.get(about(record), 0) + 1
            kept = put_run(db, row, argv=run.argv, environment=run.environment)
            added += put_record(store, db, kept, record, key) is not None
            if run.ended is not None and row.id not in runs:
                end_run(db, kept, run.ended)
            runs.add(row.id)
    return runs, added, len(run.records) - added


def _id_of(run: KeptRun) -> str:
    """An id for the records of a file that name no run: the same file is always the same run."""
    nameless = [record.to_dict() for record in run.records if record.run is None]
    return digest_of(nameless)[:32]

"""Changing the store: labels of runs, and runs that are no longer wanted."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.results.loading import Summary
from fmha_cli.results.store import Store, guarded

_FREE = 0.25
"""The share of a file that may be free before it is rewritten without the free pages."""


def set_label(store: Store, run: Summary, label: str | None) -> None:
    """Give a run a label, or take it away.

    Raises:
        EnvironmentProblem: X050.
    """
    with store.transaction() as db:
        db.execute("update run set label = ? where id = ?", (label, run.number))


def remove(store: Store, runs: Sequence[Summary]) -> int:
    """Remove runs with their records: the number of records. All are removed, or none.

    Raises:
        EnvironmentProblem: X050.
    """
    numbers = [(run.number,) for run in runs]
    with store.transaction() as db:
        for table, column in (("record", "run"), ("tally", "run"), ("unfinished", "run"), ("run", "id")):
            db.executemany(f"delete from {table} where {column} = ?", numbers)
    with guarded(store.path):
        (free,), (pages,) = (
            store.connection.execute(f"pragma {name}").fetchone() for name in ("freelist_count", "page_count")
        )
        if free > _FREE * pages:
            store.connection.execute("vacuum")
    return sum(run.records for run in runs)

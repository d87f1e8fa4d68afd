"""``Keeper``: puts the records of a run into the store as they come. Whatever is wrong with the store never stops the run.

The journal remains what a run resumes from. Records that the store could not take are brought in later by ``fmha results
import JOURNAL``, or by the run that resumes the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.parts import Environment
from fmha_cli.report.record import Record
from fmha_cli.results.parts import about, row_key
from fmha_cli.results.store import Store
from fmha_cli.results.writing import arrange_records, end_run, put_record, put_run

WAIT_S = 10.0
"""How long a run waits for another process's transaction before it goes on without the store."""


class Keeper:
    """Keeps the records of one command.

    Args:
        path: of the store.
        argv: the command line.
        say: takes the one line with the reason why nothing is kept.

    Attributes:
        kept: number of records that are in the store now.
    """

    def __init__(self, path: Path, argv: Sequence[str], say: Callable[[str], None]) -> None:
        self._path, self._argv, self._say = path, tuple(argv), say
        self._environment: Environment | None = None
        self._store: Store | None = None
        self._broken = False
        self._seen: dict[str, int] = {}
        self._ended: Record | None = None
        self.kept = 0

    def environment(self, environment: Environment) -> None:
        """Take the environment of the records that follow."""
        self._environment = environment

    def record(self, record: Record) -> None:
        """Keep a record. A record that is there already counts as kept."""
        if record.run is None or self._broken:
            return
        key = row_key(record, self._seen)
        self._seen[about(record)] = self._seen.get(about(record), 0) + 1
        try:
            store = self._opened()
            with store.transaction() as db:
                run = put_run(db, record.run, argv=self._argv, environment=self._environment)
                put_record(store, db, run, record, key)
        except EnvironmentProblem as fault:
            self._give_up(fault)
        else:
            self.kept += 1
            self._ended = record

    def arrange(self, records: Sequence[Record]) -> None:
        """Put the kept records in the order of these, which are all of the run."""
        if self._store is None or self._broken or self._ended is None or self._ended.run is None:
            return
        try:
            with self._store.transaction() as db:
                arrange_records(db, put_run(db, self._ended.run), [r.row for r in records if r.row is not None])
        except EnvironmentProblem as fault:
            self._give_up(fault)

    def close(self, ended: str) -> None:
        """Close the store, and note when the run ended (ISO 8601 in UTC)."""
        if self._store is None:
            return
        try:
            if self._ended is not None and self._ended.run is not None and not self._broken:
                with self._store.transaction() as db:
                    end_run(db, put_run(db, self._ended.run), ended)
        except EnvironmentProblem as fault:
            self._give_up(fault)
        finally:
            self._store.close()
            self._store = None

    def _opened(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._path, wait_s=WAIT_S)
        return self._store

    def _give_up(self, fault: EnvironmentProblem) -> None:
        self._broken = True
        self._say(f"results are not kept: {fault.what} ({fault.where}: {fault.why}); {fault.help}")

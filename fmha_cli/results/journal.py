"""``Journal``: the one record of a run, row by row, in the store or in a file of its own.

A file of a run has the tables of the store, and the store is such a file with many runs. Each row is one transaction: after a
kill its record is there, or the row runs again. Until all that a run planned is done and delivered, its plan is kept with its
records, and the same invocation resumes from there. One process writes a run at a time.

A journal remembers what it wrote. So it can go on in the spare file when the store fails, and what is not in the store when the run
ends is brought there then.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.journal import Start
from fmha_cli.report.parts import Environment, RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.history import read_history
from fmha_cli.results.identity import difference, rebuilt
from fmha_cli.results.naming import is_file_name
from fmha_cli.results.plans import RunState, forget_plan, put_kept, refuse_taken, refused, run_of, state_of
from fmha_cli.results.store import Store, guarded, is_database
from fmha_cli.results.writing import StoredRun, arrange_records, end_run, put_record, put_run, replace_record
from fmha_cli.system.files import sync_folder
from fmha_cli.system.locks import claim, release

WAIT_S = 10.0
"""How long a run waits for another process's transaction before it goes on without the store."""

RELEASED_S = 0.5
"""How long a lock may outlive a writer that was killed: a process that it had just forked holds it until it becomes another program."""


@dataclass(frozen=True, kw_only=True)
class JournalPlaces:
    """Where a run may be written.

    Attributes:
        store: that of all runs; None to keep none.
        file: the file that the user named, which stays.
        spare: a file for a run that no other place takes. It goes when nothing needs it.
        environment: of the run; None if unknown.
    """

    store: Path | None
    file: Path | None = None
    spare: Path
    environment: Environment | None = None


class Journal(AbstractContextManager["Journal"]):
    """A run that is being written. Make one with :meth:`create` or :meth:`resume`, and close it.

    Attributes:
        state: all that was written.
        resumable: whether the plan is kept.
        path: the file that takes the rows.
        fault: why the store does not have them.
    """

    def __init__(self, state: RunState, about: RunRow, places: JournalPlaces, *, resumable: bool = True) -> None:
        self.state, self._about, self._places, self.resumable = state, about, places, resumable
        self._rows = frozenset(state.start.keys)
        if len(self._rows) != len(state.start.rows):
            raise InternalError("two rows of a plan have one key")
        self.path = places.file or places.store or places.spare
        self.fault: EnvironmentProblem | None = None
        self._store: Store | None = None
        self._run = StoredRun(0, about)
        self._lock: tuple[Path, int] | None = None
        self._begun = self._lost = False

    @classmethod
    def create(cls, start: Start, about: RunRow, places: JournalPlaces, *, resumable: bool = True) -> Self:
        """Begin a run. A file that the user named appears with its plan, or not at all.

        Args:
            resumable: whether the plan is kept. Without it, nothing is written before the first record.

        Raises:
            UsageError: the named file already exists.
            EnvironmentProblem: no place takes the run.
            InternalError: two rows have one key.
        """
        journal = cls(RunState(start=start), about, places, resumable=resumable)
        if resumable:
            journal._begin(publish=places.file is not None)
        return journal

    @classmethod
    def resume(
        cls,
        path: Path,
        run: str | None,
        here: Start,
        places: JournalPlaces,
        accept: Callable[[Mapping[str, Record]], object] = len,
    ) -> Self:
        """Take over a run to finish it; it keeps the id of its first session. A journal of lines becomes the file of a run.

        Args:
            path: the store, or the file of one run. run: its id in the store.
            here: this invocation; it must be the one that began the run in every part.
            accept: looks at the records before anything is changed, and may raise ``UsageError``.

        Raises:
            UsageError: there is no such run, it is damaged, belongs to another invocation, or another process writes it.
            EnvironmentProblem: it cannot be written.
        """
        try:
            lines = not is_database(path)
        except OSError as fault:
            why = "there is no such file" if isinstance(fault, FileNotFoundError) else str(fault.strerror)
            why += "" if places.store is None or is_file_name(str(path)) else ", and the store has no run to resume"
            raise refused(path, why) from fault
        lock = _claim(path, run)
        try:
            if lines:
                state = read_history(path)
                about = run_of(state)
            else:
                about, state = state_of(path, run)
            if differs := difference(state.start, here):
                raise refused(path, differs, "repeat the command line that wrote it, or start again without --resume")
            accept(state.records)
            journal = cls(state, about, places)
        except BaseException:
            release(*lock)
            raise
        journal.path, journal._lock = path, lock
        journal._begin(publish=lines)
        return journal

    @property
    def place(self) -> str | None:
        """What ``--resume`` takes: the beginning of the run's id in the store, or the path of its file; None if nothing is left of it."""
        if not self.resumable or self._leaves_nothing:
            return None
        return self.state.start.run[:8] if self.path == self._places.store else str(self.path)

    def built(self, kernels: Mapping[str, str | None]) -> None:
        """Keep which kernels this session runs: kernel digest -> digest of the key of its build, None if it failed.

        Raises:
            UsageError: an earlier session ran other builds of the same kernels.
        """
        if differs := rebuilt(self.state.built, kernels):
            raise refused(self.path, differs)
        if new := {kernel: build for kernel, build in kernels.items() if kernel not in self.state.built}:
            self.state.built.update(new)
            self._keep("built", new)

    def planned(self, *keys: str) -> None:
        """Note that rows are about to be dispatched. A power failure may lose it, a kill does not."""
        for key in keys:
            self._check(key)
            self.state.attempts[key] = self.state.attempts.get(key, 0) + 1
        self._keep("dispatched", {key: self.state.attempts[key] for key in keys})

    def done(self, records: Mapping[str, Record]) -> None:
        """Keep the records of some rows, by their keys: after a kill all of them are there, or none.

        Raises:
            InternalError: a row was not requested, or is already done.
            EnvironmentProblem: no place takes them.
        """
        for key in records:
            self._check(key)
        self.add(records)

    def add(self, records: Mapping[str, Record]) -> None:
        """Keep records of rows that were not planned. One that is there already stays as it is.

        Raises:
            EnvironmentProblem: no place takes them.
        """
        new = {key: record for key, record in records.items() if key not in self.state.records}
        self.state.records.update(new)
        try:
            if not self._begun:
                self._begin()
            elif new:
                self._write(lambda store, db: self._put(store, db, new))
        except KeyboardInterrupt:  # these rows do not count as done
            for key in new:
                del self.state.records[key]
            raise

    def amend(self, key: str, record: Record) -> None:
        """Replace a record by one that also knows of the rows beside it."""
        if (before := self.state.records.get(key)) is not record and before != record:
            self.state.records[key] = record
            self._write(lambda store, db: self._put_sum(db, key, replace_record(store, db, self._run, record, key)))

    def note(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep what came of a step that is no record.

        Raises:
            InternalError, EnvironmentProblem: as ``done``.
        """
        self._check(key)
        self.state.notes[key] = value
        self._keep("note", {key: canonical_json(value)}, synced=True)

    def settle(self, ended: str) -> None:
        """The run ends (ISO 8601 in UTC), perhaps to be resumed: its records get the order of its rows, and reach the store."""

        def end(db: sqlite3.Connection, run: StoredRun) -> None:
            arrange_records(db, run, self.state.start.keys)
            end_run(db, run, ended)

        with suppress(EnvironmentProblem):
            self._write(lambda store, db: end(db, self._run), synced=False)
        place = self._places.store
        if place is None or self.path == place or not self.state.records:
            return
        try:
            with Store.open(place, wait_s=WAIT_S) as store, store.transaction() as db:
                run = self._put_run(db)
                for key, record in self.state.records.items():
                    put_record(store, db, run, record, key)
                end(db, run)
                forget_plan(db, run.id)  # it is resumed from where it is whole
            self.fault = None
        except EnvironmentProblem as fault:
            self.fault = fault

    @property
    def outside(self) -> str | None:
        """Why the store does not have the rows, and how to bring them in; None if it has them, or there is none."""
        if (fault := self.fault) is None:
            return None
        help = fault.help if self._lost else f"`fmha results import {self.path}` brings them in"
        return f"results are not kept in the store: {fault.what} ({fault.where}: {fault.why}); {help}"

    def complete(self) -> None:
        """All rows are done and delivered: there is nothing to resume."""
        if self.path == self._places.spare and self.fault is None:
            self._shut()
            self.path.unlink(missing_ok=True)
        elif self.path in (self._places.spare, self._places.store) and self.resumable:
            with suppress(EnvironmentProblem):
                self._write(lambda store, db: forget_plan(db, self._run.id), synced=False)

    def close(self) -> None:
        """Close the file; its content stays. A run without a row leaves nothing in the store."""

        def forget(store: Store, db: sqlite3.Connection) -> None:
            forget_plan(db, self._run.id)
            db.execute("delete from run where id = ?", (self._run.id,))

        if self._leaves_nothing:
            with suppress(EnvironmentProblem):
                self._write(forget, synced=False)
        self._shut()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def _leaves_nothing(self) -> bool:
        return self.path == self._places.store and not (self.state.records or self.state.notes)

    def _check(self, key: str) -> None:
        if key not in self._rows or key in self.state.records or key in self.state.notes:
            raise InternalError(f"row {key} is not in this plan, or is already done", where=str(self.path))

    def _keep(self, what: str, values: Mapping[str, str | int | None], *, synced: bool = False) -> None:
        if self.resumable:
            self._write(lambda store, db: put_kept(db, self._run.id, what, values), synced=synced)

    def _write(self, write: Callable[[Store, sqlite3.Connection], object], *, synced: bool = True) -> None:
        """Write what is remembered already. Nothing is written after the last place has failed.

        Raises:
            EnvironmentProblem: X031, the last place fails.
        """
        if self._store is None:
            return
        try:
            with self._store.transaction(synced=synced) as db:
                write(self._store, db)
        except EnvironmentProblem as fault:
            self._leave(fault, "written")

    def _leave(self, fault: EnvironmentProblem, verb: str) -> None:
        """Go on in the spare file, with all that is remembered."""
        self._shut()
        if self.path != self._places.store:
            self._lost = True
            what, help = f"the journal cannot be {verb}", "--journal FILE names another place"
            raise EnvironmentProblem(what, code="X031", where=str(self.path), why=fault.why, help=help) from fault
        self.fault, self.path = fault, self._places.spare
        self._begin()

    def _shut(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._lock is not None:
            release(*self._lock)
            self._lock = None

    @property
    def _shared(self) -> str | None:
        """The id of the run, where others are in the same file."""
        return self.state.start.run if self.path == self._places.store else None

    def _begin(self, *, publish: bool = False) -> None:
        """Lock the run in its file, and write what is remembered and not there.

        Args:
            publish: the file is to appear with all of it, or not at all; or to replace a journal of lines so.

        Raises:
            UsageError: X030, another process writes it, or the named file is there already.
            EnvironmentProblem: X031, neither the file nor the spare one takes it.
        """
        self._begun = True
        try:
            if new := self.resumable and self._lock is None:
                self._lock = _claim(self.path, self._shared)
            if publish:
                if new:
                    refuse_taken(self.path)
                self._publish()
            self._store = Store.open(self.path, alone=self._shared is None, wait_s=WAIT_S)
            self._fill(self._store)
        except EnvironmentProblem as fault:
            self._leave(fault, "opened")
        except BaseException:
            self._shut()
            raise

    def _publish(self) -> None:
        part = self.path.with_name(f".{self.path.name[:40]}.{os.getpid()}.part")
        try:
            with guarded(self.path):
                with Store.open(part, alone=True) as store:
                    self._fill(store)
                part.replace(self.path)
                sync_folder(self.path.parent)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _fill(self, store: Store) -> None:
        with store.transaction() as db:
            self._run = self._put_run(db)
            if self.resumable:
                self.state.put(db, self._run.id)
            self._put(store, db, self.state.records)

    def _put_run(self, db: sqlite3.Connection) -> StoredRun:
        return put_run(db, self._about, argv=self.state.start.argv, environment=self._places.environment)

    def _put(self, store: Store, db: sqlite3.Connection, records: Mapping[str, Record]) -> None:
        for key, record in records.items():
            if self._about.revision is None and record.run is not None and record.run.revision is not None:
                self._about = record.run  # the run was planned before its revision was known
                self._run = self._put_run(db)
            self._put_sum(db, key, put_record(store, db, self._run, record, key))

    def _put_sum(self, db: sqlite3.Connection, key: str, added: bytes | None) -> None:
        if self.resumable and added is not None:
            put_kept(db, self._run.id, "sum", {key: added})


def _claim(path: Path, run: str | None) -> tuple[Path, int]:
    """The lock of a run, of its file or of its id in the store: a file and its descriptor.

    Raises:
        UsageError: X030, another process has it.
        EnvironmentProblem: X050, it cannot be had.
    """
    place = path.with_name(f".{path.name[:40]}{'' if run is None else f'.{run[:12]}'}.lock")
    with guarded(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = claim(place, RELEASED_S)
    if lock is None:
        raise refused(path, "another process is writing it")
    return place, lock

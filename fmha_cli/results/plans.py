"""``RunState``: what a run is resumed from, and reading it from the store or from the file of a run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.journal import Start
from fmha_cli.domain.reading import parsed
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.loading import records_of, summaries
from fmha_cli.results.naming import is_file_name, named
from fmha_cli.results.store import Store, guarded, is_database, is_there
from fmha_cli.results.writing import held


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What is known of a run that is not over. Its mappings grow with it.

    Attributes:
        start: the invocation that began it, and all requested rows.
        records: key -> record, in the order in which the rows were finished.
        built: kernel digest -> digest of the key of its build, None if it could not be built.
        attempts: key -> number of times that the row was dispatched.
        notes: key -> what came of a step that is no record.
    """

    start: Start
    records: dict[str, Record] = field(default_factory=dict)
    built: dict[str, str | None] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def left(self) -> tuple[str, ...]:
        """Keys of the rows that are still to run, in order."""
        return tuple(key for key in self.start.keys if key not in self.records and key not in self.notes)

    def put(self, db: sqlite3.Connection, run: int) -> None:
        """Write all but the records into a store, for the run of this number."""
        put_kept(db, run, "start", {identity_of(self.start): canonical_json(to_json(self.start))})
        put_kept(db, run, "built", self.built)
        put_kept(db, run, "dispatched", self.attempts)
        put_kept(db, run, "note", {key: canonical_json(note) for key, note in self.notes.items()})


def run_of(state: RunState) -> RunRow:
    """What the records of a run say of it; of a run without records, what its plan says."""
    about = next((one.run for one in state.records.values() if one.run is not None), None)
    start = state.start
    return about or RunRow(id=start.run, command="".join(start.argv[:1]), started=start.started)


def identity_of(start: Start) -> str:
    """A digest of everything about an invocation that could change a row."""
    return digest_of([start.fmha, dict(start.parts), list(start.keys)])


def put_kept(db: sqlite3.Connection, run: int, what: str, values: Mapping[str, str | bytes | int | None]) -> None:
    """Write some of what a run is resumed from."""
    rows: Iterable[tuple[Any, ...]] = ((run, what, held(key), held(value)) for key, value in values.items())
    db.executemany("insert or replace into unfinished(run, what, key, value) values (?, ?, ?, ?)", rows)


def forget_plan(db: sqlite3.Connection, run: int) -> None:
    """The run of this number is not to be resumed any more."""
    db.execute("delete from unfinished where run = ?", (run,))


def unfinished(path: Path) -> Mapping[str, str]:
    """Id of the run -> identity of the invocation, for all that can be resumed, the newest last; none without a store.

    Raises:
        EnvironmentProblem: X050.
    """
    if not is_there(path):
        return {}
    asked = "select uuid, key from unfinished u join run on run.id = u.run where what = 'start' order by run.id"
    with Store.open(path, create=False, reads=True, alone=True) as store, store.reading() as db:
        return dict(db.execute(asked))


def last_of(files: Iterable[Path], store: Path | None, *names: str) -> tuple[Path, str | None] | None:
    """Where the newest run is that can be resumed: one of the files; or the store, and the id of a run that has one of the names.

    Args:
        names: ids of runs, and identities of invocations.
    """
    for path in files:
        with suppress(EnvironmentProblem):
            if path.exists() and is_database(path) and not unfinished(path):
                continue
        if path.exists():
            return path, None  # a damaged one is refused with what is wrong
    try:
        runs = {} if store is None else unfinished(store)
    except EnvironmentProblem:  # it takes nothing now either
        return None
    return next(
        ((store, run) for run, one in reversed(list(runs.items())) if {run, one} & set(names) and store is not None),
        None,
    )


def give_up(path: Path, run: str | None) -> None:
    """Discard what is kept for resuming a run: its file, or its plan in the store.

    Raises:
        EnvironmentProblem: X050.
    """
    if run is None:
        with guarded(path):
            path.unlink(missing_ok=True)
        return
    with Store.open(path) as store, store.transaction() as db:
        db.execute("delete from unfinished where run = (select id from run where uuid = ?)", (run,))


def run_called(name: str, path: Path) -> str | None:
    """The id of a run in the store that can be resumed, by a name as ``named`` takes it; None for the name of a file.

    Raises:
        UsageError: E051, no run that can be resumed has the name.
    """
    if is_file_name(name):
        return None
    try:
        known = unfinished(path)
        with Store.open(path, create=False, reads=True) as store:
            runs = [run for run in summaries(store) if run.about.id in known]
    except EnvironmentProblem:  # it cannot have taken the run
        return None
    return named(runs, name).about.id if runs else None


def state_of(path: Path, run: str | None) -> tuple[RunRow, RunState]:
    """A run and what it is resumed from.

    Args:
        path: of the store, or of the file of one run. run: its id in the store.

    Raises:
        UsageError: X030, there is no such run, it is complete, or damaged.
    """
    try:
        with Store.open(path, create=False, reads=True, alone=run is None) as store:
            runs = summaries(store)
            found = [one for one in runs if run in (None, one.about.id)]
            if len(found) != 1:
                raise refused(path, f"it has {len(runs)} runs", "--store FILE --resume RUN resumes a run of a store")
            kept: dict[str, dict[str, Any]] = {name: {} for name in ("start", "built", "dispatched", "note", "sum")}
            with store.reading() as db:
                asked = "select what, key, value from unfinished where run = ?"
                for what, key, value in db.execute(asked, (found[0].number,)):
                    kept[what][key] = value
            if not kept["start"]:
                raise refused(path, f"all rows of run {found[0].about.id[:8]} are done")
            return found[0].about, RunState(
                start=from_json(Start, parsed("".join(kept["start"].values()).encode()), "start"),
                records={str(record.row): record for record in records_of(store, found[0], kept["sum"])},
                built=kept["built"],
                attempts=kept["dispatched"],
                notes={key: parsed(text.encode()) for key, text in kept["note"].items()},
            )
    except (EnvironmentProblem, DecodeError, ValueError, TypeError, KeyError, AttributeError) as fault:
        why = fault.why if isinstance(fault, EnvironmentProblem) else fault
        raise refused(path, f"it cannot be read: {why}") from fault


def refused(path: Path, why: str, help: str = "start again without --resume") -> UsageError:
    """The error of a journal that cannot be used."""
    return UsageError(f"journal {path}: {why}", code="X030", where="--resume", help=help)


def refuse_taken(path: Path) -> None:
    """Raises UsageError: X030, there is such a file already."""
    if os.path.exists(path):  # unlike Path.exists, False for a name that is too long; opening it says so
        help = f"name another file; if it is the journal of this command, --resume {path} finishes it"
        raise UsageError(f"journal {path}: it already exists", code="X030", where="--journal", help=help)

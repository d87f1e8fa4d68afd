"""Journals for tests: their first lines, and those of lines, as earlier versions wrote them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.journal import Finished, JournalDone, JournalRow, Start
from fmha_cli.report.parts import RunRow
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.plans import state_of
from fmha_cli.results.store import Store


def begun(keys: Sequence[str], **other: Any) -> Start:
    """The invocation of a run with these rows."""
    fields: dict[str, Any] = {
        "fmha": "1",
        "argv": ("run", "-b", "1"),
        "run": "0" * 32,
        "started": "2026-11-22T19:40:00Z",
        "parts": {"--fill-seed": "0", "v.npy": "sha256:00", "--label": "unset"},
        "rows": tuple(JournalRow(key=key, what=f"the row {key[-1]}") for key in keys),
    }
    return Start(**{**fields, **other})


def run_of(start: Start) -> RunRow:
    """The run of an invocation."""
    return RunRow(id=start.run, command="".join(start.argv[:1]), started=start.started)


def places(file: Path, store: Path | None = None) -> JournalPlaces:
    """A file that the user named, and a spare one beside it."""
    return JournalPlaces(store=store, file=file, spare=file.with_name("spare.sqlite"))


def created(path: Path, start: Start, store: Path | None = None) -> Journal:
    """A journal in a file of its own."""
    return Journal.create(start, run_of(start), places(path, store))


def resumed(path: Path, start: Start, store: Path | None = None) -> Journal:
    """The journal in a file, taken over."""
    return Journal.resume(path, None, start, places(path, store))


def done_line(start: Start, rows: Mapping[str, Any]) -> JournalDone:
    """The line of some records in the journal of lines that begins with ``start``."""
    finished = tuple(Finished(key=key, record=record) for key, record in rows.items())
    return JournalDone(rows=finished, sha256=digest_of([digest_of(to_json(start)), [to_json(row) for row in finished]]))


def lines_of(path: Path) -> list[Any]:
    """The lines that an earlier version would have written of a run whose file this is."""
    state = state_of(path, None)[1]
    schema = "fmha.journal/2"
    lines = [to_json(state.start), {"schema": schema, "event": "built", "kernels": dict(state.built)}]
    for key, record in state.records.items():
        lines.append({"schema": schema, "event": "planned", "key": key})
        lines.append(to_json(done_line(state.start, {key: record.to_dict()})))
    return lines


def as_lines(path: Path) -> None:
    """Make the file of a run what an earlier version would have written."""
    text = "".join(canonical_json(line) + "\n" for line in lines_of(path))
    path.write_text(text, "utf-8")


def keeping(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Receives, from now on, how many records each transaction of this process adds to a store or a file of a run."""
    seen: list[int] = []
    real = Store.transaction

    def count(db: sqlite3.Connection) -> int:
        return int(db.execute("select count(*) from record where process = 0").fetchone()[0])

    @contextmanager
    def counted(self: Store, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        with real(self, synced=synced) as db:
            before = count(db)
            yield db
            if added := count(db) - before:
                seen.append(added)

    monkeypatch.setattr(Store, "transaction", counted)
    return seen


def grown(path: Path) -> int:
    """How often the run in a file has dispatched a row or kept a record; 0 without a file."""
    if not path.exists() or not path.stat().st_size:
        return 0
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        asked = "select count(*) from record union all select coalesce(sum(value), 0) from unfinished where what = 'dispatched'"
        try:
            return sum(int(count) for (count,) in db.execute(asked))
        except sqlite3.OperationalError:  # it is just being made, or recovered
            return 0


def keys_in(path: Path) -> list[str]:
    """The keys of the records in the file of a run, each as often as it is there."""
    with closing(sqlite3.connect(path)) as db:
        return [row.hex() for (row,) in db.execute("select row from record where process = 0 order by id")]


def cut(path: Path, count: int) -> None:
    """Leave the first records of the run in a file, as if it had been killed after them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("delete from record where id > (select id from record order by id limit 1 offset ?)", (count - 1,))
        db.execute("delete from tally")

"""Whatever happens to the writer, the file of a run shows exactly which rows are done, and only its own invocation finishes it."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError
from fmha_cli.domain.journal import Start
from fmha_cli.results import journal as module
from fmha_cli.results import store as store_module
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.plans import run_called, state_of, unfinished
from fmha_cli.results.run import load_run
from fmha_cli.results.store import Store, unusable
from fmha_cli.system.locks import try_lock
from tests.support.generators import journals
from tests.support.generators.journals import begun, run_of
from tests.support.generators.kept_runs import filled as stored
from tests.support.generators.kept_runs import row_of, run_row
from tests.support.generators.report.samples import record

ROWS = [f"{n:024x}" for n in range(5)]
RECORDS = {key: replace(record(), row=key, run=None) for key in ROWS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run"


def asked(keys: Sequence[str] = ROWS, **other: Any) -> Start:
    return begun(keys, **other)


def create(path: Path) -> Journal:
    return journals.created(path, asked())


def resume(path: Path) -> Journal:
    return journals.resumed(path, asked())


def filled(path: Path, done: int) -> Path:
    """The file of a run that ended in its next row."""
    with create(path) as journal:
        for key in ROWS[:done]:
            journal.planned(key)
            journal.done({key: RECORDS[key]})
        if done < len(ROWS):
            journal.planned(ROWS[done])
    return path


def test_what_is_written_is_read(path: Path) -> None:
    about, state = state_of(filled(path, 2), None)
    assert about == run_of(asked())
    assert state.start == asked()
    assert state.records == {key: RECORDS[key] for key in ROWS[:2]}
    assert state.left == tuple(ROWS[2:])
    assert state.attempts == dict.fromkeys(ROWS[:3], 1)


def test_a_resumed_run_is_finished(path: Path) -> None:
    filled(path, 2)
    with resume(path) as journal:
        assert journal.place == str(path)
        for key in journal.state.left:
            journal.planned(key)
            journal.done({key: RECORDS[key]})
    again = state_of(path, None)[1]
    assert list(again.records) == ROWS
    assert again.left == ()
    assert again.attempts[ROWS[2]] == 2, "it was in flight when the first writer ended"


def test_a_run_in_the_store_is_resumed_by_its_id(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    stored(store, row_of(run_row(3), 0))
    places = JournalPlaces(store=store, spare=tmp_path / "spare")
    ids = ["a" * 32, "ab" * 16]
    for run in ids:
        with Journal.create(asked(run=run), run_of(asked(run=run)), places) as journal:
            assert journal.place is None, "nothing would be left of it"
            journal.done({ROWS[0]: RECORDS[ROWS[0]]})
            assert journal.place == run[:8]
    assert list(unfinished(store)) == ids
    assert run_called("latest", store) == run_called("abab", store) == ids[1]
    assert run_called("./latest", store) is None
    for name in ("a" * 3, "f" * 8, run_row(3).id, "there is none"):
        with pytest.raises(UsageError, match="no run is called"):
            run_called(name, store)
    with Journal.resume(store, ids[0], asked(run="c" * 32), places) as journal:
        assert (journal.place, journal.state.start.run, list(journal.state.records)) == ("aaaaaaaa", ids[0], ROWS[:1])
        with pytest.raises(UsageError, match="another process is writing it"):
            Journal.resume(store, ids[0], asked(), places)
        Journal.resume(store, ids[1], asked(), places).close()
        journal.done({key: RECORDS[key] for key in ROWS[1:]})
        journal.settle("2026-11-22T20:00:00Z")
        journal.complete()
    assert list(unfinished(store)) == ids[1:]
    with pytest.raises(UsageError, match="all rows of run aaaaaaaa are done"):
        Journal.resume(store, ids[0], asked(), places)
    with pytest.raises(UsageError, match="it has 3 runs"):
        resume(store)
    assert [path.name for path in tmp_path.iterdir()] == ["s.sqlite"], "no lock stays"


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (asked(ROWS[:-1]), "it has other rows than this command line (5 and 4)"),
        (asked(list(reversed(ROWS))), "row 1 is the row 4 here, the row 0 in the journal"),
        (asked([*ROWS, "f" * 24]), "other rows"),
        (asked(fmha="2"), "fmha 1 wrote it, this is 2"),
        (asked(parts={**asked().parts, "--fill-seed": "1"}), "--fill-seed is 1 here, 0 in the journal"),
        (asked(parts={**asked().parts, "v.npy": "sha256:11"}), "v.npy has changed"),
        (asked(parts={**asked().parts, "--ck-home": "ck"}), "--ck-home is ck here, absent in the journal"),
        (asked(parts={"--fill-seed": "0", "v.npy": "sha256:00"}), "--label is absent here, unset in the journal"),
        (asked(parts=dict.fromkeys("abcde", "x")), "; and 5 more"),
        (asked(parts={**asked().parts, "--label": "x" * 100}), "..."),
        (asked(parts={**asked().parts, "--label": "\x1b[31m"}), "'\\x1b[31m'"),
    ],
)
def test_a_run_of_another_invocation_is_refused_with_what_differs(path: Path, here: Start, why: str) -> None:
    whole = filled(path, 1).read_bytes()
    with pytest.raises(UsageError) as caught:
        journals.resumed(path, here)
    assert why in caught.value.what
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_the_command_line_and_the_time_are_no_part_of_the_identity(path: Path) -> None:
    filled(path, 1)
    here = asked(argv=("run", "-b", "1", "-o", "x"), run="1" * 32, started="later")
    with journals.resumed(path, here) as journal:
        assert journal.state.start.run == "0" * 32, "the run keeps the id of its first session"


def test_other_builds_of_the_same_kernels_are_refused(path: Path) -> None:
    with create(path) as journal:
        journal.built({"a" * 64: "1" * 64, "b" * 64: None})
    for here, why in (
        ({"a" * 64: "2" * 64}, "kernel aaaaaaaa is built from other sources"),
        ({"a" * 64: None}, "cannot be built here and could"),
        ({"b" * 64: "2" * 64}, "can be built here and could not"),
    ):
        with resume(path) as journal, pytest.raises(UsageError, match=why):
            journal.built(here)
    with resume(path) as journal:
        journal.built({"a" * 64: "1" * 64, "b" * 64: None, "c" * 64: "3" * 64})
    assert state_of(path, None)[1].built == {"a" * 64: "1" * 64, "b" * 64: None, "c" * 64: "3" * 64}


def test_rows_that_mean_nothing_alone_are_kept_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second of a pair cannot be written, the first is not there either."""
    put = module.put_record

    def filling(store: Store, db: Any, run: Any, record: Any, key: str) -> bytes | None:
        if key == ROWS[1]:
            raise unusable(store.path, "no space")
        return put(store, db, run, record, key)

    monkeypatch.setattr(module, "put_record", filling)
    with create(path) as journal, pytest.raises(EnvironmentProblem, match="cannot be written"):
        journal.done({key: RECORDS[key] for key in ROWS[:2]})
    assert state_of(path, None)[1].records == {}


def test_a_row_whose_writing_is_interrupted_is_not_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    store = path.with_name("s.sqlite")
    with journals.created(path, asked(), store) as journal:
        journal.done({ROWS[0]: RECORDS[ROWS[0]]})
        monkeypatch.setattr(module, "put_record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.done({ROWS[1]: RECORDS[ROWS[1]]})
        monkeypatch.undo()
        journal.settle("2026-11-22T20:00:00Z")
    assert list(state_of(path, None)[1].records) == ROWS[:1]
    assert [record.row for record in load_run("latest", store).records] == ROWS[:1]


def test_a_file_is_not_overwritten(path: Path) -> None:
    whole = filled(path, 1).read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        create(path)
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_a_missing_file_is_a_usage_error(path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        resume(path)
    assert not path.parent.exists()
    places = JournalPlaces(store=path, spare=path)
    with pytest.raises(UsageError, match="no such file, and the store has no run to resume"):
        Journal.resume(Path("latest"), None, asked(), places)


def test_a_folder_that_cannot_be_is_the_environments_fault(path: Path) -> None:
    path.parent.write_text("a file", "utf-8")
    with pytest.raises(EnvironmentProblem, match="cannot be opened"):
        create(path)


def test_one_process_writes_at_a_time(path: Path) -> None:
    with create(path), pytest.raises(UsageError, match="another process"):
        resume(path)
    resume(path).close()


def test_a_lock_that_outlives_its_writer_for_a_moment_is_waited_for(path: Path) -> None:
    """Where a writer is killed, what it had just forked holds the lock until it becomes another program."""
    filled(path, 2)
    held = os.open(path.with_name(".run.lock"), os.O_RDWR | os.O_CREAT)
    assert try_lock(held)
    threading.Timer(0.1, os.close, (held,)).start()
    resume(path).close()


def test_a_row_is_done_once(path: Path) -> None:
    done = {ROWS[0]: RECORDS[ROWS[0]]}
    with create(path) as journal:
        journal.done(done)
        for call in (lambda: journal.done(done), lambda: journal.planned(ROWS[0])):
            with pytest.raises(InternalError):
                call()
        with pytest.raises(InternalError):
            journal.planned("f" * 24)
    with resume(path) as journal, pytest.raises(InternalError):
        journal.done(done)


def test_rows_have_different_keys(path: Path) -> None:
    with pytest.raises(InternalError):
        journals.created(path, asked([ROWS[0], ROWS[0]]))
    assert not path.exists()


def test_a_step_that_is_no_record_is_kept(path: Path) -> None:
    with create(path) as journal:
        journal.note(ROWS[1], {"winner": "k"})
        with pytest.raises(InternalError):
            journal.note(ROWS[1], {})
    state = state_of(path, None)[1]
    assert state.notes == {ROWS[1]: {"winner": "k"}}
    assert state.left == (ROWS[0], *ROWS[2:])


@pytest.mark.parametrize(
    "change",
    [
        "delete from run",
        "delete from unfinished where what = 'start'",
        "update unfinished set value = '{}' where what = 'start'",
        "update unfinished set value = x'00' where what = 'start'",
        "update unfinished set what = 'other' where what = 'start'",
        "update record set rest = zeroblob(20)",
        "update record set samples = x'01'",
        "update setup set packed = x'00'",
        "update problem set json = '[]'",
        "drop table record",
        "pragma application_id = 7",
        "pragma user_version = 99",
    ],
)
def test_a_damaged_file_is_refused(path: Path, change: str) -> None:
    filled(path, 2)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(change)
    with pytest.raises(UsageError) as caught:
        resume(path)
    assert caught.value.code == "X030"
    assert str(path) in caught.value.what
    assert "\n" not in caught.value.what


def test_no_torn_byte_of_a_file_is_more_than_a_refusal(path: Path, tmp_path: Path) -> None:
    """A seeded change of any byte: the rows are read as they were, or the file is refused."""
    whole, draw = filled(path, 3).read_bytes(), random.Random("torn")
    honest = state_of(path, None)[1].records
    refusals = 0
    for number in range(150):
        torn = tmp_path / f"torn{number}"
        data = bytearray(whole)
        data[draw.choice([place for place in range(0, len(whole), 13) if whole[place]])] ^= 1 << draw.randrange(8)
        torn.write_bytes(data)
        try:
            found = journals.resumed(torn, asked())
        except (UsageError, EnvironmentProblem):
            refusals += 1
            continue
        found.close()
        assert all(honest[key] == one for key, one in found.state.records.items())
    assert refusals > 20


def test_a_file_on_a_network_file_system_needs_no_shared_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "network_file_system", lambda folder: "nfs4")
    with create(path) as journal:
        journal.done({ROWS[0]: RECORDS[ROWS[0]]})
        assert not path.with_name("run-wal").exists()
        with pytest.raises(EnvironmentProblem):
            Store.open(path)
    with resume(path) as journal:
        assert list(journal.state.records) == ROWS[:1]

"""A run and its store: rows are kept as they come, and a store that fails costs one line, never the run, and no row."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.record import Record
from fmha_cli.results import journal as module
from fmha_cli.results.importing import bring
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.loading import records_of, summaries
from fmha_cli.results.plans import state_of, unfinished
from fmha_cli.results.run import load_run
from fmha_cli.results.store import Store, unusable
from tests.support.generators.journals import begun
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import ENVIRONMENT

RUN = run_row()
ROWS = tuple(row_of(RUN, index) for index in range(4))
END = "2026-11-01T12:00:00Z"


def key_of(row: Record) -> str:
    return str(row.row)


def journal_of(path: Path, *rows: Record, resumable: bool = True) -> Journal:
    """The journal of a run with these rows in a store."""
    run = rows[0].run
    assert run is not None
    start = begun([key_of(row) for row in rows], run=run.id, argv=("bench", "-s", "64"))
    places = JournalPlaces(store=path, spare=spare(path), environment=ENVIRONMENT)
    return Journal.create(start, replace(run, revision=None, dirty=None), places, resumable=resumable)


def spare(path: Path) -> Path:
    return path.parent / "cache" / "spare.sqlite"


def ended(journal: Journal) -> str | None:
    """End a run whose rows were delivered: what is said of it."""
    journal.settle(END)
    journal.complete()
    journal.close()
    return journal.outside


def kept(path: Path, *rows: Record, resumable: bool = True) -> str | None:
    """Keep rows; returns what is said."""
    journal = journal_of(path, *rows, resumable=resumable)
    for row in rows:
        journal.done({key_of(row): row})
    return ended(journal)


@pytest.mark.parametrize("resumable", [True, False])
def test_rows_are_kept_with_their_run(tmp_path: Path, resumable: bool) -> None:
    path = tmp_path / "s.sqlite"
    assert kept(path, *ROWS, resumable=resumable) is None
    with Store.open(path) as store:
        (run,) = summaries(store)
        assert records_of(store, run) == ROWS
    assert (run.ended, run.argv, run.environment, run.about) == (END, ("bench", "-s", "64"), to_json(ENVIRONMENT), RUN)
    assert not unfinished(path)
    assert not spare(path).exists()


def test_rows_that_end_in_another_order_are_shown_in_that_of_the_command(tmp_path: Path) -> None:
    """Backends that take turns end together, after a row between them that only one of them serves."""
    path = tmp_path / "s.sqlite"
    other = tuple(row_of(run_row(1), index) for index in range(2))
    kept(path, *other)
    journal = journal_of(path, *ROWS)
    for index in (2, 0, 3):
        journal.done({key_of(ROWS[index]): ROWS[index]})
    journal.settle(END)  # the second was interrupted
    assert load_run("latest", path).records == (ROWS[0], ROWS[2], ROWS[3])
    journal.done({key_of(ROWS[1]): ROWS[1]})
    ended(journal)
    assert load_run("latest", path).records == ROWS
    assert load_run("latest~1", path).records == other


def test_a_row_is_in_the_file_when_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with journal_of(path, *ROWS) as journal:
        for count, row in enumerate(ROWS, 1):
            journal.done({key_of(row): row})
            assert load_run("latest", path).records == ROWS[:count]


def test_every_row_is_on_the_disk_when_the_call_returns(tmp_path: Path) -> None:
    """SQLite writes with fsync at each record, and without it where a row is only dispatched."""
    with journal_of(tmp_path / "s.sqlite", *ROWS) as journal:
        assert journal._store is not None
        levels: list[int] = []
        journal._store.connection.set_trace_callback(
            lambda text: (
                levels.append(1 if text.endswith("normal") else 2) if text.startswith("pragma synchronous") else None
            )
        )
        journal.done({key_of(ROWS[0]): ROWS[0]})
        assert levels == []
        assert journal._store.connection.execute("pragma synchronous").fetchone() == (2,)
        levels.clear()
        journal.planned(key_of(ROWS[1]))
        assert levels == [1, 2]


def test_a_run_that_is_repeated_keeps_each_row_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    journal = journal_of(path, *ROWS)
    journal.add({key_of(row): row for row in ROWS[:2]})
    journal.close()
    journal = journal_of(path, *ROWS)
    journal.add({key_of(row): row for row in ROWS})
    ended(journal)
    assert load_run("latest", path).records == ROWS


def test_a_record_that_learns_of_its_neighbours_is_there_once(tmp_path: Path) -> None:
    path, better = tmp_path / "s.sqlite", replace(ROWS[0], regret=0.25)
    journal = journal_of(path, *ROWS[:2])
    for row in ROWS[:2]:
        journal.done({key_of(row): row})
    journal.amend(key_of(better), better)
    ended(journal)
    assert load_run("latest", path).records == (better, ROWS[1])
    with Store.open(path) as store:
        assert summaries(store)[0].records == 2


def test_a_run_without_rows_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    journal_of(path, *ROWS).close()
    with Store.open(path) as store:
        assert summaries(store) == ()
    assert not unfinished(path)
    other = tmp_path / "t.sqlite"
    journal_of(other, *ROWS, resumable=False).close()
    assert not other.exists()


def broken(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def torn(path: Path) -> None:
    filled(path, *(row_of(run_row(9), index) for index in range(60)))
    data = path.read_bytes()
    path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("create table t(x)")


def newer(path: Path) -> None:
    filled(path, row_of(run_row(9), 0))
    with sqlite3.connect(path) as other:
        other.execute("pragma user_version = 99")


def folder(path: Path) -> None:
    path.mkdir()


def unwritable(path: Path) -> None:
    path.parent.joinpath("file").write_text("")
    path.symlink_to(path.parent / "file" / "below")


@pytest.mark.promise("Every run is kept in a store; a store that cannot be used costs one line.")
@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("fault", [broken, torn, foreign, newer, folder, unwritable])
def test_a_store_that_cannot_be_used_costs_one_line_and_no_row(tmp_path: Path, fault: Any, resumable: bool) -> None:
    path = tmp_path / "s.sqlite"
    fault(path)
    said = kept(path, *ROWS, resumable=resumable)
    assert said is not None
    assert "\n" not in said
    assert said.startswith("results are not kept in the store: the store of results cannot be used")
    assert str(path) in said
    assert f"fmha results import {spare(path)}` brings them in" in said
    assert load_run(str(spare(path))).records == ROWS
    with Store.open(tmp_path / "other.sqlite") as store:
        assert bring(store, spare(path))[1] == 4
        (run,) = summaries(store)
        assert records_of(store, run) == ROWS
    assert (run.ended, run.argv, run.environment, run.about) == (END, ("bench", "-s", "64"), to_json(ENVIRONMENT), RUN)


@pytest.mark.parametrize("resumable", [True, False])
def test_what_no_column_holds_is_kept_all_the_same(tmp_path: Path, resumable: bool) -> None:
    """A label whose bytes are no text, a kernel in such a folder, and a number of more than 64 bits."""
    path, run = tmp_path / "s.sqlite", run_row(label="bytes that are not text: \udc80")
    rows = [row_of(run, 0, device="\udc80"), row_of(run, 1, problem={"seqlen_q": 2**70, "dtype": "\udc80"})]
    journal = journal_of(path, *rows, resumable=resumable)
    journal.built({"k@\udc80": "1"})
    journal.done({key_of(row): row for row in rows})
    if resumable:
        assert list(state_of(path, run.id)[1].records.values()) == rows
    assert ended(journal) is None
    assert load_run("latest", path).records == tuple(rows)


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit for the size of files")
def test_a_disk_that_fills_costs_one_line_and_no_row_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    rows = [row_of(RUN, index, log="x" * 500 + str(index)) for index in range(40)]
    journal = journal_of(path, *rows)
    journal.done({key_of(rows[0]): rows[0]})
    faults = list[EnvironmentProblem]()
    with file_limit(path.with_name("s.sqlite-wal").stat().st_size + 50_000):
        for count, row in enumerate(rows[1:], 1):
            try:
                journal.done({key_of(row): row})
            except EnvironmentProblem as fault:
                faults.append(fault)
                done = count
        journal.settle(END)
        journal.close()
    assert len(faults) == 1, "the spare file is on the same disk; after it nothing is tried any more"
    assert "\n" not in str(journal.outside)
    there = [row for file in (path, spare(path)) for row in load_run(str(file)).records]
    assert set(map(key_of, there)) >= set(map(key_of, rows[:done]))
    again = journal_of(path, *rows)
    again.add({key_of(row): row for row in rows})
    ended(again)
    assert load_run("latest", path).records == tuple(rows)


def test_a_store_that_fills_is_left_for_the_spare_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are there then, and reach the store when it has room again by the end."""
    path = tmp_path / "s.sqlite"
    put, full = module.put_record, [False]

    def filling(store: Store, *more: Any) -> bool:
        if full[0] and store.path == path:
            raise unusable(path, "database or disk is full")
        return put(store, *more)

    monkeypatch.setattr(module, "put_record", filling)
    for room in (False, True):
        journal = journal_of(path, *ROWS)
        journal.done({key_of(ROWS[0]): ROWS[0]})
        full[0] = True
        for row in ROWS[1:]:
            journal.done({key_of(row): row})
        assert journal.path == spare(path)
        assert load_run(str(spare(path))).records == ROWS
        full[0] = not room
        said = ended(journal)
        full[0] = False
        assert (said is None) == room
        assert load_run("latest", path).records == (ROWS if room else ROWS[:1])
        assert spare(path).exists() != room
        if room:
            assert not unfinished(path)
        else:
            assert str(spare(path)) in str(said)
            spare(path).unlink()


def test_a_store_that_another_process_holds_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    filled(path, ROWS[0])
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("begin immediate")
        said = kept(path, *ROWS[1:])
    assert said is not None
    assert "locked" in said
    assert load_run(str(spare(path))).records == ROWS[1:]


def test_a_file_of_the_user_reaches_the_store_at_the_end(tmp_path: Path) -> None:
    path, file = tmp_path / "s.sqlite", tmp_path / "mine"
    start = begun([key_of(row) for row in ROWS], run=RUN.id)
    journal = Journal.create(start, RUN, JournalPlaces(store=path, file=file, spare=spare(path)))
    journal.done({key_of(row): row for row in ROWS})
    assert not path.exists()
    assert ended(journal) is None
    assert load_run("latest", path).records == load_run(str(file)).records == ROWS
    assert state_of(file, None)[1].left == (), "it can be resumed, which prints its rows again"
    assert not unfinished(path)

"""A run and its store: rows are kept as they come, and a store that fails costs one line and never the run."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.report.record import Record
from fmha_cli.results.keeping import Keeper
from fmha_cli.results.loading import records_of, summaries
from fmha_cli.results.run import load_run
from fmha_cli.results.store import Store
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import ENVIRONMENT, bare, record

RUN = run_row()
ROWS = tuple(row_of(RUN, index) for index in range(4))
END = "2026-11-01T12:00:00Z"


def kept(path: Path, *rows: Record) -> list[str]:
    """Keep rows; returns the messages."""
    said: list[str] = []
    keeper = Keeper(path, ("bench", "-s", "64"), said.append)
    keeper.environment(ENVIRONMENT)
    for row in rows:
        keeper.record(row)
    keeper.close(END)
    return said


def test_rows_are_kept_with_their_run(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    assert kept(path, *ROWS) == []
    with Store.open(path) as store:
        (run,) = summaries(store)
        assert records_of(store, run) == ROWS
    assert (run.ended, run.argv, run.environment) == (END, ("bench", "-s", "64"), to_json(ENVIRONMENT))


def test_rows_that_end_in_another_order_are_shown_in_that_of_the_command(tmp_path: Path) -> None:
    """Backends that take turns end together, after a row between them that only one of them serves."""
    path = tmp_path / "s.sqlite"
    other = tuple(row_of(run_row(1), index) for index in range(2))
    kept(path, *other)
    keeper = Keeper(path, (), lambda text: None)
    for index in (2, 0, 3):
        keeper.record(ROWS[index])
    keeper.arrange(ROWS)  # the second was interrupted
    assert load_run("latest", path).records == (ROWS[0], ROWS[2], ROWS[3])
    keeper.record(ROWS[1])
    keeper.arrange(ROWS)
    keeper.close(END)
    assert load_run("latest", path).records == ROWS
    assert load_run("latest~1", path).records == other


def test_a_row_is_in_the_file_when_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    keeper = Keeper(path, (), lambda text: None)
    for count, row in enumerate(ROWS, 1):
        keeper.record(row)
        assert load_run("latest", path).records == ROWS[:count]
    keeper.close(END)


def test_a_run_that_is_resumed_keeps_each_row_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    kept(path, *ROWS[:2])
    kept(path, *ROWS)
    assert load_run("latest", path).records == ROWS


def test_rows_without_a_run_or_no_rows_make_no_store(tmp_path: Path) -> None:
    assert kept(tmp_path / "s.sqlite", bare()) == []
    assert not (tmp_path / "s.sqlite").exists()


def test_rows_without_a_key_that_are_alike_are_all_kept(tmp_path: Path) -> None:
    rows = [record(run=RUN, row=None)] * 3
    kept(tmp_path / "s.sqlite", *rows)
    kept(tmp_path / "s.sqlite", *rows)
    assert len(load_run("latest", tmp_path / "s.sqlite").records) == 3


def broken(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def torn(path: Path) -> None:
    filled(path, *(row_of(run_row(9), index) for index in range(60)))
    data = path.read_bytes()
    path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("create table t(x)")


def folder(path: Path) -> None:
    path.mkdir()


def unwritable(path: Path) -> None:
    path.parent.joinpath("file").write_text("")
    path.symlink_to(path.parent / "file" / "below")


@pytest.mark.promise("Every run is kept in a store; a store that cannot be used costs one line.")
@pytest.mark.parametrize("fault", [broken, torn, foreign, folder, unwritable])
def test_a_store_that_cannot_be_used_costs_one_line(tmp_path: Path, fault: Any) -> None:
    path = tmp_path / "s.sqlite"
    fault(path)
    said = kept(path, *ROWS)
    assert len(said) == 1
    assert said[0].startswith("results are not kept: the store of results cannot be used")
    assert str(path) in said[0]


def test_a_text_that_no_database_holds_costs_one_line(tmp_path: Path) -> None:
    said = kept(tmp_path / "s.sqlite", row_of(run_row(label="bytes that are not text: \udc80"), 0))
    assert len(said) == 1
    assert "surrogates" in said[0]


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
    path, said = tmp_path / "s.sqlite", list[str]()
    rows = [row_of(RUN, index, log="x" * 500 + str(index)) for index in range(40)]
    keeper = Keeper(path, (), said.append)
    keeper.record(rows[0])
    with file_limit(path.with_name("s.sqlite-wal").stat().st_size + 50_000):
        for row in rows[1:]:
            keeper.record(row)
        keeper.close(END)
    assert len(said) == 1
    assert 1 < keeper.kept < len(rows)
    assert load_run("latest", path).records == tuple(rows[: keeper.kept])
    kept(path, *rows)
    assert load_run("latest", path).records == tuple(rows)


def test_a_store_that_another_process_holds_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    filled(path, ROWS[0])
    monkeypatch.setattr("fmha_cli.results.keeping.WAIT_S", 0.05)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("begin immediate")
        said = kept(path, *ROWS[1:])
    assert len(said) == 1
    assert "locked" in said[0]

"""The store: records come back, each is there once, and an unsound store is refused untouched."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.record import Record
from fmha_cli.results import store as module
from fmha_cli.results.loading import records_of, summaries
from fmha_cli.results.store import Store
from fmha_cli.results.tables import STEPS, backup_path
from fmha_cli.results.writing import end_run, put_record, put_run
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import ENVIRONMENT, bare, emulated, measurement

RUN = run_row(label="nightly")
ROWS = (
    row_of(RUN, 0),
    row_of(RUN, 1, measurement=replace(measurement(), process_of_sample=(0, 1, 2, 3) * 2)),
    row_of(RUN, 2, measurement=replace(measurement(), process_of_sample=None)),
    replace(bare(), run=RUN, row="0" * 24),
    replace(emulated(), run=RUN, row="1" * 24),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "results.sqlite"


def loaded(path: Path) -> tuple[Record, ...]:
    with Store.open(path, create=False) as store:
        return tuple(row for run in reversed(summaries(store)) for row in records_of(store, run))


def test_records_come_back_in_order(path: Path) -> None:
    filled(path, *ROWS)
    assert loaded(path) == ROWS


def test_a_record_is_there_once_however_often_it_is_written(path: Path) -> None:
    filled(path, *ROWS, *ROWS)
    filled(path, *ROWS)
    assert loaded(path) == ROWS


def test_one_row_of_two_runs_is_two_records(path: Path) -> None:
    other = replace(ROWS[0], run=run_row(1))
    filled(path, ROWS[0], other)
    assert loaded(path) == (ROWS[0], other)


def test_a_run_tells_what_it_was(path: Path) -> None:
    filled(path, *ROWS)
    with Store.open(path) as store:
        with store.transaction() as db:
            end_run(db, put_run(db, RUN), "2026-11-01T11:00:00Z")
        (run,) = summaries(store)
    assert (run.about, run.ended, run.argv) == (RUN, "2026-11-01T11:00:00Z", ("bench", "-s", "64"))
    assert run.environment == to_json(ENVIRONMENT)
    assert run.verdicts == {"PASSED": 3, "UNSUPPORTED": 1, "HAZARD": 1}
    assert run.devices == ("cpu", "emu:gfx942")


def test_a_run_that_was_imported_without_an_environment_gets_it_later(path: Path) -> None:
    with Store.open(path) as store, store.transaction() as db:
        put_run(db, RUN)
        put_run(db, replace(RUN, label="another"), environment=ENVIRONMENT)
        put_run(db, RUN, environment=replace(ENVIRONMENT, fmha="9"))
    with Store.open(path) as store:
        (run,) = summaries(store)
    assert (run.environment, run.about.label) == (to_json(ENVIRONMENT), "nightly")


def test_a_transaction_that_fails_leaves_nothing(path: Path) -> None:
    def two(store: Store) -> None:
        with store.transaction() as db:
            run = put_run(db, RUN)
            put_record(store, db, run, ROWS[0], "2" * 24)
            put_record(store, db, run, ROWS[1], "no key")

    with Store.open(path) as store:
        with pytest.raises(ValueError, match="hexadecimal"):
            two(store)
        assert store.known == {}
        assert summaries(store) == ()
        filled(path, ROWS[0])
        assert [run.records for run in summaries(store)] == [1]


def test_the_store_is_for_its_user_alone(path: Path) -> None:
    filled(path, ROWS[0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def refusal(path: Path, **options: Any) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as refused:
        Store.open(path, **options)
    return refused.value


def test_a_file_of_another_kind_is_refused_and_stays_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("these are my notes, and no database at all\n" * 50)
    before = path.read_bytes()
    assert "not a database" in str(refusal(path).why)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_stays_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("create table notes(text)")
    before = path.read_bytes()
    assert "another program's" in str(refusal(path).why)
    assert path.read_bytes() == before


def test_the_store_of_a_newer_version_is_refused(path: Path) -> None:
    filled(path, ROWS[0])
    with sqlite3.connect(path) as newer:
        newer.execute(f"pragma user_version = {len(STEPS) + 1}")
    assert "newer fmha" in str(refusal(path).why)


def test_a_store_on_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "network_file_system", lambda folder: "nfs4" if folder == path.parent else None)
    fault = refusal(path)
    assert (fault.code, fault.why) == ("X051", f"{path.parent} is on nfs4")
    assert not path.exists()


def test_a_damaged_record_is_named(path: Path) -> None:
    filled(path, *ROWS)
    with sqlite3.connect(path) as db:
        db.execute("update record set rest = zeroblob(20) where row = ?", (bytes.fromhex(str(ROWS[0].row)),))
    with pytest.raises(EnvironmentProblem) as fault:
        loaded(path)
    assert RUN.id[:8] in str(fault.value.why)


def test_a_step_brings_an_older_store_on_and_keeps_a_backup(path: Path) -> None:
    filled(path, *ROWS)
    Store.open(path, steps=(*STEPS, "alter table run add column extra text")).close()
    with sqlite3.connect(path) as db:
        assert db.execute("select count(extra), count(*) from run").fetchone() == (0, 1)
        assert db.execute("pragma user_version").fetchone() == (len(STEPS) + 1,)
    assert loaded(backup_path(path, len(STEPS))) == ROWS
    assert "newer fmha" in str(refusal(path).why)


def test_a_step_that_fails_leaves_the_store_as_it_was(path: Path) -> None:
    filled(path, *ROWS)
    assert "syntax error" in str(refusal(path, steps=(*STEPS, "drop table record; no such statement")).why)
    assert loaded(path) == ROWS


def unwritable(monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    """Let the next tries to bring a store to the newest version fail as in a folder that cannot be written."""
    left, migrate = [tries], module.migrate

    def failing(*args: Any) -> None:
        if left[0]:
            left[0] -= 1
            fault = sqlite3.OperationalError("attempt to write a readonly database")
            fault.sqlite_errorcode = sqlite3.SQLITE_READONLY
            raise fault
        migrate(*args)

    monkeypatch.setattr(module, "migrate", failing)


@pytest.mark.promise("Every run is kept in a store; a store that cannot be used costs one line.")
def test_a_store_that_cannot_be_written_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, *ROWS)
    unwritable(monkeypatch, 1)
    with Store.open(path, create=False, reads=True) as store:
        assert records_of(store, summaries(store)[0]) == ROWS
        with pytest.raises(EnvironmentProblem, match="cannot be used"), store.transaction() as db:
            db.execute("delete from record")
    unwritable(monkeypatch, 1)
    with pytest.raises(EnvironmentProblem) as caught:
        Store.open(path, create=False)
    assert caught.value.why == "this user may not write it"
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"rows of another process")
    unwritable(monkeypatch, 1)
    with pytest.raises(EnvironmentProblem) as caught:
        Store.open(path, create=False, reads=True)
    assert caught.value.why == "it cannot be written, and another process has it open"

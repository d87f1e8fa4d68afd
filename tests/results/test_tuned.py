"""The table of what was tuned: entries come back, one for each problem and scope, and stores of the first version get it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.bench.entry import RememberedChoice, Result
from fmha_cli.domain.problem import Problem
from fmha_cli.results.store import Store
from fmha_cli.results.tables import STEPS, backup_path
from fmha_cli.results.tuned import entries, put_entry, remove_entries
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.tuned_problems import SCOPE, entry


def kept(path: Path, *more: RememberedChoice) -> tuple[RememberedChoice, ...]:
    with Store.open(path) as store:
        for one in more:
            put_entry(store, one)
        return entries(store)


def test_entries_come_back(tmp_path: Path) -> None:
    rows = (entry(512), entry(1024, Result.KEPT), entry(2048, run=None))
    assert kept(tmp_path / "s", *rows) == rows


def test_a_problem_has_one_entry_in_each_scope(tmp_path: Path) -> None:
    older, other = entry(), entry(scope=replace(SCOPE, threads=2))
    newer = replace(older, made="2026-12-01T00:00:00Z", gain=0.5)
    found = kept(tmp_path / "s", older, other, newer)
    assert found == (newer, other)


def test_a_family_is_found_without_the_others(tmp_path: Path) -> None:
    path, other = tmp_path / "s", entry(problem=Problem.of(seqlen=512, heads=2, hdim=64, dtype="fp32"))
    kept(path, entry(512), entry(1024), other)
    with Store.open(path) as store:
        assert [one.problem.seqlen_q for one in entries(store, entry().place.family)] == [512, 1024]
        assert entries(store, other.place.family) == (other,)
        assert entries(store, "another") == ()


def test_entries_are_removed_one_by_one(tmp_path: Path) -> None:
    kept(tmp_path / "s", entry(512), entry(1024))
    with Store.open(tmp_path / "s") as store:
        assert remove_entries(store, [entry(512), entry(4096)]) == 1
        assert entries(store) == (entry(1024),)


def test_a_store_of_the_first_version_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path, steps=STEPS[:1]):
        pass
    with sqlite3.connect(path) as db:
        assert db.execute("pragma user_version").fetchone() == (1,)
    assert kept(path, entry()) == (entry(),)
    assert backup_path(path, 1).exists()


def test_removing_runs_leaves_what_was_tuned(tmp_path: Path) -> None:
    from fmha_cli.results.editing import remove
    from fmha_cli.results.loading import summaries

    path, run = tmp_path / "s", run_row()
    filled(path, row_of(run, 0))
    kept(path, entry(run=run.id))
    with Store.open(path) as store:
        remove(store, summaries(store))
        assert entries(store) == (entry(run=run.id),)


@pytest.mark.parametrize("column", ["scope", "flags", "result"])
def test_a_row_that_cannot_be_read_is_passed_over(tmp_path: Path, column: str) -> None:
    kept(tmp_path / "s", entry(512), entry(1024))
    with sqlite3.connect(tmp_path / "s") as db:
        db.execute(f"update tuned set {column} = 'nonsense' where at = 512")
    assert kept(tmp_path / "s") == (entry(1024),)

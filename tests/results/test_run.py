"""A run by any of its names, from the store or from a file."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.formats import jsonl_lines
from fmha_cli.results.run import load_run
from tests.support.generators.journals import done_line
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import ENVIRONMENT, journal_lines, record

RUNS = [run_row(0, label="before"), run_row(1, label="after"), run_row(2, label="before")]
ROWS = [row_of(run, index) for run in RUNS for index in range(2)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    filled(tmp_path / "s.sqlite", *ROWS)
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("latest", 2),
        ("latest~0", 2),
        ("latest~1", 1),
        ("latest~2", 0),
        ("after", 1),
        ("before", 2),
        (RUNS[0].id, 0),
        (RUNS[1].id[:8], 1),
        (f"rev:{str(RUNS[0].revision)[:7]}", 0),
    ],
)
def test_a_run_has_many_names(store: Path, name: str, index: int) -> None:
    run = load_run(name, store)
    assert run.records == tuple(ROWS[2 * index : 2 * index + 2])
    assert run.environment == ENVIRONMENT


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("latest~3", "has 3 runs"),
        ("aftre", "after"),
        ("rev:0000", "no run was made at this commit"),
        ("rev:", "at least"),
        (RUNS[0].id[:3], "no run has this"),
    ],
)
def test_a_name_that_no_run_has_is_refused(store: Path, name: str, word: str) -> None:
    with pytest.raises(UsageError) as fault:
        load_run(name, store)
    assert fault.value.code == "E051"
    assert word in f"{fault.value.why} {fault.value.help}"


def test_the_beginning_of_two_ids_names_neither(tmp_path: Path) -> None:
    runs = [run_row(n, id="abcd" + str(n) * 28) for n in range(2)]
    filled(tmp_path / "s.sqlite", *(row_of(run, 0) for run in runs))
    with pytest.raises(UsageError) as fault:
        load_run("abcd", tmp_path / "s.sqlite")
    assert "2 runs" in str(fault.value.why)
    assert load_run("abcd1", tmp_path / "s.sqlite").records == (row_of(runs[1], 0),)


def test_a_damaged_environment_is_refused(store: Path) -> None:
    with sqlite3.connect(store) as db:
        db.execute("""update run set environment = '{"fmha": 3}'""")
    with pytest.raises(EnvironmentProblem) as caught:
        load_run("latest", store)
    assert caught.value.code == "X050"
    assert "environment of run" in str(caught.value.why)


def test_without_a_store_a_name_is_unknown_and_a_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="latest"):
        load_run("latest", tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    rows = (record(), record(row="2" * 24))
    (tmp_path / "a.json").write_text(json.dumps(to_json(report_document(rows, ENVIRONMENT))))
    lines = [EnvironmentLine(environment=ENVIRONMENT), *rows]
    (tmp_path / "b.jsonl").write_text("\n".join(jsonl_lines(lines)))
    for name in ("a.json", "b.jsonl"):
        run = load_run(str(tmp_path / name), tmp_path / "none.sqlite")
        assert (run.records, run.environment) == (rows, ENVIRONMENT)


def journal(rows: dict[str, object]) -> str:
    keys = tuple(JournalRow(key=key, what="w") for key in (*rows, "f" * 24))
    start = Start(fmha="1", argv=(), run="0" * 32, started="2026-11-24T00:00:00Z", parts={}, rows=keys)
    done = [done_line(start, {key: row}) for key, row in rows.items()]
    return "".join(json.dumps(to_json(line)) + "\n" for line in (start, *done))


def test_a_journal_gives_its_finished_rows(tmp_path: Path) -> None:
    rows = {digit * 24: replace(record(), row=digit * 24) for digit in "ab"}
    text = journal({key: row.to_dict() for key, row in rows.items()})
    (tmp_path / "kept").write_text(text + '{"torn')
    assert load_run(str(tmp_path / "kept")).records == tuple(rows.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "notes",
        json.dumps({"schema": "fmha.plan/1"}),
        json.dumps(to_json(journal_lines()[0])).replace("journal/2", "journal/1") + "\n",
        journal({"a" * 24: {}}),
        journal({"a" * 24: record().to_dict()}).replace('"PASSED"', '"WRONG"'),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError) as fault:
        load_run(str(tmp_path / "x.json"))
    assert fault.value.code == "E050"

"""``fmha results`` and the store behind it: what runs leave there, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fmha_cli.cli.app import words_of
from fmha_cli.cli.completion import completer
from fmha_cli.domain.codec import json_of, to_json
from fmha_cli.report.documents.report import report_document
from fmha_cli.results.place import store_path
from fmha_cli.results.run import load_run
from tests.cli.conftest import Fmha
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import ENVIRONMENT, bare, record
from tests.support.schema_checks import validator

NULL = ("run", "--backend", "null", "--seqlen", "32", "--heads", "1", "--hdim", "32")
RUNS = [run_row(0, label="before"), run_row(1, label="after")]
ROWS = [row_of(run, index) for run in RUNS for index in range(2)]


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with two runs, which the commands take for the user's."""
    monkeypatch.delenv("FMHA_NO_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    path = home / "data" / "fmha" / "results.sqlite"
    filled(path, *ROWS)
    return path


@pytest.mark.promise("`results` lists runs, prints their rows again, and exports JSON lines, CSV and Parquet.")
def test_ls_lists_the_runs_newest_first(fmha: Fmha, store: Path) -> None:
    document = fmha("results", "ls", "--json").document
    assert validator("results").is_valid(document)
    assert [(run["label"], run["records"], run["verdicts"]) for run in document["runs"]] == [
        ("after", 2, {"PASSED": 2}),
        ("before", 2, {"PASSED": 2}),
    ]
    assert document["store"] == str(store)
    assert document["bytes"] == store.stat().st_size
    table = fmha("results", "ls").out
    assert RUNS[0].id[:8] in table
    assert "2 runs" in table


def test_ls_without_a_store_makes_none(fmha: Fmha, home: Path) -> None:
    done = fmha("results", "ls", "--json", XDG_DATA_HOME=str(home / "none"))
    assert (done.code, done.document["runs"], done.document["bytes"]) == (0, [], None)
    assert not (home / "none").exists()


@pytest.mark.promise("`results` lists runs, prints their rows again, and exports JSON lines, CSV and Parquet.")
def test_show_prints_the_rows_again(fmha: Fmha, store: Path) -> None:
    document = fmha("results", "show", "before", "--json").document
    assert document == to_json(report_document(ROWS[:2], ENVIRONMENT))
    assert validator("report").is_valid(document)
    assert "2 rows: 2 PASSED" in fmha("results", "show", "latest~1").out


def test_show_reads_files_without_a_store(fmha: Fmha, home: Path) -> None:
    rows = [record(), bare()]
    Path("a.json").write_text(json.dumps(to_json(report_document(rows, ENVIRONMENT))))
    Path("b.jsonl").write_text("\n".join(json.dumps(row.to_dict()) for row in rows))
    assert fmha("results", "show", "a.json", "--json").document["records"] == [row.to_dict() for row in rows]
    document = fmha("results", "show", "b.jsonl", "--json").document
    assert document["records"] == [row.to_dict() for row in rows]
    assert validator("report").is_valid(document)


@pytest.mark.parametrize(
    ("terms", "left"),
    [("verdict:PASSED", [0]), ("-backend:cpu", [1]), ("dtype:fp16,kernel:*fwd*", [0]), ("seqlen_q:1*", [0, 1])],
)
def test_filter_chooses_rows(fmha: Fmha, home: Path, terms: str, left: list[int]) -> None:
    rows = [record(), bare()]
    Path("a.json").write_text(json.dumps(to_json(report_document(rows, ENVIRONMENT))))
    shown = fmha("results", "show", "a.json", "--filter", terms, "--json").document["records"]
    assert shown == [rows[index].to_dict() for index in left]


def test_a_filter_that_nothing_passes_or_nobody_knows_is_refused(fmha: Fmha, store: Path) -> None:
    assert fmha("results", "show", "latest", "--filter", "dtype:fp8*").code == 5
    unknown = fmha("results", "show", "latest", "--filter", "vedict:PASSED")
    assert unknown.code == 2
    assert "verdict" in unknown.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nightly"), 2),
        (("show", "latest~9"), 2),
        (("show", "none.json"), 2),
        (("import", "none.json"), 2),
        (("export", "latest"), 2),
        (("export", "latest", "--csv", "a", "--jsonl", "b"), 2),
        (("export", "latest", "--csv", "none/a"), 4),
        (("label", "nightly", "x"), 2),
        (("rm", "latest", "nightly"), 2),
    ],
)
def test_what_is_not_there_is_refused(fmha: Fmha, store: Path, words: tuple[str, ...], code: int) -> None:
    assert fmha("results", *words).code == code
    assert [run["label"] for run in fmha("results", "ls", "--json").document["runs"]] == ["after", "before"]


def test_import_counts_what_is_new(fmha: Fmha, store: Path) -> None:
    Path("a.json").write_text(json.dumps(to_json(report_document([ROWS[0], row_of(RUNS[0], 7), bare()], ENVIRONMENT))))
    document = fmha("results", "import", "a.json", "--json").document
    assert validator("results").is_valid(document)
    assert (document["added"], document["present"], document["count"]) == (2, 1, 2)
    again = fmha("results", "import", "a.json", "a.json", "--json").document
    assert (again["added"], again["present"]) == (0, 6)
    assert len(load_run("before", store).records) == 3


def test_import_of_a_bad_file_brings_nothing(fmha: Fmha, store: Path) -> None:
    Path("a.jsonl").write_text(json.dumps(row_of(RUNS[0], 7).to_dict()) + "\n{}\n")
    assert fmha("results", "import", "a.jsonl").code == 2
    assert len(load_run("before", store).records) == 2


@pytest.mark.promise("`results` lists runs, prints their rows again, and exports JSON lines, CSV and Parquet.")
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_is_what_the_command_prints(fmha: Fmha, store: Path, form: str) -> None:
    assert fmha("results", "export", "before", f"--{form}", "f").code == 0
    assert Path("f").read_text() == fmha("results", "show", "before", f"--{form}").out


def test_an_export_as_lines_is_imported_again(fmha: Fmha, store: Path) -> None:
    fmha("results", "export", "before", "--jsonl", "a.jsonl")
    fmha("results", "import", "a.jsonl", "--store", "other.sqlite")
    found = load_run("before", Path("other.sqlite"))
    assert (found.records, found.environment) == (tuple(ROWS[:2]), ENVIRONMENT)


@pytest.mark.promise("`results` lists runs, prints their rows again, and exports JSON lines, CSV and Parquet.")
def test_a_parquet_file_has_the_columns_of_csv(fmha: Fmha, store: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    filled(store, row_of(run_row(5), 0), row_of(run_row(5), 1, measurement=None, kernel=None, stages=()))
    assert fmha("results", "export", "latest", "--parquet", "f.parquet").code == 0
    table = parquet.read_table("f.parquet").to_pydict()
    header = fmha("results", "show", "latest", "--csv").out.splitlines()[0].split(",")
    assert list(table) == header
    measured = ROWS[0].measurement
    assert measured is not None
    assert table["measurement.samples_ns"] == [list(measured.samples_ns), None]
    assert table["problem.seqlen_q"] == [1024, 1024]
    assert json.loads(table["stages"][0]) == ROWS[0].to_dict()["stages"]


def test_without_pyarrow_the_extra_is_named(fmha: Fmha, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    done = fmha("results", "export", "latest", "--parquet", "f.parquet")
    assert (done.code, Path("f.parquet").exists()) == (4, False)
    assert 'pip install "fmha[parquet]"' in done.err


def test_a_variable_of_other_commands_is_no_target(fmha: Fmha, store: Path) -> None:
    Path("fmha.toml").write_text("jsonl = true\n")
    assert fmha("results", "export", "latest", "--csv", "f", FMHA_JSONL="1").code == 0


def test_labels_change_and_go(fmha: Fmha, store: Path) -> None:
    assert fmha("results", "label", RUNS[0].id[:8], "first", "--json").document["runs"][0]["label"] == "first"
    row = load_run("first", store).records[0]
    assert row.run is not None
    assert row.run.label == "first"
    assert fmha("results", "label", "first", "--json").document["runs"][0]["label"] is None
    assert fmha("results", "show", "first").code == 2


def test_rm_removes_runs_and_nothing_else(fmha: Fmha, store: Path) -> None:
    dry = fmha("results", "rm", "before", "--dry-run", "--json")
    assert "a dry run: nothing was removed" in dry.err
    assert "1 run: 2 rows would be removed; " in fmha("results", "rm", "before", "--dry-run").out
    planned = dry.document
    assert (planned["removed"], planned["count"]) == (2, 1)
    assert load_run("before", store).records == tuple(ROWS[:2])
    done = fmha("results", "rm", "before", RUNS[0].id, "--json").document
    assert (done["removed"], done["count"]) == (2, 1)
    assert fmha("results", "show", "before").code == 2
    filled(store, ROWS[0])
    assert [run["records"] for run in fmha("results", "ls", "--json").document["runs"]] == [1, 2]
    assert load_run("after", store).records == tuple(ROWS[2:])


@pytest.mark.promise("Every run is kept in a store; a store that cannot be used costs one line.")
def test_a_run_is_kept_by_default(fmha: Fmha, store: Path) -> None:
    done = fmha(*NULL, "--label", "mine", "--softcap", "1,2", "--json")
    assert done.code == 0
    kept = load_run("mine", store)
    assert [row.to_dict() for row in kept.records] == done.document["records"]
    assert json_of(kept.environment) == done.document["environment"]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("words", [("--no-store",), ("--dry-run",)])
def test_nothing_is_kept_where_nothing_is_wanted(fmha: Fmha, store: Path, words: tuple[str, ...]) -> None:
    fmha(*NULL, *words)
    assert len(fmha("results", "ls", "--json").document["runs"]) == 2


@pytest.mark.slow
@pytest.mark.ci
def test_store_names_another_place_and_overrides_a_variable(fmha: Fmha, store: Path) -> None:
    assert fmha(*NULL, "--store", "mine.sqlite", FMHA_NO_STORE="1").code == 0
    assert len(load_run("latest", Path("mine.sqlite")).records) == 1
    assert fmha(*NULL, FMHA_STORE="theirs.sqlite").code == 0
    assert len(load_run("latest", Path("theirs.sqlite")).records) == 1
    assert fmha(*NULL, "--store", FMHA_STORE="third.sqlite").code == 0
    assert not Path("third.sqlite").exists()
    assert load_run("latest", store).records[0].run != ROWS[3].run
    assert fmha(*NULL, "--store", "a.sqlite", "--no-store").code == 2


def test_a_broken_store_costs_one_line_and_no_row(fmha: Fmha, store: Path) -> None:
    store.write_bytes(b"no database" * 999)
    done = fmha(*NULL, "--softcap", "1,2,3")
    assert done.code == 0
    assert "3 rows: 3 PASSED" in done.out
    assert done.err.count("results are not kept") == 1
    assert fmha("results", "ls").code == 4


@pytest.mark.slow
@pytest.mark.ci
def test_a_journal_of_a_run_without_a_store_is_imported(fmha: Fmha, store: Path) -> None:
    done = fmha(*NULL, "--softcap", "1,2", "--no-store", "--journal", "j", "--json")
    assert fmha("results", "import", "j").code == 0
    assert [row.to_dict() for row in load_run("latest", store).records] == done.document["records"]
    fmha(*NULL, "--softcap", "1,2", "--resume", "j")
    again = load_run("latest", store)
    assert len(again.records) == 2
    assert json_of(again.environment) == done.document["environment"]


def test_lines_begin_with_the_environment(fmha: Fmha, home: Path) -> None:
    whole = fmha(*NULL, "--softcap", "1,2", "--json").document
    for words in ((), ("-o", "f.jsonl")):
        out = fmha(*NULL, "--softcap", "1,2", "--jsonl", *words).out or Path("f.jsonl").read_text()
        first, *rows = map(json.loads, out.splitlines())
        assert first == {"schema": "fmha.environment/1", "environment": whole["environment"]}
        assert validator("environment").is_valid(first)
        assert [row["schema"] for row in rows] == ["fmha.record/3"] * 2


def test_runs_are_completed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = completer("runs", (), False)
    assert complete is not None
    monkeypatch.setenv("FMHA_STORE", str(store.with_name("none")))
    assert complete("") == ["latest"]
    monkeypatch.setenv("FMHA_STORE", str(store))
    assert complete("") == ["after", "before", "latest", RUNS[1].id[:8], RUNS[0].id[:8]]
    assert complete("be") == ["before"]


def test_the_place_follows_the_rules_of_the_platform(tmp_path: Path) -> None:
    assert store_path("~/x", {}) == Path("~/x").expanduser()
    assert store_path(None, {"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "fmha" / "results.sqlite"
    assert store_path(None, {"XDG_DATA_HOME": str(tmp_path), "FMHA_STORE": str(tmp_path / "x")}) == tmp_path / "x"
    assert store_path(None, {"XDG_DATA_HOME": "relative"}) == store_path(None, {})
    assert store_path(None, {}).is_absolute()


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        ("bench --store -s 64", "bench --store=default -s 64"),
        ("bench --store", "bench --store=default"),
        ("bench --store f -s 64", "bench --store f -s 64"),
        ("my-command --store", "my-command --store"),
        ("results show -- --store", "results show -- --store"),
        ("help bench", "bench --help"),
    ],
)
def test_a_value_may_be_left_out(words: str, parsed: str) -> None:
    assert words_of(words.split()) == parsed.split()

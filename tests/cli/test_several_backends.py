"""``--backend a,b`` and ``--backend all`` on the command line, in variables and in configuration files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Fmha
from tests.support.fixtures.trio import trio

__all__ = ["trio"]

SMALL = ("-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32")
QUICK = {"run": (), "validate": ("--fill", "normal"), "bench": ("--budget", "0.02", "--peak", "spec")}

DRY = ("run", *SMALL, "--dry-run")

pytestmark = pytest.mark.usefixtures("trio")


def backends(document: Any) -> list[str]:
    return [record["backend"] for record in document["records"]]


# tests/run/test_compared_backends.py has the rows of ``validate`` by default.
@pytest.mark.promise("`--backend a,b` interleaves the backends on one device, and a bad row costs only itself.")
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("command", ["run", pytest.param("validate", marks=pytest.mark.slow), "bench"])
def test_a_sweep_has_one_row_for_each_problem_and_backend(fmha: Fmha, command: str) -> None:
    done = fmha(
        command, *SMALL, "--lse", "--kv-heads", "1", "--heads", "1,2", "--backend", "two,one", *QUICK[command], "--json"
    )
    assert done.code == 0, done.err
    records = done.document["records"]
    assert [(r["problem"]["heads"], r["backend"]) for r in records] == [(1, "two"), (1, "one"), (2, "two"), (2, "one")]
    assert {r["selected_by"] for r in records} == {"backend"}
    again = fmha(*shlex.split(records[1]["repro"])[1:], *QUICK[command][2:], "--json").document["records"]
    assert [(r["backend"], r["kernel"]["digest"]) for r in again] == [("one", records[1]["kernel"]["digest"])]


@pytest.mark.promise("`--backend a,b` interleaves the backends on one device, and a bad row costs only itself.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_table_names_the_backends_and_what_times_are_compared_with(fmha: Fmha) -> None:
    done = fmha("bench", *SMALL, "--backend", "one,apart,two", *QUICK["bench"])
    assert done.code == 0, done.err
    rows = [line for line in done.out.splitlines() if line[:1].isdigit()]
    assert ["one" in rows[0], "apart" in rows[1], "two" in rows[2]] == [True] * 3
    assert "against: the first backend of the same problem" in done.out
    assert "2: timed by itself, not alternating" in done.out
    assert "3: timed by itself" not in done.out
    plain = fmha("bench", *SMALL, "--backend", "one", *QUICK["bench"]).out
    assert "against" not in plain


def test_variables_and_files_name_several_too(fmha: Fmha) -> None:
    assert backends(fmha(*DRY, "--json", FMHA_BACKEND="two,one").document) == ["two", "one"]
    for text in ('backend = ["one", "two"]', 'backend = "one,two"', '[run]\nbackend = ["one", "two"]'):
        Path("fmha.toml").write_text(text)
        assert backends(fmha(*DRY, "--json").document) == ["one", "two"]
    assert backends(fmha(*DRY, "--json", "--backend", "three").document) == ["three"]
    Path("fmha.toml").write_text('backend = ["one", "tow"]')
    wrong = fmha(*DRY)
    assert wrong.code == 2
    assert "did you mean two" in wrong.err
    assert "fmha.toml" in wrong.err


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("run", "--backend", "one,tow"), "did you mean two"),
        (("run", "--backend", "one,"), "an empty name"),
        (("run", "--backend", "one,one"), "one twice"),
        (("bench", "--backend", "auto,one"), "stand alone"),
        (("validate", "--backend", "one,all"), "stand alone"),
        (("run", "--backend", "one,two", "--kernel", "12345678"), "--kernel names one kernel"),
        (("run", "--backend", "one,two", "--out", "o.npz"), "put {i} into the name"),
        (("plan", "--backend", "one,two"), "fmha plan takes one backend"),
        (("build", "--backend", "all"), "fmha build takes one backend"),
        (("parity", "--list", "--backend", "one,two"), "fmha parity takes one backend"),
    ],
)
def test_what_makes_no_sense_is_refused(fmha: Fmha, argv: tuple[str, ...], words: str) -> None:
    problem = () if argv[0] == "parity" else SMALL
    done = fmha(argv[0], *problem, *argv[1:])
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_exit_codes(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal among rows that are good costs nothing; a backend that was named and is not here does."""
    mixed = fmha("run", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp16", "--backend", "null,one", "--json")
    assert [r["verdict"] for r in mixed.document["records"]] == ["PASSED", "UNSUPPORTED"]
    assert mixed.document["records"][1]["reasons"]
    assert mixed.code == 0
    assert fmha("run", *SMALL, "--dropout", "0.5", "--backend", "one,two").code == 3
    for dry in ((), ("--dry-run",)):
        away = fmha("run", *SMALL, "--backend", "one,away", *dry, "--json")
        assert away.code == 4
        assert away.document["records"][1]["verdict"] == "NOT_RUN"
        assert away.document["records"][1]["reasons"][0]["text"] == "away: it is out"
    monkeypatch.setenv("TRIO_TWO", "wrong_value")
    assert fmha("run", *SMALL, "--backend", "one,two").code == 1


@pytest.mark.promise("`--backend all` says what it leaves out, and `explain` shows the rows that `bench` would run.")
def test_all_says_what_it_leaves_out(fmha: Fmha) -> None:
    done = fmha(*DRY, "--backend", "all", "--device", "null", "--json")
    assert done.code == 0, done.err
    assert backends(done.document) == ["null", "one", "two", "three"]
    said = " ".join(done.err.split())
    assert "--backend all on null: null, one, two, three; left out: " in said
    assert "away (no device here)" in said
    assert done.document["environment"]["backends"]["away"]["state"] == "no-device"
    assert "--backend all" not in fmha(*DRY, "--backend", "all", "--device", "null", "--json", "-q").err
    assert fmha(*DRY, "--backend", "all", "--device", "nul").code == 4


def test_outputs_are_numbered_by_row(fmha: Fmha) -> None:
    assert fmha("run", *SMALL, "--backend", "one,two", "--no-check", "--out", "o-{i}.npy").code == 0
    assert sorted(path.name for path in Path.cwd().glob("o-*.npy")) == ["o-1.npy", "o-2.npy"]


@pytest.mark.slow
@pytest.mark.ci
def test_an_output_that_a_later_row_would_write_onto_an_input_is_refused(fmha: Fmha) -> None:
    assert fmha("run", *SMALL, "--backend", "one", "--no-check", "--out", "t-2.npy").code == 0
    files = [word for name in "qkv" for word in (f"--{name}", "t-2.npy")]
    done = fmha("run", *files, "--backend", "one,two", "--out", "t-{i}.npy")
    assert done.code == 2
    assert "--out t-2.npy: this is the file of" in " ".join(done.err.split())


def test_lists_and_kernels_of_several_backends(fmha: Fmha) -> None:
    listed = fmha("list-kernels", "--backend", "two,one", "--json").document
    assert [kernel["backend"] for kernel in listed["kernels"]] == ["two", "one"]
    shown = fmha("devices", "--backend", "one,apart", "--json").document
    assert [(d["id"], d["backend"]) for d in shown["devices"]] == [("other", "apart"), ("null", "one")]
    digest = listed["kernels"][0]["digest"][:12]
    assert fmha("inspect", digest, "--backend", "one,two", "--arch", "null").code == 0
    assert fmha("inspect", digest, "--backend", "one,three", "--arch", "null").code == 2


@pytest.mark.promise("`--backend all` says what it leaves out, and `explain` shows the rows that `bench` would run.")
@pytest.mark.usefixtures("trio")
def test_explain_shows_the_rows_that_bench_would_run(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_TWO", "disliked")
    done = fmha("explain", "--backend", "one,two", "-H", "1,2", "-s", "8", "-d", "8", "--dtype", "fp32", "--json")
    assert done.code == 0
    rows = done.document["rows"]
    assert done.document["schema"] == "fmha.choices/1"
    assert [(r["backend"], r["problem"]["heads"], r["kernel"] is None) for r in rows] == [
        ("one", 1, False), ("two", 1, True), ("one", 2, False), ("two", 2, True),
    ]  # fmt: skip
    assert {reason["id"] for r in rows for reason in r["reasons"]} == {"K998"}
    table = fmha("explain", "--backend", "one,two", "-H", "1,2", "-s", "8", "-d", "8", "--dtype", "fp32").out
    assert "K998 nobody should choose it" in table
    assert "4 rows: 2 supported, 2 refused" in table


@pytest.mark.promise("`--backend all` says what it leaves out, and `explain` shows the rows that `bench` would run.")
@pytest.mark.usefixtures("trio")
def test_a_refused_backend_does_not_change_the_exit_code(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_TWO", "disliked")
    done = fmha("bench", "--backend", "one,two", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32", "--budget", "0.02")
    assert done.code == 0
    assert "K998 nobody should choose it" in done.out

"""``fmha tune``: what is remembered and when, what it is used for, and the commands about it."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference
from fmha_cli.tune import confirming
from tests.cli.conftest import Begin, Fmha
from tests.support.fakes.ring_backend import DEFAULT, HONEST
from tests.support.generators.runs_to_compare import processes, timed
from tests.support.paths import ROOT
from tests.support.schema_checks import validator
from tests.support.tuned_for import difference

SHAPE = ("--backend", "ring", "-H", "1", "-d", "8", "--dtype", "fp32")
SMALL = (*SHAPE, "-s", "8")
pytestmark = pytest.mark.usefixtures("ring")


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh processes find the fastest twice as fast. ``test_fresh_processes_confirm_a_winner`` starts them."""
    monkeypatch.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference())


def tuned(fmha: Fmha, *words: str, code: int = 0, **env: str) -> Any:
    done = fmha("tune", *(words or SMALL), "--json", **env)
    assert done.code == code, done.err
    assert validator("tune").is_valid(done.document)
    return done.document["rows"]


@pytest.fixture
def remembered(fmha: Fmha, begin: Begin, sure: None) -> None:
    """A store that remembers the fastest kernel of SMALL."""
    begin("tuned", lambda: tuned(fmha))


def ran(fmha: Fmha, *words: str, **env: str) -> Any:
    (record,) = fmha("run", *SMALL, *words, "--json", **env).document["records"]
    return record


@pytest.mark.promise("`fmha tune` remembers the fastest kernel, and `run`, `validate`, `bench` and sweeps choose it.")
@pytest.mark.usefixtures("sure")
def test_the_fastest_is_remembered_and_chosen_from_then_on(fmha: Fmha) -> None:
    assert ran(fmha)["kernel"]["digest"] == DEFAULT.digest
    (row,) = tuned(fmha)
    assert (row["state"], row["kernel"], row["default"]) == ("tuned", HONEST.digest, DEFAULT.digest)
    assert (row["gain"], row["gain_ci95"]) == (1.0, [pytest.approx(0.6), pytest.approx(1.5)])
    default, other = row["candidates"]
    assert (default["default"], other["tuning_only"]) == (True, True)
    assert min(default["samples"], other["samples"]) >= 10
    record = ran(fmha)
    assert (record["kernel"]["digest"], record["selected_by"]) == (HONEST.digest, "tuned")
    again = fmha(*record["repro"].split()[1:], "--json").document["records"][0]
    assert again["kernel"]["digest"] == HONEST.digest
    default_again = ran(fmha, "--select", "default")
    assert (default_again["kernel"]["digest"], default_again["selected_by"]) == (DEFAULT.digest, "default")
    assert ran(fmha, "--select", HONEST.digest[:16])["selected_by"] == "kernel"
    assert ran(fmha, "--no-store", FMHA_STORE="")["kernel"]["digest"] == DEFAULT.digest


@pytest.mark.promise("`fmha tune` remembers the fastest kernel, and `run`, `validate`, `bench` and sweeps choose it.")
@pytest.mark.usefixtures("remembered")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("command", ["validate", "bench"])
def test_validate_and_bench_choose_it_too(fmha: Fmha, command: str) -> None:
    more = ("--fill", "normal") if command == "validate" else ("--budget", "0.02", "--peak", "spec")
    records = fmha(command, *SMALL, "--lse", *more, "--json").document["records"]
    assert {record["selected_by"] for record in records} == {"default"}  # LSE is another problem
    records = fmha(command, *SMALL, *more, "--json").document["records"]
    assert "tuned" in {record["selected_by"] for record in records}


@pytest.mark.promise("The default stays unless another kernel is surely faster by `--min-gain` and validated.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("speed", [Speed.SAME, Speed.UNSURE, Speed.SLOWER])
def test_the_default_is_kept_unless_another_is_surely_faster(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, speed: Speed
) -> None:
    monkeypatch.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference(speed))
    (row,) = tuned(fmha)
    assert (row["state"], row["kernel"], row["gain"]) == ("kept", DEFAULT.digest, None)
    assert speed.value.upper() in row["why"].upper()
    assert ran(fmha)["selected_by"] == "default"
    (entry,) = fmha("tune", "ls", "--json").document["entries"]
    assert (entry["result"], entry["why"]) == ("kept", row["why"])


@pytest.mark.promise("The default stays unless another kernel is surely faster by `--min-gain` and validated.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("least", "state"), [("5", "tuned"), ("20", "kept")])
def test_a_winner_is_faster_by_the_least_gain(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, least: str, state: str
) -> None:
    """Fresh processes find it surely 10 % faster."""
    sides = tuple((timed(processes(middle, seed)),) for seed, middle in enumerate((1_100_000, 1_000_000)))
    monkeypatch.setattr(confirming.Turns, "run", lambda self, count: sides)
    (row,) = tuned(fmha, *SMALL, "--min-gain", least)
    assert row["state"] == state
    assert row["difference"]["ratio"] == pytest.approx(1 / 1.1, rel=0.01)
    assert (row["why"] is None) == (state == "tuned")


@pytest.mark.promise("The default stays unless another kernel is surely faster by `--min-gain` and validated.")
@pytest.mark.usefixtures("sure")
@pytest.mark.slow
@pytest.mark.ci
def test_a_winner_that_does_not_validate_is_not_remembered(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes into gaps that the tensors of the search do not have."""
    monkeypatch.setenv("RING_VARIANTS", "oob_gap")
    (row,) = tuned(fmha)
    assert (row["state"], row["kernel"]) == ("kept", DEFAULT.digest)
    assert "validate: OUT_OF_BOUNDS" in row["why"]


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.usefixtures("sure")
@pytest.mark.slow
@pytest.mark.ci
def test_every_candidate_has_a_row_whatever_becomes_of_it(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RING_VARIANTS", "honest,build_error,wrong_value,segfault")
    (row,) = tuned(fmha)
    verdicts = [candidate["verdict"] for candidate in row["candidates"]]
    assert verdicts == ["PASSED", "PASSED", "BUILD_FAILED", "WRONG", "CRASHED"]
    assert [bool(candidate["samples"]) for candidate in row["candidates"]] == [True, True, False, False, False]
    assert row["kernel"] == HONEST.digest
    stored = fmha("results", "show", "latest", "--json").document["records"]
    assert [record["verdict"] for record in stored] == verdicts
    assert stored[0]["run"]["command"] == "tune"


def test_kernels_are_built_until_the_time_is_used_up(fmha: Fmha) -> None:
    (row,) = tuned(fmha, *SMALL, "--build-budget", "0.000001", "--jobs", "1")
    late = row["candidates"][1]
    assert (late["verdict"], [reason["id"] for reason in late["reasons"]]) == (None, ["X070"])
    assert row["state"] == "kept"
    assert "the fastest of 1" in row["why"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_search_without_time_keeps_what_was_measured(fmha: Fmha) -> None:
    (row,) = tuned(fmha, *SMALL, "--budget", "0.000000001", code=6)
    assert (row["state"], row["samples"], row["stop"]) == ("failed", 0, "budget")


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
def test_an_interruption_keeps_what_was_measured(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any, default: Any, winner: Any) -> Difference:
        raise KeyboardInterrupt

    monkeypatch.setattr(confirming.Confirmer, "difference", interrupted)
    rows = tuned(fmha, *SHAPE, "-s", "8,16", code=130)
    assert [row["state"] for row in rows] == ["interrupted", "interrupted"]
    assert rows[0]["samples"] > 0
    assert rows[1]["samples"] == 0
    assert len(fmha("results", "show", "latest", "--json").document["records"]) == 2


def test_a_dry_run_does_nothing(fmha: Fmha, ring: Path) -> None:
    (row,) = tuned(fmha, *SMALL, "--dry-run")
    assert (row["state"], row["samples"], len(row["candidates"])) == ("planned", 0, 2)
    assert not ring.exists()
    shown = fmha("tune", *SMALL, "--dry-run").out
    assert "2 kernels would compete, 1 of them for tuning alone" in shown
    assert "0 ns" not in shown


@pytest.mark.promise("`explain` says why a tuned kernel is not used, and files for other projects are exact.")
@pytest.mark.usefixtures("remembered")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("env", "word"), [({"RING_DEVICE": "another"}, "device"), ({"RING_VARIANTS": "zeros"}, "no such kernel")]
)
def test_explain_says_why_a_tuned_kernel_is_not_used(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], word: str
) -> None:
    used = fmha("explain", *SMALL, "--json").document
    assert validator("explain").is_valid(used)
    assert (used["tuned"]["used"], used["chosen"]) == (True, HONEST.name)
    assert "the default takes 100.0 % longer" in fmha("explain", *SMALL).out.replace("\n", " ")
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    other = fmha("explain", *SMALL, "--json").document
    assert (other["tuned"]["used"], other["chosen"]) == (False, DEFAULT.name)
    assert word in other["tuned"]["text"]
    assert ran(fmha)["selected_by"] == "default"
    (entry,) = fmha("tune", "verify", "--json").document["entries"]
    assert (entry["counts"], word in entry["reasons"][0]["text"]) == (False, True)


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.usefixtures("sure")
@pytest.mark.slow
@pytest.mark.ci
def test_between_tuned_lengths_the_nearer_one_decides(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(fmha, *SHAPE, "-s", "8")
    monkeypatch.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference(Speed.SAME))
    tuned(fmha, *SHAPE, "-s", "16")
    records = fmha("run", *SHAPE, "-s", "7,8,11,12,16,17", "--json").document["records"]
    assert [r["selected_by"] for r in records] == ["default", "tuned", "tuned", "default", "default", "default"]
    assert "outside" in fmha("explain", *SHAPE, "-s", "17", "--json").document["tuned"]["text"]


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@pytest.mark.usefixtures("remembered")
@pytest.mark.slow
@pytest.mark.ci
def test_a_damaged_store_costs_one_line(fmha: Fmha, ring: Path) -> None:
    ring.write_bytes(b"no database at all, and longer than a header" * 40)
    done = fmha("run", *SMALL, "--json")
    assert done.code == 0
    assert "no tuned kernel is used" in done.err
    assert done.document["records"][0]["selected_by"] == "default"


@pytest.mark.usefixtures("remembered")
@pytest.mark.slow
@pytest.mark.ci
def test_a_row_of_the_table_that_cannot_be_read_is_passed_over(fmha: Fmha, ring: Path) -> None:
    with sqlite3.connect(ring) as db:
        db.execute("update tuned set flags = '--no-such-flag'")
    assert fmha("tune", "ls", "--json").document["entries"] == []
    assert ran(fmha)["selected_by"] == "default"


@pytest.mark.usefixtures("remembered")
def test_ls_rm_and_export(fmha: Fmha, tmp_path: Path) -> None:
    page = fmha("tune", "ls", "--json").document
    assert validator("tuned").is_valid(page)
    (entry,) = page["entries"]
    assert "tuned" in fmha("tune", "ls").out
    fmha("tune", "export", "--format", "json", "-o", str(tmp_path / "t.json"))
    assert json.loads((tmp_path / "t.json").read_text("utf-8"))["entries"] == page["entries"]
    assert entry["id"][:8] in fmha("tune", "export").out
    foreign = fmha("tune", "export", "--format", "ck-custom")
    assert (foreign.code, "E066" in foreign.err) == (2, True)
    assert fmha("tune", "rm", "ffff").code == 2
    assert fmha("tune", "rm", entry["id"][:8], "--dry-run", "--json").document["count"] == 1
    assert fmha("tune", "rm", entry["id"][:8], "--json").document["count"] == 1
    assert fmha("tune", "ls", "--json").document["entries"] == []
    assert ran(fmha)["selected_by"] == "default"


@pytest.mark.usefixtures("sure")
@pytest.mark.slow
@pytest.mark.ci
def test_problems_come_from_a_file_or_a_run(fmha: Fmha, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("# two\n-H 1 -s 8 -d 8 --dtype fp32\n\n-H 1 -s 16 -d 8 --dtype fp32  # long\n", "utf-8")
    rows = tuned(fmha, "--backend", "ring", "--shapes", str(shapes), "--dry-run")
    assert [row["problem"]["seqlen_q"] for row in rows] == [8, 16]
    fmha("run", *SHAPE, "-s", "8,16,8", "--label", "seen")
    rows = tuned(fmha, "--backend", "ring", "--from", "seen", "--dry-run")
    assert [row["problem"]["seqlen_q"] for row in rows] == [8, 16]
    shapes.write_text("-s 8\n--no-such 3\n", "utf-8")
    wrong = fmha("tune", "--shapes", str(shapes))
    assert (wrong.code, f"{shapes}:2" in wrong.err) == (2, True)
    assert fmha("tune", "--shapes", str(shapes), "--from", "seen").code == 2
    shapes.write_text("# nothing\n", "utf-8")
    assert fmha("tune", "--shapes", str(shapes)).code == 5


@pytest.mark.promise("The default stays unless another kernel is surely faster by `--min-gain` and validated.")
@pytest.mark.slow
@pytest.mark.ci
def test_fresh_processes_confirm_a_winner(fmha: Fmha, ring: Path) -> None:
    places = (ring.parent / "ring-site", ROOT)
    (row,) = tuned(fmha, PYTHONPATH=os.pathsep.join(map(str, places)))
    assert (row["state"], row["kernel"]) == ("tuned", HONEST.digest)
    assert row["difference"]["processes_before"] == row["difference"]["processes_after"] == 5
    assert row["gain"] > 0.02


@pytest.mark.slow
@pytest.mark.ci
def test_a_backend_without_kernels_for_tuning_is_searched_among_its_own(fmha: Fmha) -> None:
    """The null backend, whose kernels fail in every way: each has its row, and the search goes on among the right ones."""
    done = fmha(
        "tune",
        "--backend",
        "null",
        "-H",
        "1",
        "-s",
        "16",
        "-d",
        "8",
        "--dtype",
        "fp32",
        "--timeout",
        "2",
        "--processes",
        "1",
        "--json",
    )
    (row,) = done.document["rows"]
    assert (done.code, row["state"]) == (0, "kept")
    verdicts = {candidate["verdict"] for candidate in row["candidates"] if not candidate["reasons"]}
    assert {"PASSED", "WRONG", "BUILD_FAILED", "LAUNCH_FAILED", "CRASHED", "TIMED_OUT", "OUT_OF_MEMORY"} <= verdicts
    assert all(bool(one["samples"]) == (one["verdict"] == "PASSED") for one in row["candidates"])
    assert not any(one["tuning_only"] for one in row["candidates"])

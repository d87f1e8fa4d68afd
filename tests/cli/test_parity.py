"""``fmha parity`` on the command line, with stand-ins for the upstream programs and backends that need no GPU."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Fmha, Result
from tests.cli.test_commands import faults_of
from tests.support.fakes.example_programs import write_standins

NULL = ("--backend", "null", "--rounds", "0")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    return write_standins(tmp_path / "bin")


def suite_of(folder: Path, *lines: dict[str, str], program: str = "fwd") -> str:
    """A suite file with one case per line, small enough for any backend."""
    small = {"b": "1", "h": "1", "s": "16", "d": "32", "kname": "1", "v": "1"}
    cases = {f"case{i}": {**small, **line} for i, line in enumerate(lines, 1)}
    path = folder / "mine.json"
    source = {"file": "mine.sh", "revision": "1"}
    path.write_text(json.dumps({"sources": [source], "matrices": [{"program": program, "group": "g", "cases": cases}]}))
    return str(path)


def outcomes(done: Result) -> list[str]:
    assert faults_of(done.document) == []
    return [case["outcome"] for case in done.document["cases"]]


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_basic_suite_agrees(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """All 14 cases agree with the cpu backend as this tool's side, and every setting reaches the program."""
    log = tmp_path / "log"
    done = fmha(
        "parity", "--upstream-bin", str(programs), "--backend", "cpu", "--rounds", "0", "--json", STANDIN_LOG=str(log)
    )
    assert done.code == 0, done.err
    assert outcomes(done) == ["agree-pass"] * 14
    assert done.document["counts"]["agree-pass"] == 14
    assert done.document["suite"]["sources"][0]["revision"]
    ran = [line.partition("\t")[0].split() for line in log.read_text().splitlines()]
    assert [line[1:] for line in ran] == [case["argv"] for case in done.document["cases"]]
    assert "-h_k=2" in ran[4]
    assert "-mask=2" in ran[7]
    assert "-bias=a" in ran[9]
    ours = [case["ours"] for case in done.document["cases"]]
    assert ours[4]["problem"]["kv_heads"] == 2
    assert ours[7]["problem"]["mask"] == "causal"
    assert ours[10]["problem"]["lse"] is True
    assert all(row["verdict"] == "PASSED" for row in ours)


EXPECTED = {
    "valid": ("agree-pass", 0),
    "wrong": ("they-fail", 1),
    "unsupported": ("they-fail", 1),
    "refused": ("they-fail", 1),
    "ignoring": ("not-comparable", 4),
    "other-batch": ("not-comparable", 4),
    "truncated": ("they-fail", 1),
    "garbage": ("they-fail", 1),
    "silent": ("they-fail", 1),
    "wrong-0": ("they-fail", 1),
    "valid-254": ("they-fail", 1),
    "usage": ("they-fail", 1),
    "hip-error": ("they-fail", 1),
    "segv": ("crashed", 6),
    "abort-after-valid": ("crashed", 6),
    "no-device": ("not-run", 4),
    "no-library": ("not-run", 4),
}
"""Form of the stand-in -> outcome and exit code; this tool's side passes."""


@pytest.mark.slow
@pytest.mark.ci
def test_the_outcome_of_every_form(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """All of them in one command, one form for each number of heads."""
    suite = suite_of(tmp_path, *({"h": str(heads)} for heads in range(1, len(EXPECTED) + 1)))
    forms = ";".join(f"{form}@h={heads}" for heads, form in enumerate(EXPECTED, 1))
    done = fmha("parity", "--upstream-bin", str(programs), "--suite", suite, *NULL, "--json", STANDIN=forms)
    assert outcomes(done) == [outcome for outcome, _ in EXPECTED.values()]
    for form, case in zip(EXPECTED, done.document["cases"], strict=True):
        assert case["why"] or form == "valid"
        assert case["upstream"]["argv"][1:] == case["argv"]


OFTEN = {outcome: form for form, outcome in reversed(EXPECTED.items())}.values()
"""The first form of each outcome and exit code, whose exit code is looked at in the default run."""


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[] if form in OFTEN else pytest.mark.slow) for form in EXPECTED]
)
def test_outcome_and_exit_code_of_every_form(fmha: Fmha, programs: Path, tmp_path: Path, form: str) -> None:
    suite = suite_of(tmp_path, {})
    done = fmha("parity", "--upstream-bin", str(programs), "--suite", suite, *NULL, "--json", STANDIN=form)
    assert (outcomes(done), done.code) == ([EXPECTED[form][0]], EXPECTED[form][1])
    case = done.document["cases"][0]
    assert case["why"] or form == "valid"
    assert case["upstream"]["argv"][1:] == case["argv"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_program_that_hangs_costs_its_case(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    suite = suite_of(tmp_path, {}, {"h": "2"})
    argv = ("parity", "--upstream-bin", str(programs), "--suite", suite, *NULL, "--timeout", "2", "--json")
    done = fmha(*argv, STANDIN="hang@h=1")
    assert (outcomes(done), done.code) == (["timed-out", "agree-pass"], 6)


@pytest.mark.slow
@pytest.mark.ci
def test_when_this_tool_supports_nothing(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """A problem that the backend refuses is an agreement only if upstream reports it as unsupported."""
    suite = suite_of(tmp_path, {"prec": "fp8"}, {"prec": "fp8", "h": "2"}, {"prec": "fp8", "h": "3"})
    argv = ("parity", "--upstream-bin", str(programs), "--suite", suite, "--backend", "cpu", "--rounds", "0", "--json")
    done = fmha(*argv, STANDIN="unsupported@h=1;wrong@h=2;valid")
    assert (outcomes(done), done.code) == (["agree-unsupported", "they-fail", "we-fail"], 1)
    assert "K0" in done.document["cases"][2]["why"][1]
    only = fmha(*argv, "--limit", "1", STANDIN="unsupported")
    assert (outcomes(only), only.code) == (["agree-unsupported"], 0)


@pytest.mark.slow
@pytest.mark.ci
def test_a_missing_program_is_an_error_and_no_agreement(fmha: Fmha, tmp_path: Path) -> None:
    forward = write_standins(tmp_path / "bin", ("fwd",))
    path = Path(suite_of(tmp_path, {}))
    suite = json.loads(path.read_text())
    suite["matrices"].append({"program": "bwd", "group": "b", "cases": {"back": {"s": "16", "d": "32"}}})
    path.write_text(json.dumps(suite))
    done = fmha("parity", "--upstream-bin", str(forward), "--suite", str(path), *NULL, "--json")
    assert (outcomes(done), done.code) == (["agree-pass", "missing-binary"], 4)
    assert "error[Y006]" in done.err
    assert done.document["upstream"]["bwd"] is None
    fine = fmha(
        "parity", "--upstream-bin", str(forward), "--suite", str(path), *NULL, "--filter", "program:fwd", "--json"
    )
    assert (outcomes(fine), fine.code) == (["agree-pass"], 0)
    assert "Y006" not in fine.err
    (forward / "tile_example_fmha_fwd").chmod(0o644)
    none = fmha("parity", "--upstream-bin", str(forward), "--suite", str(path), *NULL, "--json")
    assert (outcomes(none), none.code) == (["missing-binary"] * 2, 4)


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (("parity",), 2, "Y005"),
        (("parity", "--upstream-bin", "nowhere"), 4, "Y003"),
        (("parity", "--list", "--suite", "smokey"), 2, "Y001"),
        (("parity", "--list", "--filter", "precision:fp16"), 2, "F001"),
        (("parity", "--list", "--filter", "prec:fp64"), 5, "F002"),
        (("parity", "--list", "--filter", "prec:bf16,h:8"), 5, "F002"),
        (("parity", "--list", "--limit", "0"), 2, "E002"),
        (("parity", "--upstream-bin", ".", "--backend", "no_such"), 2, "E0"),
    ],
)
def test_errors(fmha: Fmha, argv: tuple[str, ...], code: int, error: str) -> None:
    done = fmha(*argv)
    assert done.code == code
    assert f"error[{error}" in done.err


def test_a_program_that_cannot_start(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    (programs / "tile_example_fmha_fwd").write_bytes(b"\x7fELF no program")
    done = fmha("parity", "--upstream-bin", str(programs), "--suite", suite_of(tmp_path, {}), *NULL, "--json")
    assert done.code == 4
    assert done.document["error"]["code"] == "Y004"


def test_without_a_device_nothing_runs(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """Without a device for this tool's side, every case is not-run, and the program never starts."""
    log = tmp_path / "log"
    argv = ("parity", "--upstream-bin", str(programs), "--suite", suite_of(tmp_path, {}, {"vlayout": "c"}))
    done = fmha(*argv, "--backend", "null", "--arch", "x86_64", "--json", STANDIN_LOG=str(log))
    assert (outcomes(done), done.code) == (["not-run", "not-comparable"], 4)
    assert "no device for x86_64" in done.document["cases"][0]["why"][0]
    assert not log.exists()


@pytest.mark.slow
@pytest.mark.ci
def test_filters_and_limits(fmha: Fmha) -> None:
    def names(*argv: str) -> list[str]:
        done = fmha("parity", "--list", "--json", *argv)
        assert done.code == 0
        assert faults_of(done.document) == []
        return [case["name"] for case in done.document["cases"]]

    assert names("--filter", "prec:bf16") == ["basic_bf16"]
    assert names("--filter", "h_k:2,h_k:9") == ["gqa_2_1", "gqa_4_1"]
    assert names("--filter", "h_k:2,h:8") == ["gqa_4_1"]
    assert len(names("--filter", "-mask:0")) == 2
    assert len(names("--limit", "3")) == 3
    assert len(names("--suite", "smoke", "--filter", "mask:t:128,30,prec:bf16,program:bwd")) == 72
    assert len(names("--suite", "smoke_bwd")) == 840


def test_listing_says_what_both_sides_would_get(fmha: Fmha) -> None:
    done = fmha("parity", "--list", "--suite", "smoke_fwd", "--filter", "group:padding", "--json")
    assert outcomes(done) == ["not-comparable"] * 6
    one = fmha("parity", "--list", "--filter", "name:gqa_2_1", "--json").document["cases"][0]
    assert one["problem"] == "-b 2 -H 4 --kv-heads 2 -s 128 --splits 1"
    assert one["argv"][:3] == ["-prec=fp16", "-mode=0", "-b=2"]
    assert one["outcome"] is None


@pytest.mark.slow
@pytest.mark.ci
def test_rows_come_one_by_one_in_order(fmha: Fmha, programs: Path) -> None:
    argv = ("parity", "--upstream-bin", str(programs), *NULL, "--limit", "4")
    rows = [json.loads(line) for line in fmha(*argv, "--jsonl").out.splitlines()]
    assert [row["name"] for row in rows] == ["basic_fp16", "basic_bf16", "longer_seq", "small_batch"]
    table = fmha(*argv).out
    assert "basic: 4 cases: 4 agree-pass" in table
    assert "test_fmha_parity.py (86591de476db)" in table


@pytest.mark.slow
@pytest.mark.ci
def test_times_are_taken_in_turns(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """Seven rounds give a ratio with an interval. The timed runs skip validation and keep every other setting."""
    log = tmp_path / "log"
    argv = ("parity", "--upstream-bin", str(programs), "--backend", "null", "--limit", "1", "--rounds", "7", "--json")
    done = fmha(*argv, STANDIN_LOG=str(log), STANDIN_MS="0.500")
    assert done.code == 0
    times: dict[str, Any] = done.document["cases"][0]["times"]
    assert times["upstream_ns"] == [500_000] * 7
    assert len(times["ours_ns"]) == 7
    ratio = times["ratio"]
    assert ratio["median_ns"] == 500_000
    assert ratio["ratio_ci95"][0] <= ratio["ratio"] <= ratio["ratio_ci95"][1]
    lines = [line.partition("\t")[0].split()[1:] for line in log.read_text().splitlines()]
    assert len(lines) == 8
    assert "-v=1" in lines[0]
    timing = ("-v=0", "-warmup=5", "-repeat=20")
    for line in lines[1:]:
        assert [word for word in line if not word.startswith(("-v=", "-warmup", "-repeat"))] == [
            word for word in lines[0] if not word.startswith(("-v=", "-warmup", "-repeat"))
        ]
        assert set(timing) <= set(line)


@pytest.mark.slow
@pytest.mark.ci
def test_a_case_without_times_keeps_its_outcome(fmha: Fmha, programs: Path) -> None:
    argv = ("parity", "--upstream-bin", str(programs), "--backend", "null", "--limit", "1", "--rounds", "6", "--json")
    done = fmha(*argv, STANDIN="hip-error@v=0;valid")
    assert (outcomes(done), done.code) == (["agree-pass"], 0)
    case = done.document["cases"][0]
    assert case["times"] is None
    assert "did not time" in case["why"][0]


def test_interrupting_keeps_every_row(fmha: Fmha, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C during the third program, two rows are done and the others are marked as not run."""
    from fmha_cli.parity import compare

    count = iter(range(100))
    real = compare.run_program

    def run_program(*args: Any) -> Any:
        if next(count) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(compare, "run_program", run_program)
    done = fmha("parity", "--upstream-bin", str(programs), *NULL, "--json")
    assert done.code == 130
    assert outcomes(done) == ["agree-pass"] * 2 + ["not-run"] * 12
    assert "interrupted" in done.err


def test_the_same_device_for_both() -> None:
    from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart

    environment_for = CkCounterpart().environment

    assert environment_for("cpu", {"A": "1"}) == {"A": "1", "LC_ALL": "C"}
    assert environment_for("hip:2", {})["HIP_VISIBLE_DEVICES"] == "2"
    assert environment_for("hip:1", {"HIP_VISIBLE_DEVICES": "4,6"})["HIP_VISIBLE_DEVICES"] == "6"
    moved = environment_for("hip:1", {"CUDA_VISIBLE_DEVICES": "4,6"})
    assert moved["HIP_VISIBLE_DEVICES"] == "6"
    assert "CUDA_VISIBLE_DEVICES" not in moved


@pytest.mark.slow
@pytest.mark.ci
def test_nothing_is_left_behind(fmha: Fmha, programs: Path, tmp_path: Path) -> None:
    """The programs run in separate folders, which are removed afterwards."""
    before = set(os.listdir(tmp_path / "work")) if (tmp_path / "work").exists() else set()
    fmha("parity", "--upstream-bin", str(programs), *NULL, "--limit", "2")
    assert set(os.listdir(tmp_path / "work")) == before

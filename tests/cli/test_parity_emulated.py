"""``fmha parity`` on an emulated device: both sides run there, findings of either side are shown, nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha, Result
from tests.cli.test_commands import faults_of
from tests.cli.test_parity import outcomes, suite_of
from tests.support.fakes.emulator import ID
from tests.support.fakes.example_programs import write_standins
from tests.support.fixtures.emulated import Sees, Told


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    return write_standins(tmp_path / "bin")


def parity(fmha: Fmha, programs: Path, folder: Path, *more: str, **variables: str) -> Result:
    suite = suite_of(folder, {})
    words = ("parity", "--upstream-bin", str(programs), "--suite", suite, "--backend", "null", "--device", ID)
    return fmha(*words, *more, "--json", **variables)


def test_both_sides_run_there_once_and_nothing_is_timed(
    fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told
) -> None:
    log = tmp_path / "log"
    done = parity(fmha, programs, tmp_path, STANDIN_LOG=str(log))
    assert (outcomes(done), done.code) == (["agree-pass"], 0), done.err
    (case,) = done.document["cases"]
    assert case["times"] is None
    assert case["ours"]["device"] == ID
    assert case["ours"]["measurement"] is None
    theirs = case["upstream"]
    assert (theirs["device"], theirs["ms"], theirs["findings"], len(theirs["executed"])) == (ID, None, [], 1)
    assert theirs["line"].endswith(", valid:y")
    assert " ms" not in theirs["line"]
    assert "TFlops" not in theirs["line"]
    assert theirs["variables"] == {"PAPER_DEVICE": ID}
    assert {"-warmup=0", "-repeat=1"} <= set(theirs["argv"])
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ([], ["lds-race"], "they-fail"),
        (["lds-race"], [], "we-fail"),
        (["lds-race"], ["lds-race"], "agree-fail"),
    ],
)
def test_findings_of_either_side_are_no_pass(
    fmha: Fmha,
    programs: Path,
    tmp_path: Path,
    emulator: Told,
    sees: Sees,
    ours: list[str],
    theirs: list[str],
    outcome: str,
) -> None:
    sees(*ours)
    done = parity(fmha, programs, tmp_path, STANDIN_REPORT=json.dumps(theirs))
    assert (outcomes(done), done.code) == ([outcome], 1)
    (case,) = done.document["cases"]
    assert [f["kind"] for f in case["upstream"]["findings"]] == theirs
    assert [f["kind"] for f in case["ours"]["findings"]] == ours
    assert any("lds-race" in line for line in case["why"])


@pytest.mark.slow
@pytest.mark.ci
def test_findings_are_told_beside_wrong_numbers(
    fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told, sees: Sees
) -> None:
    sees("lds-race")
    done = parity(fmha, programs, tmp_path, STANDIN="wrong", STANDIN_REPORT='["lds-race"]')
    assert (outcomes(done), done.code) == (["agree-fail"], 1)
    theirs = done.document["cases"][0]["upstream"]
    assert "the emulator found lds-race" in theirs["why"]
    assert "Incorrect results" in theirs["why"]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("report", "findings"), [("none", None), ("null", [])], ids=["absent", "without-launches"])
def test_a_program_without_a_report_of_a_launch_did_not_run_there(
    fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told, report: str, findings: list[str] | None
) -> None:
    """``valid:y`` from a program that found another device proves nothing about this one."""
    done = parity(fmha, programs, tmp_path, STANDIN_REPORT=report)
    assert (outcomes(done), done.code) == (["they-fail"], 1)
    (case,) = done.document["cases"]
    assert (case["upstream"]["said"], case["upstream"]["findings"]) == ("unreadable", findings)
    assert any("no report of a launch" in line for line in case["why"])


@pytest.mark.slow
@pytest.mark.ci
def test_a_case_can_be_seen_again_with_what_its_program_had(
    fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told
) -> None:
    suite = suite_of(tmp_path, {})
    words = ("parity", "--upstream-bin", str(programs), "--suite", suite, "--backend", "null", "--device", ID)
    done = fmha(*words, STANDIN_REPORT='["lds-race"]')
    assert f"again, upstream: PAPER_DEVICE={ID} {programs}" in " ".join(done.out.split())


@pytest.mark.slow
@pytest.mark.ci
def test_nothing_is_left_of_a_program_that_died(fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    done = parity(fmha, programs, tmp_path, STANDIN="segv", STANDIN_LITTER="1", TMPDIR=str(place))
    assert (outcomes(done), done.code) == (["crashed"], 6)
    assert [left.name for left in place.iterdir() if "litter" in left.name or "parity" in left.name] == []


def test_rounds_of_timing_are_refused(fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told) -> None:
    done = parity(fmha, programs, tmp_path, "--rounds", "3")
    assert done.code == 2
    assert "error[Z004]" in done.err
    assert faults_of(done.document) == []
    assert emulator("build") == []


def test_an_unknown_device_is_an_error_before_the_first_case(
    fmha: Fmha, programs: Path, tmp_path: Path, emulator: Told
) -> None:
    suite = suite_of(tmp_path, {})
    done = fmha("parity", "--upstream-bin", str(programs), "--suite", suite, "--device", "emu:gfx999", "--json")
    assert done.code == 4
    assert "error[Z002]" in done.err

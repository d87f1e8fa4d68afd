"""The runner of the checks: which cases run, which are skipped, what a journal keeps, and when a run fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checks import command, runner
from tests.checks.check import Check, Row, revision
from tests.checks.runner import Line, Wanted, add, digest_of, read, run
from tools.result_data import read_json

NAMES = ("sm_80 fwd", "sm_80 bwd", "sm_90 fwd")
JOURNAL = "journal.jsonl"


def row_of(case: str) -> Row:
    return {"case": case, "verdict": "PASSED"}


class Counted:
    """A check of three cases that counts its runs, and gives prepared answers."""

    def __init__(self, **verdicts: str) -> None:
        self.carried_out: list[str] = []
        self.verdicts, self.version = verdicts, 1
        self.check: Check[str] = Check(
            cases=lambda: NAMES,
            carry_out=self.rows,
            depends=lambda case: self.version,
            by=("case", "verdict"),
            summarise=lambda rows: f"{len(rows)} rows",
        )

    def rows(self, case: str) -> Iterator[Row]:
        self.carried_out.append(case)
        verdict = self.verdicts.get(case.replace(" ", "_"), "PASSED")
        if verdict == "REFUSED":
            raise ValueError("there is no compiler")
        yield {"case": case, "verdict": verdict}
        yield {"case": case, "verdict": "PASSED"}


def test_what_was_carried_out_stands(tmp_path: Path) -> None:
    counted = Counted()
    first, second = (run(counted.check, Wanted(), tmp_path / JOURNAL) for _ in range(2))
    assert counted.carried_out == list(NAMES)
    assert (first.carried_out, first.stood, second.carried_out, second.stood) == (3, 0, 0, 3)
    assert first.rows == second.rows
    assert len(second.rows) == 6
    assert first.good
    assert second.good


def test_another_dependency_another_case_and_again_are_carried_out_anew(tmp_path: Path) -> None:
    counted = Counted()
    run(counted.check, Wanted(), tmp_path / JOURNAL)
    counted.version = 2
    assert run(counted.check, Wanted(), tmp_path / JOURNAL).carried_out == 3
    assert run(counted.check, Wanted(again=True), tmp_path / JOURNAL).carried_out == 3
    assert digest_of(counted.check, "a") != digest_of(counted.check, "b")
    assert len(read(tmp_path / JOURNAL)) == 3, "of each case the last line counts"


def test_a_row_that_is_not_good_is_made_again_and_fails_the_run(tmp_path: Path) -> None:
    counted = Counted(sm_80_bwd="WRONG")
    for _ in range(2):
        outcome = run(counted.check, Wanted(), tmp_path / JOURNAL)
        assert (outcome.bad, outcome.good) == (["sm_80 bwd"], False)
    assert counted.carried_out == [*NAMES, "sm_80 bwd"]
    known = replace(counted.check, stands=lambda row: True)
    outcome = run(known, Wanted(), tmp_path / JOURNAL)
    assert (outcome.stood, outcome.good) == (3, False)
    assert run(counted.check, Wanted(("sm_90",)), tmp_path / JOURNAL).good, "nobody asked for the case that is not good"


def test_a_case_that_raises_is_refused_and_tried_again(tmp_path: Path) -> None:
    counted = Counted(sm_80_bwd="REFUSED")
    outcome = run(counted.check, Wanted(), tmp_path / JOURNAL)
    assert outcome.refused == {"sm_80 bwd": "ValueError: there is no compiler"}
    assert not outcome.good
    assert set(read(tmp_path / JOURNAL)) == {"sm_80 fwd", "sm_90 fwd"}
    counted.verdicts.clear()
    assert run(counted.check, Wanted(), tmp_path / JOURNAL).carried_out == 1


def test_a_case_whose_dependencies_cannot_be_found_is_refused_and_spoils_no_other(tmp_path: Path) -> None:
    def depends(case: str) -> object:
        return {"sm_80 fwd": 1, "sm_90 fwd": 2}[case]

    outcome = run(replace(Counted().check, depends=depends), Wanted(), tmp_path / JOURNAL)
    assert outcome.refused == {"sm_80 bwd": "KeyError: 'sm_80 bwd'"}
    assert (outcome.carried_out, outcome.good) == (2, False)


def test_the_limit_leaves_the_others_to_the_next_run(tmp_path: Path) -> None:
    counted = Counted()
    for left in (NAMES[1:], NAMES[2:], ()):
        assert tuple(run(counted.check, Wanted(limit=1), tmp_path / JOURNAL).left) == left
    assert counted.carried_out == list(NAMES)


def test_nothing_that_was_asked_for_is_no_success(tmp_path: Path) -> None:
    assert not run(Counted().check, Wanted(("no such case",)), tmp_path / JOURNAL).good


def test_rows_of_cases_that_are_not_asked_for_stay(tmp_path: Path) -> None:
    counted = Counted()
    run(counted.check, Wanted(), tmp_path / JOURNAL)
    assert [line.name for line in run(counted.check, Wanted(("sm_90",)), tmp_path / JOURNAL).lines] == list(NAMES)


@pytest.mark.parametrize(
    ("select", "meant"),
    [((), NAMES), (("fwd sm_80",), NAMES[:1]), (("bwd", "sm_90"), NAMES[1:]), (("gfx",), ())],
)
def test_a_text_selects_the_names_that_hold_all_its_words(select: tuple[str, ...], meant: tuple[str, ...]) -> None:
    assert tuple(Wanted(select).of(NAMES)) == meant


def test_a_sample_is_drawn_by_its_seed() -> None:
    names = [str(number) for number in range(100)]
    drawn = [Wanted(sample=5, seed=seed).of(names) for seed in (0, 0, 1)]
    assert len(drawn[0]) == 5
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(drawn[0], key=int)


def test_a_line_that_was_cut_short_is_left_out_and_spoils_no_other(tmp_path: Path) -> None:
    journal = tmp_path / "folder" / JOURNAL
    one = Line("a", "digest", "revision", 1.5, ({"verdict": "PASSED"},))
    add(journal, one)
    with journal.open("a", encoding="utf-8") as file:
        file.write('{"name": "b", "dig')
    add(journal, replace(one, name="c"))
    assert read(journal) == {"a": one, "c": replace(one, name="c")}


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    doubled = replace(Counted().check, cases=lambda: ("a", "a"))
    with pytest.raises(ValueError, match="the name of another"):
        run(doubled, Wanted(), tmp_path / JOURNAL)


@pytest.mark.slow
@pytest.mark.ci
def test_several_processes_carry_out_the_cases_in_order(tmp_path: Path) -> None:
    check = replace(Counted().check, carry_out=row_of)
    outcome = run(check, Wanted(jobs=2), tmp_path / JOURNAL)
    assert [row["case"] for row in outcome.rows] == list(NAMES)


def killed_once(case: str) -> Row:
    """A case that ends its process, unless a file says that it did so before.

    Only one of a run may: another could be cut short before its first end, and be alone when it comes.
    """
    if Path(case).name == "killed b" and not Path(case).exists():
        Path(case).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return row_of(case)


def always_killed(case: str) -> Row:
    if "killed" in Path(case).name:
        os.kill(os.getpid(), signal.SIGKILL)
    return row_of(case)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(120)
def test_processes_are_replaced_and_every_case_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PER_PROCESS", 2)
    names = tuple(f"case {number}" for number in range(9))
    outcome = run(replace(Counted().check, carry_out=row_of, cases=lambda: names), Wanted(jobs=2), tmp_path / JOURNAL)
    assert [row["case"] for row in outcome.rows] == list(names)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(120)
@pytest.mark.parametrize("carry_out", [killed_once, always_killed])
def test_a_killed_process_costs_no_case_but_its_own(tmp_path: Path, carry_out: Callable[[str], Row]) -> None:
    names = tuple(str(tmp_path / name) for name in ("a", "killed b", "c", "killed d", "e", "f"))
    check = replace(Counted().check, carry_out=carry_out, cases=lambda: names)
    outcome = run(check, Wanted(jobs=2), tmp_path / JOURNAL)
    lost = [name for name in names if "killed" in Path(name).name and carry_out is always_killed]
    assert outcome.refused == dict.fromkeys(lost, runner.KILLED)
    assert [row["case"] for row in outcome.rows] == [name for name in names if name not in lost]
    assert outcome.good == (not lost)


def main(monkeypatch: pytest.MonkeyPatch, counted: Counted, tmp_path: Path, *words: str) -> int:
    monkeypatch.setattr(command, "load", lambda name: counted.check)
    return command.main(["emulator_check", "--journal", str(tmp_path / JOURNAL), *words])


def test_the_command_prints_the_summary_or_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, Counted(), tmp_path, "--select", "fwd") == 0
    assert capsys.readouterr().out.splitlines() == [
        "| rows | PASSED |", "|---|---|", "| sm_80 fwd | 2 |", "| sm_90 fwd | 2 |", "| **all** | 4 |", "", "4 rows",
    ]  # fmt: skip
    assert main(monkeypatch, Counted(), tmp_path, "--json") == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["case"] for line in printed.out.splitlines()] == [name for name in NAMES for _ in range(2)]
    assert "1 cases carried out, 2 stood, 0 left; 0 not good" in printed.err


def test_the_command_fails_and_names_what_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, Counted(sm_80_bwd="WRONG", sm_90_fwd="REFUSED"), tmp_path) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == '- {"case": "sm_80 bwd", "verdict": "WRONG"}'
    said = printed.err
    assert "1 not good: sm_80 bwd" in said
    assert "refused: sm_90 fwd: ValueError: there is no compiler" in said


@pytest.mark.slow
@pytest.mark.ci
def test_rows_are_written_into_the_results_or_where_the_check_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data of a page names the revisions that made it."""
    (tmp_path / "results" / "data").mkdir(parents=True)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    counted = Counted()
    assert main(monkeypatch, counted, tmp_path, "--select", "bwd", "--write") == 0
    path = tmp_path / "results" / "data" / "emulator_check.json.xz"
    document = read_json(path)
    assert (document["schema"], document["check"], len(document["rows"])) == ("fmha.check/1", "emulator_check", 2)
    assert document["revisions"] == {revision(): 1}
    path.unlink()
    kept: list[Row] = []
    counted.check = replace(counted.check, keep=kept.extend)
    assert main(monkeypatch, counted, tmp_path, "--write") == 0
    assert len(kept) == 6
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.ci
def test_a_check_of_a_plugins_launches_runs_where_its_tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[dict[str, str]] = []

    def started(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[bytes]:
        ran.append(env)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(command.subprocess, "run", started)
    assert command.main(["gluon_example", "--list"]) == 3
    assert str(command.ROOT / "plugins" / "fmha-nvptx-emu") in ran[0]["PYTHONPATH"].split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", ran[0]["PYTHONPATH"])
    assert command.with_plugin("gluon_example", ()) is None
    assert command.with_plugin("emulator_check", ()) is None


def test_the_cases_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    counted = Counted()
    assert main(monkeypatch, counted, tmp_path, "--list", "--select", "bwd") == 0
    assert capsys.readouterr().out == "sm_80 bwd\n"
    assert not counted.carried_out


@pytest.mark.sampled(5, ci="all")
@pytest.mark.parametrize("name", command.names())
def test_a_check_says_what_it_is_and_names_its_cases(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check whose packages are missing is left out."""
    assert command.names()[name]
    if name in command.PLUGIN_TESTS:
        monkeypatch.syspath_prepend(command.ROOT / command.PLUGIN_TESTS[name])
    try:
        check = command.load(name)
        names = [check.name(case) for case in check.cases()]
    except ModuleNotFoundError as fault:
        pytest.skip(f"not installed: {fault.name}")
    assert names
    assert len(set(names)) == len(names)

"""The benchmark that interleaves the timing of two revisions."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cpu_turns
import numpy as np
import pytest
from revisions import ROOT, require_from, tree_of

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="this machine has no git")
FLAGS = "-H 1 -s 4 -d 8 --dtype fp32"


class Answers(cpu_turns.Served):
    """A revision that needs the same seconds each time, and whose output is given."""

    def __init__(self, output: float, seconds: str, first: str = "ready") -> None:
        self.output, self.seconds, self.first, self.told = output, seconds, first, list[str]()

    def ask(self, line: str) -> str:
        if line == "again":
            return self.seconds
        path, _, flags = line.partition(" ")
        assert flags == FLAGS
        np.save(path, np.full(4, self.output, np.float32))
        return self.first

    def tell(self, line: str) -> None:
        self.told.append(line)


def answered(two: list[Answers], folder: Path) -> cpu_turns.Turns | str:
    return cpu_turns.turns(FLAGS, two, folder, 6, random.Random(0))


def test_the_ratio_is_this_checkout_over_the_other(tmp_path: Path) -> None:
    two = [Answers(1, "0.5"), Answers(1, "0.25")]
    found = answered(two, tmp_path)
    assert isinstance(found, cpu_turns.Turns)
    assert found.row() == ["250.000", "x0.500", "0.500-0.500"]
    assert [one.told for one in two] == [["next"], ["next"]]
    assert cpu_turns.Turns((1, 2), (1, 1)).row() == ["1000.000", "x0.750", ""], "two rounds have no interval"


@pytest.mark.parametrize("wrong", [1.001, float("nan"), float("inf")])
def test_outputs_that_differ_are_not_timed(tmp_path: Path, wrong: float) -> None:
    two = [Answers(1, "never asked"), Answers(wrong, "never asked")]
    assert str(answered(two, tmp_path)).startswith("outputs differ by ")
    assert [one.told for one in two] == [["next"], ["next"]]


def test_a_problem_that_one_refuses_is_told(tmp_path: Path) -> None:
    two = [Answers(1, "", "refused UsageError"), Answers(1, "")]
    assert answered(two, tmp_path) == "the other revision refused UsageError"
    assert [one.told for one in two] == [[], ["next"]], "only one waits for launches"


@pytest.mark.parametrize("module", ["", "/elsewhere/fmha_cli/__init__.py"])
def test_modules_of_another_tree_are_refused(tmp_path: Path, module: str) -> None:
    require_from(tmp_path, str(tmp_path / "fmha_cli" / "__init__.py"))
    with pytest.raises(RuntimeError, match="was imported, which is not of"):
        require_from(tmp_path, module)


def test_a_regime_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu_turns.main(["HEAD", "--only", "fp5"])
    assert "no regime or problem has 'fp5'" in capsys.readouterr().err


@needs_git
def test_a_revision_that_is_not_there_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="git has no revision 'no-such-thing' in "):
        cpu_turns.main(["no-such-thing", "--rounds", "6"])
    assert capfd.readouterr().out == ""


def test_the_table_of_cells_refuses_it_too() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_attention.py"), "--only", "fp5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "no regime contains 'fp5'; there are: forward fp32 full, " in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.ci
@needs_git
def test_two_trees_are_served(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """HEAD as the other tree, as it is and with an output that is a hundredth too large."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is not a git checkout")
    arguments = ["HEAD", "--only", "one small call", "--rounds", "6"]
    assert cpu_turns.main(arguments) == 0
    *_, first, second, empty, mean = capsys.readouterr().out.splitlines()
    assert empty == ""
    assert mean.startswith("geometric mean of 2 problems: x")
    for row, dtype in zip((first, second), ("fp32", "bf16"), strict=True):
        flags, ms, ratio, interval = (cell.strip() for cell in row.strip("|").split("|"))
        assert flags == f"`-H 1 -s 64 -d 64 --dtype {dtype}`"
        assert float(ms) > 0 < float(ratio.removeprefix("x"))
        assert "-" in interval

    @contextmanager
    def wrong(revision: str) -> Iterator[Path]:
        with tree_of(revision) as tree:
            contenders = tree / "benchmarks" / "contenders.py"
            text = contenders.read_text("utf-8")
            changed = text.replace('np.array(arena.view("o"))', 'np.array(arena.view("o")) * 1.01')
            assert changed != text
            contenders.write_text(changed, "utf-8")
            yield tree

    monkeypatch.setattr(cpu_turns, "tree_of", wrong)
    assert cpu_turns.main(arguments) == 1
    assert capsys.readouterr().out.count("outputs differ by") == 1, "a hundredth of O is no wrong result in bf16"

"""``--watch``: what starts a round, what ends the command, and what it cannot be combined with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from fmha_cli.cli import delivery, on_change, run
from fmha_cli.cli.call import CliCall
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from tests.cli.conftest import Fmha
from tests.support.child_signals import hear_signals
from tests.support.fakes import tree_backend
from tests.support.fixtures.tree import tree
from tests.support.paths import ROOT

pytestmark = pytest.mark.promise(
    "An edited tree is built by the rules of its revision, marked, and compared with the old one."
)

__all__ = ["tree"]

K = tree_backend.KERNEL.name
SMALL = ("--backend", "tree", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32", "--budget", "0.02")
Walked = Callable[..., list[int]]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Walked:
    """``walked(act, act)``: what happens in each round, in place of the walk; the last round is interrupted."""

    def play(*acts: Callable[[], int]) -> list[int]:
        rounds: list[int] = []

        def walk(call: CliCall) -> int:
            rounds.append(len(rounds) + 1)
            return acts[len(rounds) - 1]()

        monkeypatch.setattr(run, "run_points", walk)
        return rounds

    monkeypatch.setattr(on_change, "POLL_S", 0.01)
    return play


def ends() -> int:
    raise KeyboardInterrupt


def writes(path: Path, text: str, code: int = 0) -> Callable[[], int]:
    """A round during which a file is written: the next one follows without another change."""

    def act() -> int:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return code

    return act


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
def test_every_change_starts_a_round(fmha: Fmha, tree: Path, walked: Walked) -> None:
    def removes() -> int:
        (tree / "deep/other.h").unlink()
        return 1  # a row that failed does not end the watch

    kernel = tree / "kernel.h"
    rounds = walked(writes(kernel, "longer text\n"), writes(tree / "new.h", "x"), removes, ends)
    done = fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch")
    assert (done.code, rounds) == (130, [1, 2, 3, 4])
    said = done.err.splitlines()
    assert f"watching 2 files of {tree}; Ctrl-C ends" in said[0]
    assert said[1:4] == ["round 2: kernel.h changed", "round 3: new.h is new", "round 4: deep/other.h is gone"]


def test_an_interrupted_round_ends_it(fmha: Fmha, tree: Path, walked: Walked) -> None:
    rounds = walked(writes(tree / "kernel.h", "longer text\n", 130))
    assert fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch").code == 130
    assert rounds == [1]


def test_errors_of_later_rounds_are_told(fmha: Fmha, tree: Path, walked: Walked) -> None:
    def fails() -> int:
        (tree / "kernel.h").write_text("third\n")
        raise EnvironmentProblem("half a tree", code="S105")

    walked(writes(tree / "kernel.h", "second text\n"), fails, ends)
    done = fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch")
    assert done.code == 130
    assert "error[S105]: half a tree" in done.err
    assert "round 3: kernel.h changed" in done.err


@pytest.mark.parametrize(("fault", "code"), [(EnvironmentProblem("x", code="S105"), 4), (InternalError("x"), 70)])
def test_an_error_of_the_first_round_ends_it(
    fmha: Fmha, tree: Path, walked: Walked, fault: Exception, code: int
) -> None:
    def fails() -> int:
        raise fault

    walked(fails)
    assert fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch").code == code


def test_a_bug_in_a_later_round_ends_it(fmha: Fmha, tree: Path, walked: Walked) -> None:
    def fails() -> int:
        raise InternalError("a bug")

    walked(writes(tree / "kernel.h", "second text\n"), fails)
    assert fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch").code == 70


def test_what_no_kernel_includes_starts_no_round(tree: Path) -> None:
    (watched,) = [on_change.Tree(tree_backend.TreeBackend(), str(tree))]
    before = on_change._seen([watched])
    for name in ("README.md", ".kernel.h.swp", "kernel.h~", "build.log"):
        (tree / name).write_text("x")
    assert on_change._seen([watched]) == before


def test_a_tree_that_is_gone_for_a_moment(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version control takes a folder away and brings it back; the round starts when all is there."""
    watched = on_change.Tree(tree_backend.TreeBackend(), str(tree))
    before, elsewhere = on_change._seen([watched]), tree.with_name("elsewhere")
    steps = iter(
        [
            lambda: tree.rename(elsewhere),
            lambda: elsewhere.rename(tree),
            lambda: (tree / "kernel.h").write_text("new text\n"),
            lambda: (tree / "new.h").write_text("saved a little later\n"),
            lambda: None,
        ]
    )
    monkeypatch.setattr(on_change.time, "sleep", lambda seconds: next(steps)())
    now = on_change._settled([watched], before)
    assert on_change._changes(before, now) == ["kernel.h changed", "new.h is new"]


@pytest.mark.parametrize(
    ("more", "error", "code"),
    [
        (("--json",), "--watch and --json", 2),
        (("--csv",), "--watch and --csv", 2),
        (("--resume", "j"), "--watch and --resume", 2),
        (("--journal", "j"), "--watch and --journal", 2),
    ],
)
def test_what_belongs_to_one_round_is_refused(
    fmha: Fmha, tree: Path, walked: Walked, more: tuple[str, ...], error: str, code: int
) -> None:
    rounds = walked()
    done = fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch", *more)
    assert (done.code, rounds) == (code, [])
    assert error in done.err


def test_the_tree_must_be_there(fmha: Fmha, tree: Path, walked: Walked) -> None:
    walked()
    done = fmha("run", "-s", "8", "--backend", "cpu", "--watch")
    assert done.code == 2
    assert (
        "--ck-home DIR or --fa-home DIR or --fa3-home DIR or --xf-home DIR or --tree-home DIR, or --ab K K@DIR"
        in done.err
    )
    assert fmha("bench", *SMALL, "--ab", K, f"{K}@{tree}/none", "--watch").code == 4
    assert fmha("run", "-s", "8", "--backend", "cpu", "--watch", "--ck-home", str(tree)).code == 4


def test_a_resumed_round_is_one_round() -> None:
    line = delivery.resume_line(("run", "--watch", "--ck-home", "d", "-s", "8,16"), "j")
    assert line == "fmha run --ck-home d -s 8,16 --resume j"


def until(stream: IO[str] | None, word: str) -> list[str]:
    """The lines up to the one with a word."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError("".join(lines))


@pytest.mark.slow
@pytest.mark.ci
def test_a_process_without_a_terminal(tree: Path, tmp_path: Path) -> None:
    """The whole way: edit, rebuild, judge; Ctrl-C is exit 130, and the rows of every round are on stdout."""
    words = [sys.executable, "-m", "fmha_cli", "bench", *SMALL, "--ab", K, f"{K}@{tree}", "--watch", "--jsonl"]
    path = os.pathsep.join((str(tmp_path / "tree-site"), str(ROOT)))
    with subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_signals,
    ) as process:
        until(process.stderr, "watching 2 files")
        (tree / "kernel.h").write_text("wrong now\n")
        until(process.stderr, "round 2: kernel.h changed")
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
    assert process.returncode == 130
    firsts, rows = lines[::3], [line for number, line in enumerate(lines) if number % 3]
    assert all("fmha.environment/1" in first for first in firsts)  # each round begins with its environment
    assert ['"verdict":"WRONG"' in row.replace(" ", "") for row in rows] == [False, False, False, True]
    assert ['"files":1' in row.replace(" ", "") for row in rows] == [False, False, False, True]

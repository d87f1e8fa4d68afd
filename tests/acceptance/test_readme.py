"""The README's command blocks work as promised: the tour runs unchanged."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.processes import CHECKOUT, environment

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BLOCKS = _BLOCK.findall((CHECKOUT / "README.md").read_text("utf-8"))
COMMANDS = [text for language, text in BLOCKS if language == "bash"]
INSTALL, TOUR = COMMANDS[:2], COMMANDS[2:]
SCRIPTS = [text for language, text in BLOCKS if language == "python"]


def executed(argv: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in an empty folder, with ``fmha`` on the search path."""
    programs, work = folder / "bin", folder / "work"
    programs.mkdir()
    work.mkdir()
    shim = programs / "fmha"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fmha_cli "$@"\n', "utf-8")
    shim.chmod(0o755)
    env = environment()
    env["PATH"] = f"{programs}:{env['PATH']}"
    return subprocess.run(
        argv, cwd=work, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def test_the_first_two_blocks_are_the_main_job_and_the_tests() -> None:
    """``.ci/run`` runs both blocks unchanged in new environments."""
    main_job, tests = (block.strip() for block in INSTALL)
    assert main_job == "pip install . && fmha run --batch 2 --seqlen 4096 --hdim 128 --causal"
    install, *rest = tests.split(" && ")
    assert install == 'pip install -e ".[test]"'
    assert rest[-1].startswith("python -m pytest")
    assert BLOCKS[0][0] == BLOCKS[1][0] == "bash", "they come first"


def test_the_tour_is_there() -> None:
    assert {shlex.split(line)[1] for block in TOUR for line in block.splitlines()} == {
        "bench",
        "explain",
        "list-kernels",
        "plan",
        "validate",
    }
    assert len(SCRIPTS) == 2
    assert {language for language, _ in BLOCKS} == {"bash", "python"}


@pytest.mark.parametrize("block", TOUR, ids=lambda text: shlex.split(text)[1])
def test_a_command_of_the_tour(block: str, tmp_path: Path) -> None:
    done = executed(["bash", "-ec", block], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout or any((tmp_path / "work").iterdir())


def test_the_python_example_on_arrays(tmp_path: Path) -> None:
    done = executed([sys.executable, "-c", SCRIPTS[1]], tmp_path)
    assert done.stdout == "PASSED (1, 8, 256, 64) (1, 8, 256)\n", done.stderr


def test_the_python_example(tmp_path: Path) -> None:
    done = executed([sys.executable, "-c", SCRIPTS[0]], tmp_path)
    assert done.returncode == 0, done.stderr
    verdict, chosen, count = done.stdout.splitlines()
    assert verdict.split()[0] == "PASSED"
    assert len(chosen) == 64
    assert int(count) > 0

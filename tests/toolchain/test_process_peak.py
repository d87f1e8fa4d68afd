"""The peak memory of a program is its own or unknown. It is never the peak of the process that started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.system.processes import Used
from fmha_cli.toolchain.process import _peak

CHILD = """
import os, sys
from pathlib import Path
from fmha_cli.toolchain.process import TimeLimits, run_group
own = bytearray(int(sys.argv[1]) << 20)
with open(os.devnull, "wb") as sink:
    grown = f"bytearray({sys.argv[2]} << 20)"
    ended = run_group([sys.executable, "-c", grown], cwd=Path.cwd(), env={}, output=sink, limits=TimeLimits(600))
assert ended.returncode == 0
print(ended.peak_bytes)
"""


def peak_of(own: int, grown: int, folder: Path) -> str:
    """The peak that a process of ``own`` MiB reports for a program of ``grown`` MiB.

    A shell starts that process, because Linux hands the peak of a process down to its children. A large test process
    would otherwise exceed the program that is measured.
    """
    argv = ["/bin/sh", "-c", '"$@" & wait $!', "sh", sys.executable, "-c", CHILD, str(own), str(grown)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, cwd=folder).stdout.strip()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("ballast", [0, 500])
def test_a_program_larger_than_its_parent_is_measured(ballast: int, tmp_path: Path) -> None:
    held = bytearray(ballast << 20)
    assert 150 << 20 <= int(peak_of(1, 150, tmp_path)) < 400 << 20
    del held


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone hands the parent's peak down")
def test_a_program_smaller_than_its_parent_is_unknown(tmp_path: Path) -> None:
    assert peak_of(400, 1, tmp_path) == "None"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone hands the parent's peak down")
@pytest.mark.parametrize(("figure", "known"), [(1_000_000, False), (1_010_000, False), (1_200_000, True)])
def test_a_figure_within_the_slack_of_the_parents_is_unknown(figure: int, known: bool) -> None:
    used = Used(0.0, figure << 10)
    assert _peak(used, 1_000_000 << 10) == (figure << 10 if known else None)

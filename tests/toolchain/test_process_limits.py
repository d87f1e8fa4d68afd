"""Limits of programs: processor time of a whole group, and time from its start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fmha_cli.system.processes import group_seconds
from fmha_cli.toolchain import process
from fmha_cli.toolchain.asking import ProgramAnswer
from fmha_cli.toolchain.process import Over, ProgramEnd, TimeLimits, run_group

FAR = 600.0
SPIN = "while :; do :; done"
SPEND = f"""{sys.executable} -c 'import time
while time.process_time() < 0.5: pass'"""
"""Spends half a second of processor time and ends: a count of turns would end before a limit on a fast processor."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the processor time of a session")


def run(script: str, folder: Path, **limits: float) -> ProgramEnd:
    with (folder / "out").open("wb") as sink:
        return run_group(
            ["/bin/sh", "-c", script], cwd=folder, env=dict(os.environ), output=sink, limits=TimeLimits(**limits)
        )


@linux
def test_a_program_that_waits_spends_nothing(tmp_path: Path) -> None:
    ended = run("sleep 1", tmp_path, wall_s=FAR, cpu_s=0.2)
    assert (ended.over, ended.timed_out, ended.returncode) == (None, False, 0)
    assert ended.seconds > 0.2


@linux
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    "script",
    [
        SPIN,
        f"sh -c '{SPIN}' & wait",  # a child spends it
        f"{SPEND}; sleep 600",  # a child that has ended spent it
    ],
    ids=["itself", "a-child", "an-ended-child"],
)
def test_a_program_that_computes_is_killed(script: str, tmp_path: Path) -> None:
    ended = run(script, tmp_path, wall_s=FAR, cpu_s=0.2)
    assert (ended.over, ended.timed_out) == (Over.CPU, True)
    assert ended.seconds < FAR


def test_a_program_that_waits_for_ever_is_killed(tmp_path: Path) -> None:
    ended = run("sleep 600", tmp_path, wall_s=0.3, cpu_s=FAR)
    assert ended.over is Over.WALL


def test_where_the_system_does_not_tell_all_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "group_seconds", lambda pid: None)
    assert run("sleep 600", tmp_path, wall_s=FAR, cpu_s=0.3).over is Over.CPU


@linux
def test_the_time_of_a_session_is_that_of_its_own_processes() -> None:
    assert group_seconds(2**30) == 0
    here = group_seconds(os.getsid(0))
    assert here is not None
    used = os.times()
    assert here >= used.user + used.system - 0.1


def test_a_message_says_which_limit() -> None:
    limits = TimeLimits.of_compile(600)
    assert limits == TimeLimits(wall_s=6000, cpu_s=600)
    assert limits.text(Over.CPU) == "its limit of 600 s of processor time"
    assert limits.text(Over.WALL) == "its limit of 6000 s from its start"
    assert (
        ProgramAnswer(False, "", limits.text(Over.CPU)).fault == "was killed after its limit of 600 s of processor time"
    )

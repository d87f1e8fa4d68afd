"""Workers that are killed and stopped at any moment, and a driver that is killed: no row is lost, doubled or overlapping."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest

from tests.support.live_processes import gone
from tests.support.swept import kill, nothing_lost, start, sweep_of

if sys.platform != "linux":
    pytest.skip("processes are found in /proc", allow_module_level=True)

FEW = ("-b", "1,2", "-H", "1", "-s", "1:10:+1")
"""20 rows."""

SMALL = ("-b", "1,2", "-H", "1,2", "-s", "1:10:+1")
"""40 rows."""

LARGE = ("-b", "1,2,3,4,5", "-H", "1,2,3,4,5", "-s", "1:40:+1")
"""1,000 rows."""


def swept_with_kills(folder: Path, flags: tuple[str, ...], rows: int, kills: int, devices: int, seed: int) -> str:
    """Kill a worker after every few rows; what the sweep said."""
    draw = random.Random(seed)
    swept = start(folder, *sweep_of(*flags), devices=devices)
    killed = 0
    for number, _ in enumerate(swept.rows(), 1):
        if killed < kills and number >= (killed + 1) * rows // (kills + 2) and (workers := swept.workers):
            killed += kill(draw.choice(workers))
    code, said = swept.end()
    assert (code, killed) == (0, kills), said
    nothing_lost(swept, rows)
    assert {row["verdict"] for row in swept.lines} == {"PASSED"}
    return said


@pytest.mark.promise("A row of a sweep is executed at least once and recorded exactly once, whatever dies.")
@pytest.mark.slow
@pytest.mark.ci
def test_killed_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    said = swept_with_kills(tmp_path, FEW, rows=20, kills=2, devices=2, seed=3)
    assert "2 workers lost" in said
    assert "SIGKILL" in said


@pytest.mark.promise("A row of a sweep is executed at least once and recorded exactly once, whatever dies.")
@pytest.mark.slow
def test_twenty_killed_workers_of_a_thousand_rows(tmp_path: Path) -> None:
    said = swept_with_kills(tmp_path, LARGE, rows=1000, kills=20, devices=4, seed=20)
    assert "20 workers lost" in said


@pytest.mark.promise(
    "A row of a sweep is executed at least once and recorded exactly once, whatever dies.",
    "A killed or interrupted sweep leaves no worker behind, and only its own invocation resumes it.",
)
@pytest.mark.slow
@pytest.mark.ci
def test_a_killed_driver_is_resumed(tmp_path: Path) -> None:
    first = start(tmp_path, *sweep_of(*SMALL), devices=2)
    list(first.rows(12))
    workers = first.workers
    kill(first.process.pid)
    first.process.wait(10)
    assert len(workers) == 2
    assert all(gone(pid) for pid in workers)
    list(first.rows())
    assert len(first.lines) >= 12
    second = start(tmp_path, "sweep", "--resume", first.run[:8], devices=2)
    code, said = second.end()
    assert code == 0, said
    nothing_lost(second, 40)
    again = {row["row"]: row for row in second.lines}
    assert {row["row"]: again[row["row"]] for row in first.lines} == {row["row"]: row for row in first.lines}


@pytest.mark.promise("A killed or interrupted sweep leaves no worker behind, and only its own invocation resumes it.")
def test_ctrl_c_keeps_what_is_done_and_tells_every_row(tmp_path: Path) -> None:
    swept = start(tmp_path, *sweep_of(*SMALL), devices=2)
    list(swept.rows(8))
    swept.process.send_signal(signal.SIGINT)
    code, said = swept.end()
    assert code == 130
    assert len({row["row"] for row in swept.lines}) == 40
    assert "NOT_RUN" in {row["verdict"] for row in swept.lines}
    assert f"fmha sweep --resume {swept.run[:8]}" in said

"""``kill -9`` hits the parent at 20 random points; the next complete run has no missing or duplicate row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fmha_cli.domain.verdict import Verdict

HERE = Path(__file__).resolve().parent
KILLS, ROWS = 20, 130


def test_no_row_is_missing_or_doubled_after_twenty_kills(tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), *(entry or os.getcwd() for entry in sys.path)])
    command = [sys.executable, str(HERE / "killed_sweep.py"), str(tmp_path), str(KILLS), str(ROWS), "1"]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True)
    report = json.loads(ended.stdout)
    assert report["status"] == 0
    assert sorted(report["done"]) == [f"{n:024x}" for n in range(ROWS)]
    journal = (tmp_path / "journal").read_text("utf-8").splitlines()
    assert sum('"event":"done"' in line for line in journal) == ROWS
    bad = {7: Verdict.CRASHED, 8: Verdict.WRONG, 23: Verdict.OUT_OF_BOUNDS, 40: Verdict.CRASHED}
    assert report["verdicts"] == [bad.get(n, Verdict.PASSED) for n in range(ROWS)]
    assert len(set(report["points"])) > KILLS // 3, "the kills hit too few different points"
    assert any(count > 1 for count in report["attempts"].values()), "no kill hit a row in flight"
    assert report["orphans"] == []

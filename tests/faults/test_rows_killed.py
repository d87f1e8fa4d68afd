"""``kill -9`` hits the parent at random points; the next complete run has no missing or duplicate row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.domain.verdict import Verdict
from tests.support.generators.journals import keys_in
from tests.support.paths import ROOT, importable

KILLED = ROOT / "tests" / "support" / "children" / "killed_sweep.py"


@pytest.mark.promise("Exit code 130: interrupted; no row is lost, and the run can be resumed.")
@pytest.mark.parametrize(("kills", "rows"), [(6, 45), pytest.param(20, 130, marks=(pytest.mark.slow, pytest.mark.ci))])
def test_no_row_is_missing_or_doubled_after_twenty_kills(tmp_path: Path, kills: int, rows: int) -> None:
    """The default suite has six kills and as many rows as hold all bad ones."""
    command = [sys.executable, str(KILLED), str(tmp_path), str(kills), str(rows), "1"]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": importable()}, stdout=subprocess.PIPE, check=True)
    report = json.loads(ended.stdout)
    assert report["status"] == 0
    assert sorted(report["done"]) == [f"{n:024x}" for n in range(rows)]
    assert len(keys_in(tmp_path / "journal")) == rows
    bad = {7: Verdict.CRASHED, 8: Verdict.WRONG, 23: Verdict.OUT_OF_BOUNDS, 40: Verdict.CRASHED}
    assert report["verdicts"] == [bad.get(n, Verdict.PASSED) for n in range(rows)]
    assert len(set(report["points"])) > kills // 3, "the kills hit too few different points"
    assert any(count > 1 for count in report["attempts"].values()), "no kill hit a row in flight"
    assert report["orphans"] == []

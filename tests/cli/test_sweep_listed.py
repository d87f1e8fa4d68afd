"""``fmha sweep`` over a file of unlike problems, within a time, and with workers that share a device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha

NULL = ("sweep", "--backend", "null", "--step", "run")
LISTED = """
-b 2 -H 4 --kv-heads 2 -s 16 --seqlen-k 32 -d 16 --causal   # one
# nothing
--seqlens-q 3,5 -H 1 -d 32 --dtype fp32
-s 16 -d 16
"""


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of states of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "fmha"


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "problems.txt"
    path.write_text(LISTED, "utf-8")
    return path


def test_each_line_is_a_problem(fmha: Fmha, listed: Path) -> None:
    done = fmha(*NULL, "--problems", str(listed), "--json")
    assert done.code == 0
    assert f"3 problems of {listed}" in done.err
    shapes = [(p["batch"], p["heads"], p["mode"], p["hdim"]) for p in (r["problem"] for r in done.document["records"])]
    assert shapes == [(2, 4, "batch", 16), (2, 1, "group", 32), (1, 8, "batch", 16)]


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("-s 16\n-s 4 --causal --mask none", "", "problems.txt:2"),
        ("-s 16\n--nothing 4", "", "problems.txt:2"),
        ("-s 16 --hdim-v 0", "", "problems.txt:1"),
        ("-s 1,2", "", "problems.txt:1"),
        ("# nothing", "", "has no problem"),
        ("-s 16", "-b 2", "--problems beside --batch"),
        ("-s 16", "--model gemma-3-27b", "--problems beside --model"),
        (None, "", "cannot be read"),
        ("-s 16", "--only 0123456789", "the only problem has another digest"),
    ],
)
def test_a_list_that_is_none(fmha: Fmha, tmp_path: Path, text: str | None, more: str, said: str) -> None:
    path = tmp_path / "problems.txt"
    if text is not None:
        path.write_text(text, "utf-8")
    done = fmha(*NULL, "--problems", str(path), *more.split())
    assert done.code in (2, 5)
    assert done.out == ""
    assert said in done.err


@pytest.mark.slow
@pytest.mark.ci
def test_impossible_lines_may_be_dropped(fmha: Fmha, tmp_path: Path) -> None:
    path = tmp_path / "problems.txt"
    path.write_text("-s 16 --hdim-v 0\n-s 16 -d 16", "utf-8")
    done = fmha(*NULL, "--problems", str(path), "--skip-impossible", "--json")
    assert (done.code, len(done.document["records"])) == (0, 1)
    assert f"dropped {path}:1" in done.err


@pytest.mark.slow
@pytest.mark.ci
def test_a_sweep_whose_time_is_over_is_finished_later(fmha: Fmha, listed: Path, states: Path) -> None:
    done = fmha(*NULL, "--problems", str(listed), "--time-limit", "0.001", "--json")
    assert done.code == 4
    records = done.document["records"]
    assert [record["verdict"] for record in records] == ["NOT_RUN"] * 3
    assert {note for record in records for note in record["notes"]} == {
        "the 0.001 s of the sweep were over before this row was done"
    }
    assert "the time is over" in done.err
    assert "--resume" in done.err
    again = fmha("sweep", "--resume", "latest", "--time-limit", "300", "--json")
    assert again.code == 0
    assert [record["verdict"] for record in again.document["records"]] == ["PASSED"] * 3
    assert not list((states / "sweeps").iterdir())


@pytest.mark.slow
@pytest.mark.ci
def test_workers_share_a_device_where_nothing_is_timed(fmha: Fmha, states: Path) -> None:
    words = ("--backend", "cpu", "-H", "1", "-s", "8,16", "-d", "8", "--chunk", "1", "--no-store")
    done = fmha("sweep", "--step", "validate", "--devices", "cpu*2", "--fill", "normal", *words, "--jsonl")
    assert done.code == 0
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["verdict"] for row in rows if "verdict" in row] == ["PASSED"] * 4  # each also with LSE
    assert [path.name for path in (states / "leases").rglob("*.lock")] == ["cpu.lock"]
    refused = fmha("sweep", "--devices", "cpu*2", *words)
    assert refused.code == 2
    assert "--step validate lets several workers share a device" in refused.err

"""What a cluster's worker does for the driver, without a cluster: it runs a chunk, and takes and gives built kernels."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.problem import Problem
from fmha_cli.run.request import Request
from fmha_cli.sweeps.jobs import ChunkJob
from fmha_cli.sweeps.leases import take
from fmha_cli.sweeps.remote import carried_out, describe, found_of, worker_name
from tests.sweeps.test_plan import plan_of

RUN = "ef" * 16

if sys.platform == "win32":
    pytest.skip("workers inherit descriptors", allow_module_level=True)


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of states of the test's own, and a device that null backends share."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NULL_BACKEND_DEVICES", "1")
    return tmp_path / "state" / "fmha"


def job_of(*points: Problem) -> ChunkJob:
    """The chunk of some problems on ``null:0``."""
    plan = plan_of(*points)
    (chunk,) = plan.chunks(16)
    return plan.job(chunk, lambda number: None).on("null:0", 1)


@pytest.mark.slow
@pytest.mark.ci
def test_kernels_travel_by_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: Path) -> None:
    job, archive = job_of(Problem.of(seqlen=16, hdim=32), Problem.of(seqlen=17, hdim=32)), b""
    for host in ("one", "two"):
        monkeypatch.setenv("FMHA_CACHE_DIR", str(tmp_path / host))
        told: list[Any] = []
        done = carried_out(job, RUN, "null:0", {"k": archive} if archive else {}, not archive, told.append)
        assert done["end"] == {"event": "done", "chunk": 0}
        assert sorted(done["records"]) == ["0", "1"]
        assert [event["row"] for event in told if event["event"] == "ended"] == [0, 1]
        brought = {stage["imported_from"] for r in done["records"].values() for stage in r["stages"]}
        assert brought == ({"kernels.tar.xz"} if archive else {None})
        archive = archive or done["archive"]
        assert archive
    lease = take(states, "null:0", RUN)
    assert lease is not None  # the child has let it go
    lease.let_go()


def test_other_rows_than_planned_are_refused() -> None:
    job = job_of(Problem.of(seqlen=16, hdim=32))
    other = ChunkJob(**{**vars(job), "expected": ("another row",)})
    done = carried_out(other, RUN, "null:0", {}, True, lambda event: None)
    assert done["end"]["event"] == "refused"
    assert "plans other rows" in done["end"]["why"]
    assert not done["records"]


def test_a_worker_describes_its_device() -> None:
    found = found_of(describe(json.dumps(to_json(Request(backend="null"))), "null:0"))
    assert [device.id for device in found["null"].devices] == ["null:0"]
    assert worker_name("null:0", "").startswith("fmha|")
    assert worker_name("emu:gfx942", "2").endswith("|emu:gfx942|2")

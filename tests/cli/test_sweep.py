"""``fmha sweep`` and ``fmha worker`` as users call them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha

NULL = ("sweep", "--backend", "null", "--step", "run", "-d", "16")


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of states of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "fmha"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ("sweep --devices cuda:0*2", 2, "one device"),
        ("sweep --scheduler tcp://10.0.0.1:8786", 2, "--tls-ca FILE"),
        ("sweep --scheduler nowhere", 2, "tcp://HOST:8786"),
        ("sweep --resume nothing", 2, "no sweep is unfinished"),
        ("sweep --resume latest -b 2", 2, "--resume beside --batch"),
        ("sweep --resume latest --no-store", 2, "--resume beside --no-store"),
        ("sweep --backend null --devices null:7", 4, "no device null:7"),
        ("sweep --backend null --select tuned --scheduler tcp://127.0.0.1:1", 2, "on which it was tuned"),
        ("sweep --devices emu:gfx90a", 2, "no speed to measure"),
        ("sweep --scheduler tcp://127.0.0.1:1 --tls-ca nothing.pem", 2, "no such file"),
        ("worker", 2, "tcp://HOST:8786"),
        ("worker --scheduler local", 2, "tcp://HOST:8786"),
    ],
)
def test_what_is_refused_before_anything_runs(fmha: Fmha, states: Path, argv: str, code: int, said: str) -> None:
    done = fmha(*argv.split())
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert not list((states / "sweeps").glob("*")) if (states / "sweeps").exists() else True


@pytest.mark.promise("No scheduler beyond this machine is reached without certificates.")
def test_a_missing_extra_is_one_line(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = fmha("worker", "--scheduler", "tcp://127.0.0.1:8786")
    assert done.code == 4
    assert 'pip install "fmha[dask]"' in done.err


def test_a_dry_run_plans_every_row_and_runs_none(fmha: Fmha, states: Path) -> None:
    done = fmha(*NULL, "--dry-run", "--chunk", "2", "-s", "16:48:+16", "--dtype", "fp16,fp32", "--json")
    assert done.code == 0
    assert [record["verdict"] for record in done.document["records"]] == ["NOT_RUN"] * 6
    assert "6 rows in 4 chunks with 2 kernels on 1 device; nothing runs" in done.err
    assert not (states / "sweeps").exists()


def test_a_sweep_gives_the_report_of_its_step_and_leaves_nothing(fmha: Fmha, states: Path) -> None:
    done = fmha(*NULL, "-s", "16:48:+16", "-d", "1024,16", "--json")
    assert done.code == 0
    assert done.document["schema"] == "fmha.report/1"
    assert [r["verdict"] for r in done.document["records"]] == ["UNSUPPORTED", "PASSED"] * 3
    assert not list((states / "sweeps").iterdir())
    (lease,) = (states / "leases").rglob("*.lock")
    assert lease.name == "null.lock"


@pytest.mark.slow
@pytest.mark.ci
def test_rows_that_fail_are_the_rows_of_the_kernel_and_not_of_the_worker(fmha: Fmha) -> None:
    done = fmha(*NULL, "-s", "16", "--kernel", _crashing(fmha), "--json")
    assert done.code == 6
    assert [record["verdict"] for record in done.document["records"]] == ["CRASHED"]
    assert "lost" not in done.err


def _crashing(fmha: Fmha) -> str:
    """The digest of the null kernel that dies of a segmentation fault."""
    listed = fmha("list-kernels", "--arch", "null", "--backend", "null", "--json").document["kernels"]
    return next(str(k["digest"]) for k in listed if k["algorithm"]["behaviour"] == "segfault" and "fp16" in k["name"])

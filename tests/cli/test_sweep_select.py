"""``fmha sweep --select``: the kernels that ``fmha tune`` remembered, for every row and every session of a sweep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.sweeps.driver import SweepDriver
from tests.cli.conftest import Begin, Fmha
from tests.support.fakes.ring_backend import DEFAULT, HONEST
from tests.support.paths import ROOT
from tests.support.tuned_for import remember

SHAPE = ("--backend", "ring", "-H", "1", "-d", "8", "--dtype", "fp32")
SWEEP = ("sweep", "--step", "run", *SHAPE, "-s", "8,32", "--json")
TUNED, OUTSIDE = (HONEST.digest, "tuned"), (DEFAULT.digest, "default")


@pytest.fixture(autouse=True)
def tuned(fmha: Fmha, ring: Path, begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which 8 keys are tuned, and places of the test's own; the folder of states."""
    places = (ring.parent / "ring-site", ROOT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    begin("tuned", lambda: remember(fmha, monkeypatch, *SHAPE, "-s", "8"))
    return tmp_path / "state" / "fmha"


def swept(fmha: Fmha, *words: str) -> list[tuple[str, str]]:
    """Kernel and reason of every row."""
    done = fmha(*(words or SWEEP))
    assert done.code == 0, done.err
    return [(row["kernel"]["digest"], row["selected_by"]) for row in done.document["records"]]


@pytest.mark.promise("`fmha tune` remembers the fastest kernel, and `run`, `validate`, `bench` and sweeps choose it.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_sweep_chooses_as_run_does(fmha: Fmha) -> None:
    assert swept(fmha) == swept(fmha, "run", *SHAPE, "-s", "8,32", "--json") == [TUNED, OUTSIDE]
    assert swept(fmha, *SWEEP, "--select", "default") == [OUTSIDE, OUTSIDE]
    assert swept(fmha, *SWEEP, "--select", HONEST.digest[:16]) == [(HONEST.digest, "kernel")] * 2


@pytest.mark.promise("`fmha tune` remembers the fastest kernel, and `run`, `validate`, `bench` and sweeps choose it.")
@pytest.mark.slow
@pytest.mark.ci
def test_what_is_tuned_or_forgotten_meanwhile_changes_no_sweep_that_began(
    fmha: Fmha, tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: SweepDriver, past: Any) -> Any:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(SweepDriver, "go", killed)
        assert fmha(*SWEEP).code != 0
    (entry,) = fmha("tune", "ls", "--json").document["entries"]
    assert fmha("tune", "rm", entry["id"]).code == 0
    assert swept(fmha, "sweep", "--resume", "latest", "--json") == [TUNED, OUTSIDE]
    assert swept(fmha) == [OUTSIDE, OUTSIDE]


def test_a_dry_run_shows_the_tuned_kernel(fmha: Fmha) -> None:
    assert swept(fmha, *SWEEP, "--dry-run") == [TUNED, OUTSIDE]

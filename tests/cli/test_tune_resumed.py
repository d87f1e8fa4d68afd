"""An interrupted ``fmha tune``: the same command goes on, and nothing of another run is reused."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference
from fmha_cli.results.plans import unfinished
from fmha_cli.tune import confirming
from fmha_cli.tune import tune as walk
from tests.cli.conftest import Begin, Fmha
from tests.support.fakes.ring_backend import HONEST
from tests.support.paths import ROOT
from tests.support.tuned_for import difference

WORDS = ("tune", "--backend", "ring", "-H", "1", "-d", "8", "--dtype", "fp32", "-s", "8,16,24")
SECOND = 2
"""The run is killed while the winner of the second of three problems is confirmed."""


@pytest.fixture
def ring(ring: Path, kept_states: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store and the folder of states at one place for all tests, because the journal of a killed run names its store."""
    place = kept_states / "resumed"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    monkeypatch.setenv("FMHA_STORE", str(place / ring.name))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    return place / ring.name


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Receives the number of kernels of every search from now on; confirmations find the fastest surely faster."""
    seen: list[int] = []
    real: Callable[..., Any] = walk.search

    def search(arms: int, *more: Any) -> Any:
        seen.append(arms)
        return real(arms, *more)

    monkeypatch.setattr(walk, "search", search)
    monkeypatch.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference())
    return seen


@pytest.fixture
def killed(ring: Path, home: Path, searches: list[int], begin: Begin) -> str:
    """The id of a killed run: the first problem is done, the second one searched."""
    places = (home / "ring-site", ROOT)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    words = [sys.executable, "-m", "tests.support.children.killed_tune", str(SECOND), *WORDS]

    def kill() -> None:
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr

    begin("killed", kill)
    (run,) = unfinished(ring)
    return run


def states(fmha: Fmha, *more: str, words: tuple[str, ...] = WORDS) -> tuple[list[str], str]:
    done = fmha(*words, *more, "--json")
    assert done.code == 0, done.err
    return [row["state"] for row in done.document["rows"]], done.err


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is killed by a signal there")


@pytest.mark.promise("An interrupted `fmha tune` goes on where it stopped, and reuses nothing of another run.")
@pytest.mark.slow
@pytest.mark.ci
def test_after_a_kill_the_same_command_goes_on(fmha: Fmha, ring: Path, killed: str, searches: list[int]) -> None:
    before = fmha("results", "show", "latest", "--json").document["records"]
    (first,) = fmha("tune", "ls", "--json").document["entries"]
    done = fmha(*WORDS, "--json")
    rows = done.document["rows"]
    assert [(row["state"], row["kernel"]) for row in rows] == [("tuned", HONEST.digest)] * 3
    assert "1 problem of 3 and 2 searches are done; --anew starts over" in done.err
    assert len(searches) == 1  # the third problem alone was searched
    records = fmha("results", "show", "latest", "--json").document["records"]
    assert records[: len(before)] == before
    assert len({record["row"] for record in records}) == len(records) == 6  # two kernels of each problem, once
    assert len({record["run"]["id"] for record in records}) == 1
    every = fmha("tune", "ls", "--json").document["entries"]
    assert len(every) == 3
    assert first in every
    assert not unfinished(ring)
    states(fmha)
    assert len(searches) == 4  # a complete run is not gone on with


@pytest.mark.promise("An interrupted `fmha tune` goes on where it stopped, and reuses nothing of another run.")
@pytest.mark.slow
@pytest.mark.ci
def test_nothing_of_another_run_is_reused(
    fmha: Fmha, ring: Path, killed: str, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference(Speed.SAME))
    other = (*WORDS[:-1], "8,16")
    for more in ((), ("--method", "race"), ("--min-gain", "3"), ("--cache", "cold"), ("--label", "other")):
        said = states(fmha, *more, words=WORDS if more else other)[1]
        assert "goes on" not in said
    for name, text in (("RING_DEVICE", "another"), ("RING_VARIANTS", "honest,zeros")):
        with monkeypatch.context() as patched:
            patched.setenv(name, text)
            assert "goes on" not in states(fmha)[1]
    assert len(searches) == 2 + 3 * 6
    assert killed in unfinished(ring)


@pytest.mark.slow
@pytest.mark.ci
def test_anew_starts_over(fmha: Fmha, ring: Path, killed: str, searches: list[int]) -> None:
    found, said = states(fmha, "--anew")
    assert found == ["tuned"] * 3
    assert "goes on" not in said
    assert len(searches) == 3
    assert not unfinished(ring)


@pytest.mark.promise("An interrupted `fmha tune` goes on where it stopped, and reuses nothing of another run.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_choice_among_other_sources_is_made_anew(
    fmha: Fmha, ring: Path, killed: str, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winner's own source has changed. That of the default, which is in the journal's name, is as it was."""
    real: Callable[..., Any] = walk.Scopes.of

    def of(self: Any, problem: Any, choices: Any, cache: Any) -> Any:
        scope = real(self, problem, choices, cache)
        return scope if len(choices) == 1 else walk.replace(scope, source="other")

    monkeypatch.setattr(walk.Scopes, "of", of)
    found, said = states(fmha)
    assert found == ["tuned"] * 3
    assert "-s 8" in said
    assert "is tuned anew: source" in said
    assert len(searches) == 2


def test_an_interruption_is_gone_on_with_too(
    fmha: Fmha, ring: Path, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Any, default: Any, winner: Any) -> Difference:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(confirming.Confirmer, "difference", interrupted)
        done = fmha(*WORDS, "--json")
    assert (done.code, len(searches)) == (130, 1)
    assert "the same command goes on" in done.err
    assert states(fmha)[0] == ["tuned"] * 3
    assert len(searches) == 3


@pytest.mark.slow
@pytest.mark.ci
def test_a_damaged_journal_is_refused(fmha: Fmha, ring: Path, killed: str) -> None:
    with sqlite3.connect(ring) as db:
        db.execute("update unfinished set value = 'no line' where what = 'note'")
    done = fmha(*WORDS)
    assert done.code == 2
    assert "X030" in done.err
    assert "--anew starts over" in done.err


@pytest.mark.promise("An interrupted `fmha tune` goes on where it stopped, and reuses nothing of another run.")
@pytest.mark.usefixtures("searches")
@pytest.mark.slow
@pytest.mark.ci
def test_a_folder_that_cannot_be_written_costs_one_line(fmha: Fmha, ring: Path) -> None:
    (ring.parent / "state").write_text("no folder")
    found, said = states(fmha)
    assert found == ["tuned"] * 3
    assert "an interruption" not in said, "the store keeps what is measured"
    found, said = states(fmha, "--no-store")
    assert found == ["tuned"] * 3
    assert said.count("an interruption would lose what is measured") == 1


@pytest.mark.slow
@pytest.mark.ci
def test_an_interruption_without_a_store_is_gone_on_with_too(
    fmha: Fmha, ring: Path, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Any, default: Any, winner: Any) -> Difference:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(confirming.Confirmer, "difference", interrupted)
        assert fmha(*WORDS, "--json", "--no-store").code == 130
    found, said = states(fmha, "--no-store")
    assert found == ["tuned"] * 3
    assert "0 problems of 3 and 1 search are done" in said
    assert len(searches) == 3
    assert not list((ring.parent / "state" / "fmha" / "tune").iterdir())

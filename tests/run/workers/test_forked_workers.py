"""Workers that fork from a template are like the new interpreters that ``fmha`` starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.verdict import Verdict
from fmha_cli.run import process
from tests.support.fakes import broken_backend
from tests.support.forked_workers import forked_workers

HERE = broken_backend.__name__
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux alone")


@pytest.fixture(scope="module")
def _template() -> Iterator[Any]:
    with forked_workers():
        yield process.subprocess


@pytest.fixture
def forks(_template: Any, _new_interpreters: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers fork in this test; the fixture of the folder has just undone it."""
    monkeypatch.setattr(process, "subprocess", _template)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[1])


def told(held: int) -> dict[str, Any]:
    """What a worker says of itself, and whether this process started it."""
    worker = process.WorkerProcess((held,))
    try:
        answer = worker.ask({"do": "probe", "entry": f"{HERE}:probe_tells", "backend": "null"}, timeout=60.0)
        assert not isinstance(answer, process.Death), answer
        said: dict[str, Any] = json.loads(answer["availability"]["why"])
        said["leads"] = said.pop("session") == said.pop("group") == worker.pid
        said["forked"] = parent_of(worker.pid) != os.getpid()
        return said
    finally:
        worker.close()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    with open(tmp_path / "held", "wb") as file:
        yield file.fileno()


def test_a_fork_is_like_a_new_interpreter(
    held: int, forks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(held)["forked"]  # the template starts elsewhere
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FMHA_TOLD", "x \udcff y")
    monkeypatch.syspath_prepend(str(tmp_path))
    forked = told(held)
    assert forked.pop("forked")
    monkeypatch.setattr(process, "subprocess", subprocess)
    new = told(held)
    assert not new.pop("forked")
    assert forked == new
    assert new["leads"]
    assert new["folder"] == str(tmp_path)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", ["LD_BIND_NOW", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX", "PYTHONHASHSEED"])
def test_what_is_read_at_the_start_needs_a_new_interpreter(
    held: int, forks: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert told(held)["forked"]
    monkeypatch.setenv(name, "3")
    assert not told(held)["forked"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_module_that_hides_one_of_ours_needs_a_new_interpreter(
    held: int, forks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert told(held)["forked"]
    (tmp_path / "ml_dtypes").mkdir()
    assert not told(held)["forked"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_how_a_fork_ended_is_known(forks: None, number: signal.Signals) -> None:
    worker = process.WorkerProcess()
    worker.greet()
    assert worker.alive
    os.kill(worker.pid, number)
    death = worker.ask({"do": "hello"}, timeout=60.0)
    assert isinstance(death, process.Death)
    assert (death.verdict, death.note) == (Verdict.CRASHED, f"the worker died of {number.name}")
    assert not worker.alive
    worker.close()


def test_forks_live_side_by_side_and_end_alone(forks: None) -> None:
    first, second = process.WorkerProcess(), process.WorkerProcess()
    for worker in (first, second):
        worker.greet()
    first.kill()
    assert not first.alive
    answer = second.ask({"do": "hello"}, timeout=60.0)
    assert not isinstance(answer, process.Death)
    assert answer["pid"] == second.pid
    second.close()
    assert not second.alive
    first.close()

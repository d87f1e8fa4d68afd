"""A worker that starts early serves the walk that takes it, and ends with a walk that does not."""

from __future__ import annotations

import pytest

from fmha_cli.cli.app import run
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.run import process
from fmha_cli.run.process import WorkerProcess, early_worker
from fmha_cli.run.supervisor import Supervisor
from tests.support.live_processes import gone, running


def test_a_worker_that_nobody_takes_ends() -> None:
    with early_worker() as worker:
        assert worker is not None
        assert running(worker.pid)
    assert gone(worker.pid)


def test_a_worker_that_is_taken_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    with early_worker() as worker:
        assert worker is not None
        with Supervisor(first=worker) as supervisor:
            supervisor.start()
            assert (supervisor.worker_pid, supervisor.started) == (worker.pid, 1)
            assert supervisor.probe("fmha_cli.backends.cpu", "cpu").why is None
            assert (supervisor.worker_pid, supervisor.started) == (worker.pid, 1)
        assert gone(worker.pid)
        killed: list[int] = []
        monkeypatch.setattr(process, "kill_group", killed.append)
    assert not killed  # another process may have its number by now


def test_without_a_process_nothing_is_wrong_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> WorkerProcess:
        raise EnvironmentProblem("no worker process", code="X020")

    monkeypatch.setattr(process, "WorkerProcess", none)
    with early_worker() as worker:
        assert worker is None


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("words", "code", "started"),
    [
        ("run -s 8 -d 8 --no-check --no-store", 0, 1),
        ("run -s 8 -d 8 --backend nobodys", 2, 1),
        ("run -s 8 -d 8 --hdim-v 0", 2, 0),
        ("run -s 8 -d 8 --dry-run", 0, 0),
        ("run --help", 0, 0),
    ],
)
def test_the_command_line_leaves_no_worker(
    words: str, code: int, started: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[WorkerProcess] = []

    def noted() -> WorkerProcess:
        seen.append(WorkerProcess())
        return seen[-1]

    monkeypatch.setattr(process, "WorkerProcess", noted)
    assert run(words.split(), {}) == code
    assert len(seen) == started
    assert all(gone(worker.pid) for worker in seen)

"""The supervisor: probes, loading failures, and the errors that a worker survives."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fmha_null import backend as null
from fmha_null import fmha_register_arch_specs
from fmha_null.kernels import null_kernel

from fmha_cli import conformance
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.run import process
from fmha_cli.run.arena import Arena
from fmha_cli.run.job import JobResult, WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.system import handover
from tests.support.fakes import broken_backend

HERE = broken_backend.__name__
NULL = "fmha_null"


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as one:
        yield one


@pytest.fixture
def job(shared_cache: Path) -> WorkerJob:
    problem = Problem.from_cli("-b 1 -H 1 -s 4 -d 4 --dtype fp32")
    device = null.probe().devices[0]
    plan = null.plan(problem, null_kernel(problem.dtype, Family.FWD), device)
    artifacts = tuple(null.build(stage, BuildContext(shared_cache)) for stage in plan.stages)
    return WorkerJob(entry=NULL, device=device, plan=plan, artifacts=artifacts)


def run(supervisor: Supervisor, job: WorkerJob, launches: int = 1) -> JobResult:
    with Arena(layout_of(job.plan.problem, job.plan.workspaces)) as arena:
        arena.write(fill(job.plan.problem))
        arena.prepare()
        return supervisor.run(job, arena, launches=launches, timeout=60.0)


@pytest.mark.parametrize("entry", [NULL, f"{NULL}:backend", HERE])
def test_a_probe_answers_through_the_worker(supervisor: Supervisor, entry: str) -> None:
    assert supervisor.probe(entry, "null") == null.probe()


def test_an_availability_survives_the_wire() -> None:
    found = replace(null.probe(), why="because", help="do this", version=None)
    assert from_json(Availability, to_json(found)) == found


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (f"{HERE}:probe_crashes", "SIGABRT"),
        (f"{HERE}:probe_hangs", "no answer after"),
        (f"{HERE}:probe_raises", "RuntimeError: driver too old"),
        (f"{HERE}:not_a_backend", "cannot be loaded"),
        (f"{HERE}:absent", "AttributeError"),
        ("no_such_module", "ModuleNotFoundError"),
    ],
)
def test_a_bad_probe_is_broken_and_says_why(supervisor: Supervisor, entry: str, words: str) -> None:
    found = supervisor.probe(entry, "null", timeout=0.7 if "hangs" in entry else 60.0)
    assert found.state is State.BROKEN
    assert words in (found.why or "")
    assert supervisor.probe(NULL, "null").state is State.OK


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("attribute", "verdict", "words"),
    [
        ("open_fails", Verdict.NOT_RUN, "device null is gone (unplugged)"),
        ("load_raises", Verdict.LAUNCH_FAILED, "undefined symbol"),
        ("bind_raises", Verdict.OUT_OF_MEMORY, "no room for the mirror"),
        ("too_many_times", Verdict.CRASHED, "not one number of nanoseconds"),
        ("absent", Verdict.NOT_RUN, "cannot be loaded"),
        ("loses_device", Verdict.CRASHED, "illegal memory access"),
    ],
)
def test_a_bad_session_has_its_verdict(
    supervisor: Supervisor, job: WorkerJob, attribute: str, verdict: Verdict, words: str
) -> None:
    result = run(supervisor, replace(job, entry=f"{HERE}:{attribute}"))
    assert result.verdict is verdict
    assert words in (result.note or "")
    assert run(supervisor, job).verdict is None


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("negative_time", "reported -1 ns"),
        ("no_time", "reported 0 ns: no launch takes less than 10 ns"),
        ("one_ns", "reported 1 ns"),
        ("nan_time", "not a finite number"),
        ("endless_time", "not a finite number"),
        ("age_of_the_universe", "reported 1.00000e+21 s, but the host waited only"),
    ],
)
def test_a_time_that_cannot_be_true_is_named(
    supervisor: Supervisor, job: WorkerJob, attribute: str, words: str
) -> None:
    result = run(supervisor, replace(job, entry=f"{HERE}:{attribute}"))
    assert result.verdict is None
    assert words in (result.mistimed or "")
    assert run(supervisor, job).mistimed is None


def test_conformance_refuses_a_session_that_lies_about_its_times(tmp_path: Path) -> None:
    specs = fmha_register_arch_specs()
    subject = conformance.Subject(
        broken_backend.no_time, entry=f"{HERE}:no_time", cache_root=tmp_path / "cache", arch_specs=specs
    )
    with pytest.raises(AssertionError, match="reported 0 ns"):
        conformance.check_times(subject)


def test_launches_without_work_may_take_no_time(supervisor: Supervisor, job: WorkerJob) -> None:
    problem = Problem.from_cli("-b 1 -H 1 --seqlens-q 4 --seqlens-k 0 -d 4 --dtype fp32")
    empty = replace(job, plan=replace(job.plan, problem=problem), entry=f"{HERE}:no_time")
    result = run(supervisor, empty)
    assert (result.verdict, result.mistimed) == (None, None)


def test_a_kernel_that_does_not_load_keeps_the_worker(job: WorkerJob) -> None:
    with Supervisor() as supervisor:
        assert run(supervisor, replace(job, entry=f"{HERE}:load_raises")).verdict is Verdict.LAUNCH_FAILED
        assert run(supervisor, job).verdict is None
        assert supervisor.started == 1


def test_a_lost_device_ends_its_worker_by_itself(job: WorkerJob) -> None:
    worker = process.WorkerProcess()
    worker.greet()
    assert worker.alive
    answer = worker.ask({"do": "probe", "entry": f"{HERE}:probe_loses_device", "backend": "null"}, timeout=60.0)
    assert not isinstance(answer, process.Death)
    assert (answer["failure"], answer["what"]) == ("lost", "unspecified launch failure (719)")
    assert isinstance(worker.ask({"do": "hello"}, timeout=60.0), process.Death)
    assert "AssertionError" not in worker.log_tail()
    worker.close()


def test_an_answer_is_read_although_the_worker_has_ended_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has come when the channel is looked at; when the process is looked at, it has answered and ended."""
    worker = process.WorkerProcess()
    worker.greet()
    looked = worker._selector.select

    def busy(timeout: float | None = None) -> list[object]:
        monkeypatch.undo()
        worker._process.wait(60)
        return []

    monkeypatch.setattr(worker._selector, "select", busy)
    answer = worker.ask({"do": "probe", "entry": f"{HERE}:probe_loses_device", "backend": "null"}, timeout=60.0)
    assert worker._selector.select == looked
    assert not isinstance(answer, process.Death)
    assert answer["what"] == "unspecified launch failure (719)"
    worker.close()


def test_an_answer_is_read_although_the_worker_ended_while_the_request_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent stands still after the last byte of the request; meanwhile the worker answers and ends."""
    worker, send = process.WorkerProcess(), handover.send
    worker.greet()

    def slow(channel: socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
        sent = send(channel, data, descriptors)
        worker._process.wait(60)
        return sent

    monkeypatch.setattr(handover, "send", slow)
    answer = worker.ask({"do": "probe", "entry": f"{HERE}:probe_loses_device", "backend": "null"}, timeout=60.0)
    assert not isinstance(answer, process.Death)
    assert answer["what"] == "unspecified launch failure (719)"
    worker.close()


def test_a_lost_device_costs_one_row_and_one_worker(job: WorkerJob) -> None:
    with Supervisor() as supervisor:
        lost = run(supervisor, replace(job, entry=f"{HERE}:loses_device"))
        assert (lost.verdict, supervisor.started) == (Verdict.CRASHED, 1)
        assert "was asked to free" not in lost.log_tail
        assert run(supervisor, job).verdict is None
        assert supervisor.started == 2
        assert supervisor.probe(f"{HERE}:probe_loses_device", "null").state is State.BROKEN
        assert supervisor.probe(NULL, "null").state is State.OK
        assert supervisor.started == 3


@pytest.mark.slow
@pytest.mark.ci
def test_a_device_lost_after_other_kernels_is_tried_again_alone(job: WorkerJob) -> None:
    other = null.plan(job.plan.problem, null_kernel(job.plan.problem.dtype, Family.FWD_SPLITKV), job.device)
    built = tuple(null.build(stage, BuildContext(job.artifacts[0].path.parents[3])) for stage in other.stages)
    with Supervisor() as supervisor:
        assert run(supervisor, replace(job, plan=other, artifacts=built)).verdict is None
        assert run(supervisor, replace(job, entry=f"{HERE}:loses_device")).verdict is Verdict.CRASHED
        assert supervisor.started == 2
        assert supervisor.probe(NULL, "null").state is State.OK
        assert supervisor.started == 3


def test_the_traceback_of_a_bad_session_is_in_the_log(supervisor: Supervisor, job: WorkerJob) -> None:
    assert "in load" in run(supervisor, replace(job, entry=f"{HERE}:load_raises")).log_tail


def test_a_damaged_artifact_is_not_loaded(supervisor: Supervisor, job: WorkerJob, tmp_path: Path) -> None:
    (artifact,) = job.artifacts
    copy = tmp_path / "artifact"
    copy.write_bytes(artifact.path.read_bytes() + b" ")
    result = run(supervisor, replace(job, artifacts=(replace(artifact, path=copy),)))
    assert result.verdict is Verdict.LAUNCH_FAILED
    assert "damaged" in (result.note or "")
    copy.unlink()
    gone = run(supervisor, replace(job, artifacts=(replace(artifact, path=copy),)))
    assert gone.verdict is Verdict.LAUNCH_FAILED


def test_every_launch_is_timed(supervisor: Supervisor, job: WorkerJob) -> None:
    result = run(supervisor, job, launches=17)
    assert len(result.stage_ns) == 17
    assert all(len(stages) == 1 and stages[0] > 0 for stages in result.stage_ns)


@pytest.mark.promise("The memory of a row is counted above the worker's level before its launch.")
def test_a_worker_keeps_what_is_freed(supervisor: Supervisor, job: WorkerJob) -> None:
    """glibc alone would map the block anew for each launch: 32 faults of huge pages, or 16,384. A few come from elsewhere in the process."""
    result = run(supervisor, replace(job, entry=f"{HERE}:frees"), launches=3)
    first, *later = (stages[0] for stages in result.stage_ns)
    assert first > 10 * 30
    assert max(later) < 10 * 16


@pytest.mark.slow
@pytest.mark.ci
def test_an_idle_worker_that_was_killed_is_replaced_silently(job: WorkerJob) -> None:
    with Supervisor() as supervisor:
        assert run(supervisor, job).verdict is None
        worker = supervisor.worker_pid
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        result = run(supervisor, job)
        assert (result.verdict, result.note, result.distrust) == (None, None, None)
        assert supervisor.started == 2


def test_an_idle_worker_that_is_gone_is_replaced_for_a_probe() -> None:
    with Supervisor() as supervisor:
        assert supervisor.probe(NULL, "null").state is State.OK
        worker = supervisor.worker_pid
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
        assert supervisor.probe(NULL, "null").state is State.OK


def test_of_endless_output_only_the_end_is_kept() -> None:
    worker = process.WorkerProcess()
    worker.greet()
    worker.clear_log()
    answer = worker.ask({"do": "probe", "entry": f"{HERE}:probe_prints", "backend": "null"}, timeout=60.0)
    assert not isinstance(answer, process.Death)
    log = worker.log_tail(10 * process.LOG_KEPT)
    assert 0 < len(log) <= process.LOG_KEPT
    assert log.endswith("the end\n")
    worker.close()


def test_a_worker_that_cannot_start_is_the_environments_fault(job: WorkerJob, monkeypatch: pytest.MonkeyPatch) -> None:
    with Supervisor() as supervisor:
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        missing = run(supervisor, job)
        assert missing.verdict is Verdict.NOT_RUN
        assert "no worker process" in (missing.note or "")
        assert supervisor.probe(NULL, "null").state is State.BROKEN
        monkeypatch.undo()
        monkeypatch.setattr(process, "_WORKER", "no.such.module")
        wrong = run(supervisor, job)
        assert wrong.verdict is Verdict.NOT_RUN
        assert "No module named" in (wrong.note or "")
        monkeypatch.undo()
        assert run(supervisor, job).verdict is None


def test_a_worker_of_another_version_is_refused(job: WorkerJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "VERSION", 999)
    with Supervisor() as supervisor:
        assert "not 999" in (run(supervisor, job).note or "")


def test_a_sigkill_after_an_oom_kill_is_out_of_memory(job: WorkerJob, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = iter([3, 4])
    monkeypatch.setattr(process, "ended_for_memory", lambda: next(kills))
    worker = process.WorkerProcess()
    worker.greet()
    os.kill(worker.pid, signal.SIGKILL)
    death = worker.ask({"do": "hello"})
    assert isinstance(death, process.Death)
    assert death.verdict is Verdict.OUT_OF_MEMORY
    worker.close()


@pytest.mark.slow
@pytest.mark.ci
def test_no_descriptor_is_left_behind(job: WorkerJob) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with Supervisor() as supervisor:
        run(supervisor, job)
    before = descriptors()
    for _ in range(3):
        with Supervisor() as supervisor:
            run(supervisor, job)
            supervisor.retire()
            run(supervisor, job)
    assert descriptors() == before


def test_the_worker_imports_neither_the_oracle_nor_the_command_line() -> None:
    names = "numpy", "typer", "rich", "fmha_cli.oracle", "fmha_cli.cli", "fmha_cli.report"
    code = f"import sys, fmha_cli.run.worker; print([n for n in {names!r} if n in sys.modules])"
    import subprocess

    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    out = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    assert out.stdout.strip() == b"[]"


@pytest.mark.slow
@pytest.mark.ci
def test_a_module_in_the_users_folder_takes_no_librarys_place(
    job: WorkerJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')", "utf-8")
    monkeypatch.chdir(tmp_path)
    with Supervisor() as supervisor:
        assert run(supervisor, job).verdict is None

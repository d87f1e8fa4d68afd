"""Kernels of real C code: each fault affects only its own row."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.judge import JudgePolicy
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.c_backend import Deed
from tests.support.fault_rows import CLOSE, c_job, cases, judged, null_job
from tests.support.live_processes import gone, group_members

EXPECTED = {
    Deed.HONEST: Verdict.PASSED,
    Deed.SEGFAULT: Verdict.CRASHED,
    Deed.HANG: Verdict.TIMED_OUT,
    Deed.HANG_WITH_GIL: Verdict.TIMED_OUT,
    Deed.EXIT: Verdict.CRASHED,
    Deed.ABORT: Verdict.CRASHED,
    Deed.PRINT: Verdict.PASSED,
    Deed.PRINT_FOREVER: Verdict.TIMED_OUT,
    Deed.NAN: Verdict.WRONG,
    Deed.BEFORE: Verdict.OUT_OF_BOUNDS,
    Deed.AFTER: Verdict.OUT_OF_BOUNDS,
    Deed.GAP: Verdict.OUT_OF_BOUNDS,
    Deed.STACK_OVERFLOW: Verdict.CRASHED,
    Deed.CLOSE_ALL: Verdict.CRASHED,
    Deed.WRITE_ALL: Verdict.CRASHED,
    Deed.FORGE: Verdict.CRASHED,
    Deed.FORK: Verdict.CRASHED,
    Deed.SIGKILL: Verdict.CRASHED,
    Deed.BAD_ALLOC: Verdict.OUT_OF_MEMORY,
}
HANGS = (Deed.HANG, Deed.HANG_WITH_GIL, Deed.PRINT_FOREVER)
WRONG_RESULTS = (Verdict.WRONG, Verdict.OUT_OF_BOUNDS)


def policy_of(deed: Deed) -> JudgePolicy:
    return JudgePolicy(fills=("normal",), repeats=2, timeout=0.7 if deed in HANGS else 60.0)


@pytest.mark.promise(
    "A kernel runs in a child process, so a crash or a hang costs one row.",
    "Exit code 6: a kernel crashed, hung, did not build or launch, or ran out of memory.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("deed", EXPECTED)
def test_each_deed_has_its_verdict(supervisor: Supervisor, library: Artifact, deed: Deed) -> None:
    row = judged(supervisor, c_job(library, deed), policy_of(deed))
    assert row.verdict is EXPECTED[deed], row.notes


@pytest.mark.slow
@pytest.mark.ci
def test_a_hundred_rows_with_twenty_faults(any_supervisor: Supervisor, library: Artifact) -> None:
    faults = [deed for deed in EXPECTED if deed not in (Deed.HONEST, Deed.PRINT)]
    faults += [Deed.SEGFAULT, Deed.NAN, Deed.AFTER]
    assert len(faults) == 20
    rows_with_faults(any_supervisor, library, 100, faults)


def test_rows_with_a_fault_of_each_kind(any_supervisor: Supervisor, library: Artifact) -> None:
    """A fault of each verdict, and of the crashes one more."""
    first = {verdict: deed for deed, verdict in reversed(EXPECTED.items()) if verdict is not Verdict.PASSED}
    assert len(first) == 5
    rows_with_faults(any_supervisor, library, 30, [*first.values(), Deed.CLOSE_ALL])


def rows_with_faults(any_supervisor: Supervisor, library: Artifact, rows: int, faults: Sequence[Deed]) -> None:
    """Each fault costs its own row. The last row has one, and between two of them are two or four honest rows."""
    deeds = [Deed.HONEST] * rows
    for n, deed in enumerate(faults):
        deeds[rows - 1 - n * 4 - n % 2] = deed
    shared = cases()
    found = [judged(any_supervisor, c_job(library, deed), policy_of(deed), shared) for deed in deeds]
    assert [row.verdict for row in found] == [EXPECTED[deed] for deed in deeds]
    assert all(not row.notes for row, deed in zip(found, deeds, strict=True) if deed is Deed.HONEST)
    assert exit_code_of(row.verdict for row in found) is ExitCode.WRONG
    left = [row.verdict for row in found if row.verdict not in WRONG_RESULTS]
    assert exit_code_of(left) is ExitCode.FAILED


@pytest.mark.slow
@pytest.mark.ci
def test_out_of_bounds_by_one_element_is_named(any_supervisor: Supervisor, library: Artifact) -> None:
    def note(deed: Deed) -> str:
        (text,) = judged(any_supervisor, c_job(library, deed)).notes
        return text.partition("wrote ")[2]

    assert note(Deed.BEFORE) == "4 bytes, one element before the start of o"
    assert note(Deed.AFTER) == "4 bytes, one element after the end of o"
    assert note(Deed.GAP) == "4 bytes in the gap after element 7 of o"


def test_what_it_printed_before_it_crashed_is_kept(any_supervisor: Supervisor, library: Artifact) -> None:
    assert "about to abort" in (judged(any_supervisor, c_job(library, Deed.ABORT)).log or "")


@pytest.mark.slow
@pytest.mark.ci
def test_endless_output_is_kept_short(any_supervisor: Supervisor, library: Artifact) -> None:
    row = judged(any_supervisor, c_job(library, Deed.PRINT_FOREVER), policy_of(Deed.PRINT_FOREVER))
    assert row.log is not None
    assert 0 < len(row.log) <= 4096
    assert "again and again" in row.log


def test_what_a_kernel_started_dies_with_it(supervisor: Supervisor, library: Artifact) -> None:
    supervisor.start()
    group = supervisor.worker_pid
    assert group is not None
    assert judged(supervisor, c_job(library, Deed.FORK)).verdict is Verdict.CRASHED
    assert gone(group)
    assert not [pid for pid in group_members(group) if not gone(pid)]


def test_a_crash_that_another_kernel_caused_is_not_blamed_on_this_one(
    supervisor: Supervisor, library: Artifact
) -> None:
    assert judged(supervisor, c_job(library, Deed.CORRUPT)).verdict is Verdict.PASSED
    row = judged(supervisor, c_job(library, Deed.ONCE_CORRUPTED))
    assert row.verdict is Verdict.MISTRUSTED
    assert "SIGSEGV while running after other kernels had run in it" in row.notes[0]
    assert len(row.comparisons) == len(CLOSE.fills)


def test_a_crash_in_a_fresh_worker_is_not_tried_again(supervisor: Supervisor, library: Artifact) -> None:
    assert judged(supervisor, c_job(library, Deed.SEGFAULT)).verdict is Verdict.CRASHED
    assert supervisor.started == 1


def test_a_crash_between_rows_is_nobody_elses(supervisor: Supervisor, library: Artifact) -> None:
    supervisor.start()
    worker = supervisor.worker_pid
    assert worker is not None
    judged(supervisor, c_job(library, Deed.LATER), JudgePolicy())
    assert gone(worker)
    row = judged(supervisor, c_job(library, Deed.HONEST))
    assert (row.verdict, row.notes) == (Verdict.PASSED, ())


@pytest.mark.slow
@pytest.mark.ci
def test_an_interrupt_kills_the_group_and_the_next_row_runs(supervisor: Supervisor, library: Artifact) -> None:
    supervisor.start()
    group = supervisor.worker_pid
    assert group is not None
    job = c_job(library, Deed.HANG)
    with Arena(layout_of(job.plan.problem)) as arena:
        arena.write(fill(job.plan.problem))
        arena.prepare()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                supervisor.run(job, arena, timeout=60.0)
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)
    assert gone(group)
    assert judged(supervisor, c_job(library, Deed.HONEST)).verdict is Verdict.PASSED


def test_two_jobs_stay_loaded_and_run_in_turns(supervisor: Supervisor, library: Artifact, cache: Path) -> None:
    jobs = [c_job(library, Deed.HONEST), null_job(cache)]
    arenas = [Arena(layout_of(job.plan.problem)) for job in jobs]
    for job, arena in zip(jobs, arenas, strict=True):
        arena.write(fill(job.plan.problem))
        arena.prepare()
    for _ in range(3):
        for job, arena in zip(jobs, arenas, strict=True):
            result = supervisor.run(job, arena, launches=4, cold=True, upload=False, download=False)
            assert result.verdict is None
            assert len(result.stage_ns) == 4
    assert supervisor.started == 1
    for arena in arenas:
        arena.close()
    assert judged(supervisor, c_job(library, Deed.HONEST)).verdict is Verdict.PASSED
    assert supervisor.started == 1


def test_a_worker_outlives_the_thread_that_started_it(supervisor: Supervisor, library: Artifact) -> None:
    job = c_job(library, Deed.HONEST)
    thread = threading.Thread(target=judged, args=(supervisor, job))
    thread.start()
    thread.join()
    assert judged(supervisor, job).verdict is Verdict.PASSED
    assert supervisor.started == 1


@pytest.mark.parametrize(
    ("deed", "in_thread"),
    [(Deed.HANG, False), (Deed.HANG_WITH_GIL, False), (Deed.HONEST, False), (Deed.HANG, True), (Deed.HONEST, True)],
)
def test_a_worker_does_not_outlive_a_killed_parent(
    library: Artifact, tmp_path: Path, deed: Deed, in_thread: bool
) -> None:
    """In a thread, the system's parent-death signal is not used, so the closed pipe must suffice."""
    report = tmp_path / "worker"
    parent = os.fork()
    if parent == 0:
        _hang_forever(library, deed, report, in_thread)
    try:
        deadline = time.monotonic() + 30.0
        while not report.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)  # let it enter the kernel
        worker = int(report.read_text("ascii"))
        os.kill(worker, 0)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    assert gone(worker)


def _hang_forever(library: Artifact, deed: Deed, report: Path, in_thread: bool) -> None:
    """Run as the parent that will be killed; never returns."""
    try:
        supervisor = Supervisor()
        job = c_job(library, deed)
        with Arena(layout_of(job.plan.problem)) as arena:
            arena.write(fill(job.plan.problem))
            arena.prepare()
            if in_thread:
                starter = threading.Thread(target=supervisor.start)
                starter.start()
                starter.join()
            supervisor.start()
            part = report.with_suffix(".part")
            part.write_text(str(supervisor.worker_pid), "ascii")
            part.rename(report)
            supervisor.run(job, arena)
            time.sleep(600)
    finally:
        os._exit(1)

"""Many builds in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import InternalError, Interrupted, KernelFailure
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.parallel import Batch, BuildOutcome, Job, build_many

MakeKey = Callable[..., BuildKey]
GIB = 2**30


def plenty() -> int:
    return 1000 * GIB


class Gauge:
    """Counts the jobs that run at the same time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0

    def job(self, name: str, memory: int = GIB, wait_for: threading.Barrier | None = None) -> Job[str]:
        def run(stop: threading.Event) -> str:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            if wait_for is not None:
                wait_for.wait(60)
            with self.lock:
                self.now -= 1
            return name.upper()

        return Job(name, run, memory)


def test_results_in_order_of_the_jobs() -> None:
    """The results keep the order of the jobs although the first job ends last."""
    others = threading.Semaphore(0)

    def first(stop: threading.Event) -> str:
        assert others.acquire(timeout=60)
        assert others.acquire(timeout=60)
        return "first"

    def later(stop: threading.Event) -> str:
        others.release()
        return "later"

    told: list[tuple[int, int, str]] = []
    jobs = [Job("a", first), Job("b", later), Job("c", later)]
    batch = build_many(jobs, 2, lambda done, total, outcome: told.append((done, total, outcome.name)), plenty)
    assert batch == Batch(
        (BuildOutcome("a", "first", None), BuildOutcome("b", "later", None), BuildOutcome("c", "later", None)), False
    )
    assert [(done, total) for done, total, _ in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1][2] == "a"


def test_no_jobs() -> None:
    assert build_many([], 4) == Batch((), False)


def test_never_more_than_the_workers_but_as_many() -> None:
    gauge, barrier = Gauge(), threading.Barrier(3)
    batch = build_many([gauge.job(str(n), wait_for=barrier) for n in range(6)], 3, available=plenty)
    assert gauge.most == 3
    assert [outcome.value for outcome in batch.outcomes] == [str(n) for n in range(6)]


class Memory:
    """Reports the free memory, counts the running jobs at each question, and holds the jobs for the first questions."""

    def __init__(self, hold_for: int, *answers: int) -> None:
        self.hold_for, self.answers = hold_for, answers
        self.asked = self.most = 0
        self.release = threading.Event()

    def __call__(self) -> int:
        self.most = max(self.most, sum(thread.name.startswith("build-") for thread in threading.enumerate()))
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if self.asked >= self.hold_for:
            self.release.set()
        return answer

    def jobs(self, number: int) -> list[Job[bool]]:
        return [Job(str(n), lambda stop: self.release.wait(60), GIB) for n in range(number)]


@pytest.mark.parametrize(("free", "most"), [(1, 1), (GIB, 1), (2 * GIB - 1, 1), (2 * GIB, 2), (3 * GIB, 3)])
def test_memory_limits_the_number(free: int, most: int) -> None:
    """The system reports all memory as free throughout, so reservations count before they are used."""
    memory = Memory(most + 2, free)
    assert all(outcome.value for outcome in build_many(memory.jobs(5), 5, available=memory).outcomes)
    assert memory.most == most


def test_memory_that_others_took_counts_too() -> None:
    memory = Memory(3, 10 * GIB, 0)
    build_many(memory.jobs(4), 4, available=memory)
    assert memory.most == 1


def test_unknown_memory_is_no_limit() -> None:
    gauge, barrier = Gauge(), threading.Barrier(4)
    build_many([gauge.job(str(n), wait_for=barrier) for n in range(4)], 4, available=lambda: None)
    assert gauge.most == 4


def test_one_failure_stops_nobody() -> None:
    def fail(stop: threading.Event) -> str:
        raise KernelFailure("source.cpp:1:1: error: boom")

    def defect(stop: threading.Event) -> str:
        raise ZeroDivisionError("by zero")

    batch = build_many([Job("a", fail), Job("b", defect), Gauge().job("c")], 1, available=plenty)
    a, b, c = batch.outcomes
    assert isinstance(a.error, KernelFailure)
    assert isinstance(b.error, InternalError)
    assert "ZeroDivisionError" in str(b.error)
    assert isinstance(b.error.__cause__, ZeroDivisionError)
    assert (c.value, c.error, batch.interrupted) == ("C", None, False)


def test_workers_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        build_many([], 0)


def test_an_error_in_the_progress_callback_ends_the_jobs_and_is_raised() -> None:
    ended = threading.Event()

    def long(stop: threading.Event) -> None:
        assert stop.wait(60)
        ended.set()

    def progress(done: int, total: int, outcome: object) -> None:
        raise RuntimeError("defect")

    with pytest.raises(RuntimeError, match="defect"):
        build_many([Job("short", lambda stop: None), Job("long", long)], 2, progress, plenty)
    assert ended.is_set()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_kills_compilers_and_keeps_what_is_finished(
    cache: Cache, compiler: Any, make_key: MakeKey, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    sources = ['echo done > "$OUT"', f'echo $$ > "{pid_file}"; kill -INT {os.getpid()}; sleep 3600', 'echo x > "$OUT"']
    keys = [make_key(source, name=f"kernel {number}") for number, source in enumerate(sources)]

    def job(key: BuildKey) -> Job[object]:
        return Job(key.spec.name, lambda stop: build_kernel(cache, key, compiler.toolchain, cancel=stop))

    batch = build_many([job(key) for key in keys], 1)
    assert batch.interrupted
    assert [outcome.name for outcome in batch.outcomes] == ["kernel 0", "kernel 1", "kernel 2"]
    first, *rest = batch.outcomes
    assert first.error is None
    assert all(isinstance(outcome.error, Interrupted) for outcome in rest)
    assert cache.lookup(keys[0]) is not None
    assert cache.lookup(keys[1]) is None
    assert list(cache.layout.tmp.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_parallel_compiles_through_the_cache(cache: Cache, compiler: Any, make_key: MakeKey) -> None:
    keys = [make_key(f'echo {number % 5} > "$OUT"', name=f"k{number % 5}") for number in range(20)]

    def job(key: BuildKey) -> Job[Artifact]:
        return Job(key.spec.name, lambda stop: build_kernel(cache, key, compiler.toolchain, cancel=stop))

    batch = build_many([job(key) for key in keys], 4, available=plenty)
    read = [outcome.value.path.read_text().strip() for outcome in batch.outcomes if outcome.value]
    assert read == [str(number % 5) for number in range(20)]
    assert compiler.calls == 5

"""``bench --processes N``: the samples of a row come from fresh workers, and each sample tells which one took it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fmha_cli import api
from fmha_cli.bench.sampling import StopReason
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.phases import Phase, Voice
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.run.job import JobResult, WorkerJob
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.timing import Timed, in_processes, policy_of

PROBLEM = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp16")
KERNELS = {k.name: k.digest for k in api.list_kernels("null", backend="null") if "dtype=fp16" in k.name}
HONEST, SLOW = (
    next(digest for name, digest in KERNELS.items() if f"behaviour={word}" in name or word == "honest")
    for word in ("honest", "slow")
)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Kernel and worker of every timed launch, in order."""
    seen: list[tuple[str, int]] = []
    run = Supervisor.run

    def watched(self: Supervisor, job: WorkerJob, arena: Any, **how: Any) -> JobResult:
        done = run(self, job, arena, **how)
        if not how.get("upload", True) and how.get("launches", 1):
            assert self.worker_pid is not None
            seen.extend([(job.plan.main.digest, self.worker_pid)] * how["launches"])
        return done

    monkeypatch.setattr(Supervisor, "run", watched)
    return seen


def bench(**options: Any) -> tuple[Record, ...]:
    return tuple(api.run(PROBLEM, command="bench", backend="null", budget_s=0.05, **options))


def processes_of(record: Record) -> Sequence[int]:
    assert record.measurement is not None
    assert record.measurement.process_of_sample is not None
    return record.measurement.process_of_sample


def test_every_process_is_a_fresh_worker_and_takes_enough_samples(workers: list[tuple[str, int]]) -> None:
    (record,) = bench(processes=3)
    assert record.verdict is Verdict.PASSED
    numbers = processes_of(record)
    assert list(numbers) == sorted(numbers)
    assert {number: numbers.count(number) >= 10 for number in (0, 1, 2)} == dict.fromkeys((0, 1, 2), True)
    assert record.measurement is not None
    assert len(numbers) == len(record.measurement.samples_ns)
    timed = list(dict.fromkeys(pid for _, pid in workers))
    assert len(timed) == 3


def test_one_process_is_the_worker_that_checked(workers: list[tuple[str, int]]) -> None:
    (record,) = bench()
    assert record.measurement is not None
    assert record.measurement.process_of_sample is None
    assert len({pid for _, pid in workers}) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_rows_in_turns_share_each_process(workers: list[tuple[str, int]]) -> None:
    first, second = bench(processes=2, ab=(HONEST, SLOW))
    assert processes_of(first) == processes_of(second)
    assert set(processes_of(first)) == {0, 1}
    assert first.ab is not None
    assert first.ab.paired
    by_worker = [{digest for digest, pid in workers if pid == one} for one in dict.fromkeys(pid for _, pid in workers)]
    assert by_worker == [{HONEST, SLOW}] * 2


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_against_itself_gives_two_rows_of_samples() -> None:
    first, second = bench(ab=(HONEST, HONEST))
    assert first.row != second.row
    assert None not in (first.ab, second.ab, first.row)


def test_processes_share_the_time_of_a_row() -> None:
    one, eight = (policy_of(2.0, 30.0, count) for count in (1, 8))
    assert (one.budget_ns, one.max_ns, one.max_samples) == (2 * 10**9, 30 * 10**9, 1000)
    assert (eight.budget_ns, eight.max_ns, eight.max_samples) == (25 * 10**7, 375 * 10**7, 125)
    assert policy_of(2.0, 30.0, 500).max_samples == eight.min_samples == 10


def test_samples_of_processes_are_joined_in_order() -> None:
    done: list[str] = []

    def once(process: int) -> tuple[Timed, ...]:
        done.append(f"sample {process}")
        stop = StopReason.BUDGET if process == 1 else StopReason.CONVERGED
        return tuple(Timed(((process, side),) * (process + 1), warmup=3, stop=stop) for side in (7, 8))

    first, second = in_processes(3, lambda: done.append("renew"), once)
    assert done == ["renew", "sample 0", "renew", "sample 1", "renew", "sample 2"]
    assert first == Timed(
        ((0, 7), (1, 7), (1, 7), (2, 7), (2, 7), (2, 7)), warmup=9, stop=StopReason.BUDGET, processes=(0, 1, 1, 2, 2, 2)
    )
    assert second.processes == first.processes
    assert in_processes(1, lambda: done.append("renew"), once)[0] == Timed(
        ((0, 7),), warmup=3, stop=StopReason.CONVERGED
    )
    assert done.count("renew") == 3


@pytest.mark.slow
@pytest.mark.ci
def test_progress_counts_the_time_of_all_processes() -> None:
    told: list[tuple[int, int]] = []

    def phase(name: Phase, done: int, total: int) -> None:
        if name is Phase.TIME and total:
            told.append((done, total))

    request = Request(command=Command.BENCH, backend="null", budget_s=0.05, processes=2)
    Run([PROBLEM], request, build_registry(), voice=Voice(phase=phase)).finish()
    assert len({total for _, total in told}) == 1
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert max(done for done, _ in told) >= told[0][1] // 2
    assert told[0][0] <= told[0][1] // 2

"""The workers of one machine: who holds a lease, what a stopped or a poisonous worker costs, and what may be resumed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results import journal as journals
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.sweeps.driver import SweepDriver, SweepEnd
from fmha_cli.sweeps.jobs import ChunkJob
from fmha_cli.sweeps.leases import holder_of, take
from fmha_cli.sweeps.local import LocalScheduler
from fmha_cli.sweeps.places import WorkerPlace
from fmha_cli.sweeps.plan import SweepPlan
from fmha_cli.sweeps.process import ChildProcess
from fmha_cli.sweeps.scheduler import News
from tests.support.generators.journals import created
from tests.support.swept import descendants, kill, start, sweep_of
from tests.sweeps.test_plan import plan_of

if sys.platform != "linux":
    pytest.skip("processes are found in /proc", allow_module_level=True)

RUN = "cd" * 16


class Played:
    """A scheduler whose workers do what a script says: a row's number among all rows -> how often a worker dies with it."""

    shared_cache = True
    patience_s = 0.0

    def __init__(self, places: Sequence[WorkerPlace], plan: SweepPlan, deadly: dict[int, int]) -> None:
        self._places, self._plan, self._deadly = list(places), plan, dict(deadly)
        self._jobs: list[tuple[WorkerPlace, ChunkJob]] = []
        self.closed = False

    def places(self) -> Sequence[WorkerPlace]:
        return self._places

    def free(self) -> Sequence[WorkerPlace]:
        busy = [place for place, _ in self._jobs]
        return [place for place in self._places if place not in busy]

    def give(self, place: WorkerPlace, job: ChunkJob) -> None:
        self._jobs.append((place, job))

    def news(self, timeout_s: float) -> Iterator[News]:
        for place, job in self._jobs:
            yield from (News(place, {**event, "chunk": job.number}) for event in self._events(job))
        self._jobs = []

    def _events(self, job: ChunkJob) -> Iterator[dict[str, object]]:
        numbers = [self._plan.points.index(problem) for problem in job.problems]
        for row, number in enumerate(numbers):
            if str(row) in job.past:
                continue
            yield {"event": "began", "rows": [row]}
            if self._deadly.get(number, 0):
                self._deadly[number] -= 1
                yield {"event": "died", "why": "SIGKILL"}
                return
            record = Record(problem=job.problems[row].to_dict(), repro="", verdict=Verdict.PASSED)
            yield {"event": "ended", "row": row, "record": record.to_dict()}
        yield {"event": "done"}

    def set_aside(self, place: WorkerPlace) -> None:
        self._places.remove(place)

    def close(self) -> None:
        self.closed = True


def driven(
    tmp_path: Path, deadly: dict[int, int], places: int = 2, rows: int = 8
) -> tuple[SweepEnd, list[Record], list[str]]:
    """A sweep with played workers: what it came to, the records in the order of their coming, and what was told."""
    from fmha_cli import __version__
    from fmha_cli.discovery.registry import build_registry
    from fmha_cli.domain.journal import JournalRow, Start

    plan = plan_of(*(Problem.of(seqlen=16 + n, hdim=32) for n in range(rows)))
    asked = tuple(JournalRow(key=row.key, what=row.what) for row in plan.rows)
    began = Start(fmha=__version__, argv=(), run=RUN, started="2026-01-01T00:00:00Z", parts={}, rows=asked)
    came: list[Record] = []
    told: list[str] = []
    with created(tmp_path / "journal", began) as journal:
        driver = SweepDriver(
            plan=plan,
            scheduler=Played(
                [WorkerPlace(device=f"null:{n}", name=f"null:{n}", kind=0) for n in range(places)], plan, deadly
            ),
            registry=build_registry(),
            journal=journal,
            run=RunRow(id=RUN, command="run", started="2026-01-01T00:00:00Z"),
            chunk=4,
            retries=2,
            on_record=came.append,
            tell=told.append,
        )
        return driver.go({}), came, told


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
def test_a_row_that_kills_its_workers_is_crashed_with_their_names(tmp_path: Path) -> None:
    done, came, _ = driven(tmp_path, {2: 99})
    verdicts = [record.verdict for record in done.records]
    assert verdicts == [Verdict.PASSED] * 2 + [Verdict.CRASHED] + [Verdict.PASSED] * 5
    (note,) = done.records[2].notes
    assert note.startswith("3 workers died with this row: null:")
    assert note.count("(SIGKILL)") == 3
    assert len({record.row for record in came}) == len(came) == 8


def test_a_row_that_is_given_out_again_says_so(tmp_path: Path) -> None:
    done, _, told = driven(tmp_path, {5: 1})
    assert {record.verdict for record in done.records} == {Verdict.PASSED}
    assert [bool(record.notes) for record in done.records] == [n == 5 for n in range(8)]
    assert done.records[5].notes[0].startswith("given out 2 times, because workers failed: null:")
    assert len([text for text in told if text.startswith("worker lost: ")]) == done.lost == 1


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
def test_without_a_place_rows_are_not_run_and_can_be_resumed(tmp_path: Path) -> None:
    done, came, told = driven(tmp_path, dict.fromkeys(range(8), 99), places=1)
    assert done.stranded
    assert not done.interrupted
    assert [text for text in told if text.startswith("set aside: null:0")]
    left = [record for record in done.records if record.verdict is Verdict.NOT_RUN]
    assert len(left) + len(came) == 8
    assert all(record.notes == ("no worker was left for this row",) for record in left)


def test_a_row_whose_writing_is_interrupted_is_not_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = journals.put_record, list[str]()

    def interrupted(store: Any, db: Any, run: Any, record: Record, key: str) -> bytes | None:
        calls.append(key)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return put(store, db, run, record, key)

    monkeypatch.setattr(journals, "put_record", interrupted)
    done, came, _ = driven(tmp_path, {})
    assert done.interrupted
    assert {record.row for record in done.records if record.verdict is Verdict.PASSED} == set(calls[:3])
    assert [record.row for record in came] == calls[:3]


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_stopped_worker_is_given_up(tmp_path: Path) -> None:
    swept = start(tmp_path, *sweep_of("-b", "1,2", "-s", "1:10:+1", chunk=4), "--silence", "4", devices=2)
    list(swept.rows(2))
    stopped = swept.workers[0]
    assert kill(stopped, signal.SIGSTOP)
    code, said = swept.end()
    assert code == 0, said
    assert "(no sign of life for 4 s)" in said
    assert len({row["row"] for row in swept.lines}) == len(swept.lines) == 20
    assert not os.path.exists(f"/proc/{stopped}/task")


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_process_of_the_kernel_holds_the_lease_too(tmp_path: Path) -> None:
    """The worker is stopped, so it cannot end its own child, and then killed: whoever is left still holds the device."""
    swept = start(tmp_path, *sweep_of("-s", "1:20:+1", chunk=20), devices=1)
    list(swept.rows(2))
    (worker,) = swept.workers
    lease = next((tmp_path / "state" / "fmha" / "leases").rglob("*.lock"))
    holding = [pid for pid in [worker, *descendants(worker)] if holds(pid, lease)]
    assert worker in holding
    assert len(holding) == 2  # and the process that opens the device
    assert not holds(swept.process.pid, lease)
    assert swept.end()[0] == 0


def holds(pid: int, path: Path) -> bool:
    """Whether a process has a file open."""
    try:
        return any(os.path.realpath(entry.path) == str(path) for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_who_waits_for_a_lease_says_for_whom(tmp_path: Path) -> None:
    lease = take(tmp_path, "null:0", "ef" * 16)
    assert lease is not None
    place = WorkerPlace(device="null:0", name="null:0", kind=0)
    scheduler = LocalScheduler([place], tmp_path, tmp_path, RUN, 60.0)
    news = list(scheduler.news(0))
    holder = holder_of(tmp_path, "null:0")
    assert holder is not None
    assert holder.run == "ef" * 16
    assert [(one.event["event"], one.event["text"]) for one in news] == [("waits", holder.text)]
    assert not scheduler.free()
    assert holder_of(tmp_path, "null:0") == holder
    scheduler.close()
    lease.let_go()


@pytest.mark.promise("A killed or interrupted sweep leaves no worker behind, and only its own invocation resumes it.")
def test_a_sweep_of_another_environment_is_not_resumed(tmp_path: Path) -> None:
    from contextlib import ExitStack
    from dataclasses import replace

    from fmha_cli.discovery.registry import build_registry
    from fmha_cli.sweeps.folder import Spec
    from fmha_cli.sweeps.opening import Found, open_sweep

    plan = plan_of(Problem.of(seqlen=16, hdim=32), Problem.of(seqlen=17, hdim=32))
    spec = Spec(
        run=RUN,
        started="2026-01-01T00:00:00Z",
        argv=(),
        request=replace(plan.request, cache_root=str(tmp_path)),
        points=tuple(point.repro() for point in plan.points),
        layers=(),
        devices="all",
        scheduler="local",
        chunk=1,
        retries=2,
        silence_s=60,
    )

    def find(supervisor: Supervisor) -> Found:
        return plan.kinds, (WorkerPlace(device="null:0", name="null:0", kind=0),)

    def opened(spec: Spec) -> Sequence[str]:
        with ExitStack() as stack:
            found = open_sweep(spec, build_registry(), find, tmp_path, lambda text: None, stack)
            return [row.key for row in found.plan.rows]

    keys = opened(spec)
    assert opened(spec) == keys
    with pytest.raises(UsageError, match=r"--fill-seed is 1 here, 0 in the journal"):
        opened(replace(spec, request=replace(spec.request, fill_seed=1)))
    with pytest.raises(UsageError, match="row 2 is"):
        opened(replace(spec, points=(spec.points[0], "-s 18 -d 32")))


def test_an_idle_worker_ends_by_itself(tmp_path: Path) -> None:
    lease = take(tmp_path, "cpu", RUN)
    assert lease is not None
    child = ChildProcess(lease, tmp_path / "log")
    while "ready" not in [event["event"] for event in child.hear() or ()]:
        pass
    child.close()
    assert child.bury().startswith("exit status 0")
    again = take(tmp_path, "cpu", RUN)
    assert again is not None  # the device is free
    again.let_go()

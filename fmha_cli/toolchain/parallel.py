"""Run as many builds at once as processors and memory allow."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fmha_cli.domain.blame import raised
from fmha_cli.domain.device import available_bytes
from fmha_cli.domain.errors import FmhaError, InternalError, Interrupted

T = TypeVar("T")

COMPILE_BYTES = 512 * 2**20
"""Memory that one compile of a generated CPU kernel is assumed to need, unless its job says otherwise."""

_RECHECK_S = 0.25


@dataclass(frozen=True)
class Job(Generic[T]):
    """One build.

    Attributes:
        name: the name that people see.
        run: does the work in a separate thread. It must watch the event and end soon after it is set.
        memory: bytes that it may need.
        package: whose code the work is (``domain.blame``); None for this tool's.
    """

    name: str
    run: Callable[[threading.Event], T]
    memory: int = COMPILE_BYTES
    package: str | None = None


@dataclass(frozen=True)
class BuildOutcome(Generic[T]):
    """The result of one job: exactly one of ``value`` and ``error`` is not None.

    ``error`` is ``Interrupted`` for a job that was stopped or never started.
    """

    name: str
    value: T | None
    error: FmhaError | None


@dataclass(frozen=True)
class Batch(Generic[T]):
    """One outcome for each job, in the order of the jobs, and whether the user interrupted the work."""

    outcomes: tuple[BuildOutcome[T], ...]
    interrupted: bool


Progress = Callable[[int, int, BuildOutcome[T]], None]
"""Called in the caller's thread after each job with: jobs done, jobs in all, the outcome."""


def build_many(
    jobs: Sequence[Job[T]],
    workers: int,
    progress: Progress[T] | None = None,
    available: Callable[[], int | None] = available_bytes,
) -> Batch[T]:
    """Run all jobs, at most ``workers`` at a time, and return one outcome for each.

    A further job starts only when memory allows. Its estimate must fit into the memory that is free now. It must also
    fit into the memory that was free when nothing ran, minus the estimates of all running jobs, which may still grow.
    One job always runs, so work never stalls. A failed job stops no other. Ctrl-C sets the jobs' event, waits for the
    jobs to end, and returns the finished jobs; a second Ctrl-C raises ``KeyboardInterrupt``.

    Raises:
        ValueError: ``workers`` is less than 1.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    return _Run(jobs, workers, progress, available).go()


class _Run(Generic[T]):
    """The state of one ``build_many``."""

    def __init__(
        self,
        jobs: Sequence[Job[T]],
        workers: int,
        progress: Progress[T] | None,
        available: Callable[[], int | None],
    ) -> None:
        self.jobs = jobs
        self.workers = workers
        self.progress = progress
        self.available = available
        self.stop = threading.Event()
        self.finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.running: dict[int, threading.Thread] = {}
        self.outcomes: dict[int, BuildOutcome[T]] = {}
        self.told: set[int] = set()
        self.idle_memory: int | None = None

    def go(self) -> Batch[T]:
        interrupted = False
        try:
            self._loop()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            # Also on an error of the progress callback: no compiler outlives this call.
            self.stop.set()
            for thread in list(self.running.values()):
                if thread.ident is not None:
                    thread.join()
        rows = tuple(self.outcomes.get(index) or _never_ran(job) for index, job in enumerate(self.jobs))
        return Batch(rows, interrupted)

    def _loop(self) -> None:
        waiting = list(range(len(self.jobs)))
        while waiting or self.running:
            while waiting and len(self.running) < self.workers and self._fits(self.jobs[waiting[0]]):
                self._start(waiting.pop(0))
            try:
                index = self.finished.get(timeout=_RECHECK_S)
            except queue.Empty:
                continue
            self.running.pop(index).join()
            self.told.add(index)
            if self.progress:
                self.progress(len(self.told), len(self.jobs), self.outcomes[index])

    def _fits(self, job: Job[T]) -> bool:
        free = self.available()
        if not self.running:
            self.idle_memory = free
            return True
        if free is None or self.idle_memory is None:
            return True
        promised = sum(self.jobs[index].memory for index in self.running)
        return job.memory <= min(free, self.idle_memory - promised)

    def _start(self, index: int) -> None:
        thread = threading.Thread(target=self._run, args=(index,), name=f"build-{index}")
        self.running[index] = thread
        thread.start()

    def _run(self, index: int) -> None:
        job = self.jobs[index]
        try:
            outcome = BuildOutcome(job.name, job.run(self.stop), None)
        except FmhaError as error:
            outcome = BuildOutcome(job.name, None, error)
        except Exception as error:  # noqa: BLE001
            # A defect in one job must become that job's row, so that every requested row gets a record.
            fault = InternalError(f"building {job.name} raised {raised(error, job.package)}", code="B099")
            fault.__cause__ = error
            outcome = BuildOutcome(job.name, None, fault)
        self.outcomes[index] = outcome
        self.finished.put(index)


def _never_ran(job: Job[T]) -> BuildOutcome[T]:
    return BuildOutcome(job.name, None, Interrupted(f"{job.name} was not built: interrupted", code="B009"))

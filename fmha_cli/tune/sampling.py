"""Candidates in the worker: each is judged once, and launched as often as the search asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace

from fmha_cli.bench.sampling import StopReason
from fmha_cli.bench.search import OutOfTime
from fmha_cli.domain.plan import Workspace
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.arena import Arena, shortage
from fmha_cli.run.builds import KernelOutcome, ready_of
from fmha_cli.run.execute import Executor
from fmha_cli.run.peaks import settings_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.request import Context
from fmha_cli.run.rows import Row
from fmha_cli.run.timing import Launcher, Mistimed, RowFailed, Timed


@dataclass
class Contender:
    """A candidate that was built.

    Attributes:
        outcome: its verdict; a candidate that fails later gets another one.
        launch: launches it; None if it may not be chosen.
        launches: the samples so far, nanoseconds per launch and stage.
    """

    row: Row
    outcome: Outcome
    launch: Launcher | None = None
    launches: list[tuple[int, ...]] = field(default_factory=list)
    warmup: int = 0


@dataclass
class Ring(AbstractContextManager["Ring"]):
    """The contenders of one problem, in memory at once. Use it as a context manager.

    Candidates with equal workspaces share one arena: their inputs are the same, and each overwrites the outputs of the one before.
    """

    context: Context
    executor: Executor
    stack: ExitStack = field(default_factory=ExitStack)
    arenas: dict[tuple[Workspace, ...], Arena] = field(default_factory=dict)

    def enter(self, row: Row, built: Mapping[str, KernelOutcome]) -> Contender:
        """Judge a candidate whose stages were built or failed to.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        artifacts = ready_of(row, built)
        if isinstance(artifacts, Outcome):
            return Contender(row, artifacts)
        assert row.plan is not None
        job = self.executor.job(row, artifacts, settings_of(row, artifacts, self.context))
        try:
            if row.plan.workspaces not in self.arenas:
                self.arenas[row.plan.workspaces] = self.stack.enter_context(self.executor.arena(job))
        except MemoryError as fault:
            reason = shortage(fault, "inputs, outputs and reference")
            outcome = Outcome(verdict=Verdict.OUT_OF_MEMORY, artifacts=artifacts, reasons=(reason,))
            return Contender(row, outcome)
        arena = self.arenas[row.plan.workspaces]
        judged = self.executor.with_times(row, self.executor.judge(job, arena), None)
        outcome = replace(judged, artifacts=artifacts, outputs={})
        good = outcome.verdict.good
        if outcome.verdict is Verdict.OUT_OF_BOUNDS:
            self.context.supervisor.retire()
        return Contender(row, outcome, self.executor.launcher(job, arena, row) if good else None)

    def __exit__(self, *exc: object) -> None:
        self.stack.close()


@dataclass
class KernelSampler:
    """Samples of contenders, for ``search``: see its ``Sampler``.

    The first launch of each visit is not counted: the caches hold the data of the kernel before.
    """

    contenders: Sequence[Contender]
    budget_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    told: Callable[[int], None] = lambda taken: None
    _end: float | None = None

    def take(self, arm: int, count: int) -> Sequence[int]:
        if self._end is None and self.budget_s is not None:
            self._end = self.clock() + self.budget_s
        if self._end is not None and self.clock() >= self._end:
            raise OutOfTime
        one = self.contenders[arm]
        assert one.launch is not None
        try:
            launches = one.launch(count + 1)[1:]
        except RowFailed as fault:
            return self._fail(one, fault.verdict, str(fault))
        except Mistimed as fault:
            return self._fail(one, Verdict.MISTRUSTED, str(fault))
        one.warmup += 1
        one.launches.extend(launches)
        self.told(sum(len(other.launches) for other in self.contenders))
        return [sum(stages) for stages in launches]

    def _fail(self, one: Contender, verdict: Verdict, note: str) -> Sequence[int]:
        one.outcome, one.launch = replace(one.outcome, verdict=verdict, notes=(*one.outcome.notes, note)), None
        one.launches.clear()
        return ()


def timed(one: Contender, *, whole: bool) -> Timed | None:
    """The samples of a contender, as ``bench`` has them; None without any.

    Args:
        whole: whether the search ended by itself.
    """
    if not one.launches:
        return None
    stop = StopReason.MAX_SAMPLES if whole else StopReason.INTERRUPTED
    return Timed(tuple(one.launches), one.warmup, stop)

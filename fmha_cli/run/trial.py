"""``Trial``: one fill of a job while it is judged. Each launch, and each look at what it left, adds to the fill's ``Outcome``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.domain.emulation import merged, summed
from fmha_cli.domain.phases import SILENT, Phase, Voice
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.run.arena import Arena, Unwritten
from fmha_cli.run.cases import Case
from fmha_cli.run.checks import (
    Outputs,
    compared,
    differing,
    hazards,
    must_repeat,
    never_written,
    not_finite,
)
from fmha_cli.run.job import JobResult, WorkerJob
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor

SEVERITY = (
    Verdict.PASSED,
    Verdict.UNCHECKED,
    Verdict.MISTRUSTED,
    Verdict.WRONG,
    Verdict.NONDETERMINISTIC,
    Verdict.HAZARD,
    Verdict.OUT_OF_BOUNDS,
    Verdict.NOT_RUN,
    Verdict.LAUNCH_FAILED,
    Verdict.OUT_OF_MEMORY,
    Verdict.TIMED_OUT,
    Verdict.CRASHED,
)
"""Verdicts of a row that was dispatched, from good to bad."""

_LAST = SEVERITY.index(Verdict.OUT_OF_BOUNDS)

SETTLE_S = 0.005
"""A launch that has returned gets this long to show that nothing of it still runs. Judging takes longer for all but the
smallest problems, so it costs nothing there."""


@dataclass(frozen=True, kw_only=True)
class JudgePolicy:
    """The settings of a judgement.

    Attributes:
        fills: names of the data, in order.
        repeats: number of runs of each fill.
        all_rows: where only a sample of the rows was compared, add the fills whose answer is known for all rows.
        check: compare with the oracle. The guards are watched in any case.
        timeout: seconds for each run; None = no limit.
        late: look once more after the last run of each fill. ``recheck`` does so if it follows.
        stream: the backend's dropout stream.
    """

    fills: tuple[str, ...] = ("normal",)
    repeats: int = 1
    all_rows: bool = False
    check: bool = True
    timeout: float | None = None
    late: bool = True
    stream: str = "fmha"


@dataclass
class Trial:
    """One fill of a job while it is judged.

    Attributes:
        outcome: what came of it so far; its outputs are those of the worst launch.
        when: the launches under examination, for the notes.
        harmed: whether something was written outside the outputs, which makes the worker untrustworthy.
    """

    supervisor: Supervisor
    job: WorkerJob
    arena: Arena
    policy: JudgePolicy
    case: Case
    outcome: Outcome
    voice: Voice = SILENT
    when: str = ""
    harmed: bool = False

    @property
    def over(self) -> bool:
        """Whether further launches would say nothing."""
        return SEVERITY.index(self.outcome.verdict) >= _LAST

    def add(self, **changes: Any) -> None:
        """Change members of the outcome."""
        self.outcome = replace(self.outcome, **changes)

    def say(self, verdict: Verdict, *notes: str) -> None:
        """Make the verdict at least as bad as this."""
        lines = (f"fill {self.case.fill}: {self.when}{note}" for note in notes)
        worse = max(self.outcome.verdict, verdict, key=SEVERITY.index)
        self.add(verdict=worse, notes=(*self.outcome.notes, *lines))

    def launched(self, run: int) -> Outputs | None:
        """Poison the arena, launch once, and take the outputs at once; None if there are none to examine."""
        self.voice.phase(Phase.LAUNCH, 0, 0)
        self.arena.prepare(run)
        result = self.supervisor.run(self.job, self.arena, timeout=self.policy.timeout)
        outputs = self.arena.read() if result.verdict is None else None
        so_far = self.outcome
        self.add(
            stage_ns=so_far.stage_ns + result.stage_ns,
            waited_ns=so_far.waited_ns + result.waited_ns,
            mistimed=so_far.mistimed or result.mistimed,
            remarks=result.remarks or so_far.remarks,
            first=so_far.first or result.first,
        )
        if result.observed is not None:
            executed = summed(result.observed.executed) if so_far.executed is None else so_far.executed
            self.add(findings=merged((*(so_far.findings or ()), *result.observed.findings)), executed=executed)
            for verdict, notes in hazards(result.observed.findings):
                self.say(verdict, *notes)
        self.voice.phase(Phase.JUDGE, 0, 0)
        return outputs if self._survived(result) else None

    def left(self) -> Outputs | None:
        """The outputs that earlier launches left, without a new one; None if there are none to examine."""
        result = self.supervisor.run(self.job, self.arena, launches=0, upload=False, timeout=self.policy.timeout)
        outputs = self.arena.read() if result.verdict is None else None
        return outputs if self._survived(result) else None

    def look_late(self, outputs: Outputs, returned: float) -> None:
        """Look again at what a launch left: nothing of it may write after it returned.

        On an emulated device nothing can, because the emulator executes a launch to its end.

        Args:
            outputs: as they were when it returned.
            returned: when it returned, by ``time.monotonic``.
        """
        if self.over or self.job.device.emulated:
            return
        time.sleep(max(0.0, SETTLE_S - (time.monotonic() - returned)))
        self.when += "after the launch had returned: "
        again = self.left()
        late = [] if again is None else differing(outputs, again, what="have changed")
        if late:
            self.say(Verdict.WRONG, *late)

    def compare_runs(
        self,
        first: Outputs,
        outputs: Outputs,
        missing: tuple[Unwritten, ...] = (),
        ignore: Iterable[Unwritten] = (),
        run: int | None = None,
    ) -> None:
        """Compare a repeated run with the first one, and with the reference if they differ.

        Args:
            missing: what this run did not write.
            ignore: what another run did not write.
            run: its number among the runs that share a sample of the rows; None if it is none of them.
        """
        fixed = {name: array for name, array in first.items() if must_repeat(self.job.plan, name)}
        different = differing(first, outputs, (*ignore, *missing))
        if different and (sure := differing(fixed, outputs, (*ignore, *missing))):
            self.say(Verdict.NONDETERMINISTIC, *sure)
        if different or missing:
            self.compare(outputs, missing)
        elif run is not None and self.case.sampled:
            self.compare(outputs, missing, run)

    def compare(self, outputs: Outputs, missing: tuple[Unwritten, ...], run: int | None = None) -> None:
        """Compare the outputs of a run with the reference; ``run`` as in ``compare_runs``."""
        if not self.policy.check:
            self.say(Verdict.UNCHECKED)
            return
        case = self.case if run is None else self.case.part(run, self.policy.repeats)
        comparison = compared(self.job.plan, case, outputs)
        spoilt = never_written(self.job.plan.problem, missing) + not_finite(self.case, outputs)
        distrusted = comparison.verdict is Verdict.MISTRUSTED and comparison.distrust
        self.say(comparison.verdict, *([distrusted] if distrusted else []))
        if self.when and comparison.verdict is Verdict.WRONG:
            self.say(Verdict.WRONG, "the outputs are beyond their budgets")
        if spoilt:
            self.say(Verdict.WRONG, *spoilt)
        comparison = replace(comparison, notes=(*comparison.notes, *spoilt))
        before = next(iter(self.outcome.comparisons), None)
        if before is None or badness(comparison) > badness(before):
            self.add(comparisons=(_counting(comparison, before, self.case),), outputs=outputs)
        else:
            self.add(comparisons=(_counting(before, comparison, self.case),))

    def _survived(self, result: JobResult) -> bool:
        """Whether the run left outputs that can be examined."""
        if result.verdict is not None:
            self.say(result.verdict, result.note or result.verdict.value)
            self.add(log=result.log_tail or None)
            return False
        if result.distrust:
            self.say(Verdict.MISTRUSTED, result.distrust)
            self.add(log=result.log_tail or None)
        harm = [f"wrote {violation.text()}" for violation in self.arena.violations()]
        harm += [change.text() for change in self.arena.changed_inputs()]
        if harm:
            self.harmed = True
            self.say(Verdict.OUT_OF_BOUNDS, *harm)
        return True


def badness(comparison: Comparison | None) -> float:
    """The largest share of a budget that a comparison uses; 0 without one."""
    return max((check.badness for _, check in comparison.checks), default=0.0) if comparison else 0.0


def _counting(worse: Comparison, other: Comparison | None, case: Case) -> Comparison:
    """The worse of two comparisons of one case, with the sampled rows of both counted."""
    more = {name: check.rows for name, check in other.checks} if other and case.sampled else {}
    checks = [
        (name, replace(check, rows=min(check.rows + more.get(name, 0), case.rows)) if name in ("o", "lse") else check)
        for name, check in worse.checks
    ]
    return replace(worse, checks=tuple(checks))

"""``Trial``: one fill of a job while it is being judged: its launches, and the findings of each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fmha_cli.domain.emulation import Observed
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.phases import Phase, Tell, silent
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.run.arena import Arena, Unwritten
from fmha_cli.run.cases import Case
from fmha_cli.run.checks import (
    Outputs,
    changed_late,
    compared,
    hazards,
    must_repeat,
    never_written,
    not_finite,
    not_repeated,
)
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.supervisor import JobResult, Supervisor

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
    """

    fills: tuple[str, ...] = ("normal",)
    repeats: int = 1
    all_rows: bool = False
    check: bool = True
    timeout: float | None = None
    late: bool = True


@dataclass
class Trial:
    """One fill while it is being judged.

    Attributes:
        outputs: what the worst launch returned.
        when: the launches under examination, for the notes.
        harmed: whether something was written outside the outputs, which makes the worker untrustworthy.
        remarks: what the session said when it was bound.
    """

    case: Case
    verdict: Verdict = Verdict.PASSED
    comparison: Comparison | None = None
    notes: list[str] = field(default_factory=list)
    log_tail: str = ""
    stage_ns: list[tuple[int, ...]] = field(default_factory=list)
    waited_ns: list[int] = field(default_factory=list)
    mistimed: str | None = None
    outputs: Outputs = field(default_factory=dict)
    observed: list[Observed] = field(default_factory=list)
    first: FirstLaunch | None = None
    when: str = ""
    harmed: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether further launches would say nothing."""
        return SEVERITY.index(self.verdict) >= _LAST

    @property
    def badness(self) -> tuple[int, float]:
        """Orders trials from good to bad."""
        return SEVERITY.index(self.verdict), badness(self.comparison)

    def say(self, verdict: Verdict, *notes: str) -> None:
        """Make the verdict at least as bad as this."""
        self.verdict = max(self.verdict, verdict, key=SEVERITY.index)
        self.notes += [f"fill {self.case.fill}: {self.when}{note}" for note in notes]


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


@dataclass(frozen=True)
class Examiner:
    """Where a job is judged. Each method adds what it finds to a trial."""

    supervisor: Supervisor
    job: WorkerJob
    arena: Arena
    policy: JudgePolicy
    phase: Tell = silent

    def launched(self, trial: Trial, run: int) -> Outputs | None:
        """Poison the arena, launch once, and take the outputs at once; None if there are none to examine."""
        self.phase(Phase.LAUNCH, 0, 0)
        self.arena.prepare(run)
        result = self.supervisor.run(self.job, self.arena, timeout=self.policy.timeout)
        outputs = self.arena.read() if result.verdict is None else None
        trial.stage_ns += result.stage_ns
        trial.waited_ns += result.waited_ns
        trial.mistimed = trial.mistimed or result.mistimed
        trial.remarks = result.remarks or trial.remarks
        trial.first = trial.first or result.first
        if result.observed is not None:
            trial.observed.append(result.observed)
            for verdict, notes in hazards(result.observed.findings):
                trial.say(verdict, *notes)
        self.phase(Phase.JUDGE, 0, 0)
        return outputs if self._survived(trial, result) else None

    def left(self, trial: Trial) -> Outputs | None:
        """The outputs that earlier launches left, without a new one; None if there are none to examine."""
        result = self.supervisor.run(self.job, self.arena, launches=0, upload=False, timeout=self.policy.timeout)
        outputs = self.arena.read() if result.verdict is None else None
        return outputs if self._survived(trial, result) else None

    def look_late(self, trial: Trial, outputs: Outputs, returned: float) -> None:
        """Look again at what a launch left: nothing of it may write after it returned.

        On an emulated device nothing can, because the emulator executes a launch to its end.

        Args:
            outputs: as they were when it returned.
            returned: when it returned, by ``time.monotonic``.
        """
        if trial.over or self.job.device.emulated:
            return
        time.sleep(max(0.0, SETTLE_S - (time.monotonic() - returned)))
        trial.when += "after the launch had returned: "
        again = self.left(trial)
        if again is not None:
            late = changed_late(outputs, again)
            if late:
                trial.say(Verdict.WRONG, *late)

    def compare_runs(
        self,
        trial: Trial,
        first: Outputs,
        outputs: Outputs,
        missing: tuple[Unwritten, ...],
        ignore: Iterable[Unwritten],
        run: int | None = None,
    ) -> None:
        """Compare a repeated run with the first one, and with the reference if they differ.

        Args:
            missing: what this run did not write.
            ignore: what another run did not write.
            run: its number among the runs that share a sample of the rows; None if it is none of them.
        """
        fixed = {name: array for name, array in first.items() if must_repeat(self.job.plan, name)}
        different = not_repeated(first, outputs, (*ignore, *missing))
        if different and (sure := not_repeated(fixed, outputs, (*ignore, *missing))):
            trial.say(Verdict.NONDETERMINISTIC, *sure)
        if different or missing:
            self.compare(trial, outputs, missing)
        elif run is not None and trial.case.sampled:
            self.compare(trial, outputs, missing, run)

    def compare(self, trial: Trial, outputs: Outputs, missing: tuple[Unwritten, ...], run: int | None = None) -> None:
        """Compare the outputs of a run with the reference; ``run`` as in ``compare_runs``."""
        if not self.policy.check:
            trial.say(Verdict.UNCHECKED)
            return
        case = trial.case if run is None else trial.case.part(run, self.policy.repeats)
        comparison = compared(self.job.plan, case, outputs)
        spoilt = never_written(self.job.plan.problem, missing) + not_finite(trial.case, outputs)
        distrusted = comparison.verdict is Verdict.MISTRUSTED and comparison.distrust
        trial.say(comparison.verdict, *([distrusted] if distrusted else []))
        if trial.when and comparison.verdict is Verdict.WRONG:
            trial.say(Verdict.WRONG, "the outputs are beyond their budgets")
        if spoilt:
            trial.say(Verdict.WRONG, *spoilt)
        comparison, before = replace(comparison, notes=(*comparison.notes, *spoilt)), trial.comparison
        if before is None or badness(comparison) > badness(before):
            trial.comparison, trial.outputs = _counting(comparison, before, trial.case), outputs
        else:
            trial.comparison = _counting(before, comparison, trial.case)

    def _survived(self, trial: Trial, result: JobResult) -> bool:
        """Whether the run left outputs that can be examined."""
        if result.verdict is not None:
            trial.say(result.verdict, result.note or result.verdict.value)
            trial.log_tail = result.log_tail
            return False
        if result.distrust:
            trial.say(Verdict.MISTRUSTED, result.distrust)
            trial.log_tail = result.log_tail
        harm = [f"wrote {violation.text()}" for violation in self.arena.violations()]
        harm += [change.text() for change in self.arena.changed_inputs()]
        if harm:
            trial.harmed = True
            trial.say(Verdict.OUT_OF_BOUNDS, *harm)
        return True

"""The judge: one plan under several fills, to one verdict.

For every fill, the inputs are written into the arena. Then ``repeats`` times the outputs are poisoned, the plan runs, and
guards and inputs are checked for changes. The outputs are compared with the oracle and with each other, and a last look
shows whether anything was written after the launch had returned. ``recheck`` judges the row once more after launches
that were only timed. If several things are wrong with a row, the first of this list is its verdict, and the others stay in the notes:

1. CRASHED, TIMED_OUT, OUT_OF_MEMORY, LAUNCH_FAILED, NOT_RUN: there is no result. The remaining fills do not run.
2. OUT_OF_BOUNDS: it writes where it must not, so its outputs mean nothing. Its worker can no longer be trusted and is
   replaced. The remaining fills do not run. An emulated device also reports reads, and drops accesses outside all
   allocations; its worker is kept unless a guard was changed.
3. HAZARD: an emulated device found a fault that hardware would hide: a missing wait, a race in LDS, a register or LDS
   word that was never written, a barrier that not all waves reach. It precedes the next two, because it names their
   cause.
4. NONDETERMINISTIC: two runs of the same inputs differ. It precedes WRONG, because a race is the cause, and a wrong
   value is one of its effects that may be gone at the next try.
5. WRONG: an output is beyond its budget, never written, not finite, or changes after the launch has returned.
6. MISTRUSTED: right, but the data prove little (``oracle.measure.Worth``), no budget exists to judge it, or it ran only in a
   fresh worker.
7. UNCHECKED (nothing was compared), PASSED.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.domain.emulation import merged, summed
from fmha_cli.domain.features import CLOSED_FILLS
from fmha_cli.domain.phases import SILENT, Phase, Voice
from fmha_cli.domain.verdict import Judging, Verdict
from fmha_cli.oracle.tensors import appended_rows
from fmha_cli.run.arena import Arena, Unwritten
from fmha_cli.run.cases import Case, Cases
from fmha_cli.run.checks import (
    Outputs,
    badness,
    compared,
    differing,
    hazards,
    must_repeat,
    negated_inputs,
    never_written,
    not_finite,
    returned_again,
    with_rows_of,
    without_signed_zero,
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

    def say(self, verdict: Verdict, *notes: object) -> None:
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
        self.add(differences=(*self.outcome.differences, *different))
        if sure := [one for one in different if one.tensor in fixed]:
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
            self.add(comparisons=(with_rows_of(comparison, before, self.case),), outputs=outputs)
        else:
            self.add(comparisons=(with_rows_of(before, comparison, self.case),))

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


def judge(
    supervisor: Supervisor, job: WorkerJob, arena: Arena, cases: Cases, policy: JudgePolicy, voice: Voice = SILENT
) -> Outcome:
    """Judge one plan.

    Args:
        arena: the arena of the job's plan (``layout_of``), with gaps for a close look. Afterwards it holds the inputs
            of the last fill and may be used for timing.
        voice: hears the phases of the work.

    Raises:
        UsageError: no such fill.
        KeyboardInterrupt: the user interrupted.
    """
    trials, problem, names = list[Trial](), job.plan.problem, list(policy.fills)

    def begin(case: Case, verdict: Verdict, *notes: str) -> Trial:
        outcome = Outcome(verdict=verdict, notes=notes, fill=case.fill)
        trials.append(Trial(supervisor, job, arena, policy, case, outcome, voice))
        return trials[-1]

    for name in names:  # it grows
        try:
            trial = begin(cases.case(problem, name, stream=policy.stream, check=policy.check), Verdict.PASSED)
            _judge_fill(trial)
        except MemoryError as fault:
            note = f"fill {name}: no memory for inputs, outputs or reference ({fault})"
            begin(Case(problem, name, {}), Verdict.OUT_OF_MEMORY, note)
            break
        if trial.over:
            break
        if policy.all_rows and name == policy.fills[-1] and any(trial.case.sampled for trial in trials):
            unused = {closed: cases.without_closed_form(problem, closed) for closed in CLOSED_FILLS}
            names += [closed for closed, reason in unused.items() if reason is None]
            why = (f"fill {closed} is not used: {reason}" for closed, reason in unused.items() if reason)
            trial.add(notes=(*trial.outcome.notes, *why))
    if any(trial.harmed for trial in trials):
        supervisor.retire()
    return _summed([trial.outcome for trial in trials], policy.repeats, arena.guard_bytes)


def _judge_fill(trial: Trial) -> None:
    arena, policy = trial.arena, trial.policy
    arena.write(trial.case.inputs, appended_rows(trial.case.problem, trial.case.inputs))
    first: Outputs | None = None
    unwritten: tuple[Unwritten, ...] = ()
    for run in range(policy.repeats):
        outputs, returned = trial.launched(run), time.monotonic()
        if outputs is None:
            return
        missing = arena.unwritten()
        if first is None:
            first, unwritten = outputs, missing
            trial.add(outputs=outputs)
            trial.compare(outputs, missing, run)
        else:
            trial.compare_runs(first, outputs, missing, unwritten, run)
        if trial.over:
            return
        if policy.late and run == policy.repeats - 1:
            trial.look_late(outputs, returned)


def recheck(
    supervisor: Supervisor,
    job: WorkerJob,
    arena: Arena,
    cases: Cases,
    policy: JudgePolicy,
    judged: Outcome,
    *,
    timed: int,
    again: bool = True,
    voice: Voice = SILENT,
) -> Outcome:
    """Judge a row once more, after ``judge`` and the launches that followed it.

    First come the guards, the inputs and the outputs as those launches left them. Then the outputs are poisoned, and one
    more launch runs on negated data, so a kernel that skips its work or returns an earlier result is seen. No second
    reference is computed.

    A worker that the kernel has harmed is not replaced: the other kernel of a pair may still have to be rechecked in it.

    Args:
        judged: of one fill; the arena has held its inputs since.
        timed: number of launches that followed.
        again: whether to launch once more.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    assert judged.fill is not None
    case = cases.case(job.plan.problem, judged.fill, stream=policy.stream, check=policy.check)
    trial = Trial(supervisor, job, arena, policy, case, judged, voice)
    first = judged.outputs
    if timed and supervisor.holds(job, arena):
        trial.when = f"after {timed} timed launches: "
        if (left := trial.left()) is not None:
            trial.compare_runs(first, left)
    elif not timed:
        trial.look_late(first, 0.0 if again else time.monotonic())
    if again and not trial.over:
        _launch_negated(trial, first)
    repeats = judged.judging.repeats if judged.judging else 1
    return replace(_summed([trial.outcome], repeats, arena.guard_bytes), first=judged.first)


def _launch_negated(trial: Trial, first: Outputs) -> None:
    """One more launch on negated data, judged by the first launch's outputs and, where they differ, the reference."""
    arena, case = trial.arena, trial.case
    if not trial.supervisor.holds(trial.job, arena):
        trial.when = "in a fresh worker: "  # its first launch would prove nothing about later ones
        if trial.launched(0) is None:
            return
    negated = negated_inputs(case.problem, case.inputs)
    if negated is not None:
        arena.write(negated.inputs, appended_rows(case.problem, negated.inputs))
    trial.when = f"one more launch, {negated.what} negated: " if negated else "one more launch: "
    outputs, returned = trial.launched(1), time.monotonic()
    if outputs is None:
        return
    missing = arena.unwritten()
    skipped = never_written(case.problem, missing)
    if skipped and not trial.policy.check:  # what was written before and is not now needs no reference
        trial.say(Verdict.WRONG, *skipped)
    if negated is None:
        trial.compare_runs(first, outputs, missing)
    else:
        restored = negated.restored(outputs)
        stale = returned_again(first, restored, negated.outputs)
        if stale:
            trial.say(Verdict.WRONG, *stale)
        plain = [{name: without_signed_zero(array) for name, array in side.items()} for side in (first, restored)]
        if missing or differing(plain[0], plain[1], missing):
            trial.compare(restored, missing)
    trial.look_late(outputs, returned)


def _summed(every: Sequence[Outcome], repeats: int, guard_bytes: int) -> Outcome:
    """The outcome of all fills: the verdict, log and outputs of the worst, and what each of them has shown."""
    worst = max(every, key=lambda one: (SEVERITY.index(one.verdict), badness(next(iter(one.comparisons), None))))
    seen = [one.findings for one in every if one.findings is not None]
    stage_ns = tuple(times for one in every for times in one.stage_ns)
    return replace(
        worst,
        comparisons=tuple(comparison for one in every for comparison in one.comparisons),
        notes=tuple(note for one in every for note in one.notes),
        stage_ns=stage_ns,
        waited_ns=tuple(ns for one in every for ns in one.waited_ns),
        mistimed=next((one.mistimed for one in every if one.mistimed), None),
        findings=merged(finding for findings in seen for finding in findings) if seen else None,
        executed=next((one.executed for one in every if one.executed is not None), None),
        judging=Judging(repeats=repeats, launches=len(stage_ns), guard_bytes=guard_bytes),
        remarks=next((one.remarks for one in every if one.remarks), ()),
        first=next((one.first for one in every if one.first is not None), None),
    )

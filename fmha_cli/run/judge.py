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
6. MISTRUSTED: right, but the data prove little (``oracle.worth``), no budget exists to judge it, or it ran only in a
   fresh worker.
7. UNCHECKED (nothing was compared), PASSED.
"""

from __future__ import annotations

import time
from dataclasses import replace

from fmha_cli.domain.emulation import merged, summed
from fmha_cli.domain.features import CLOSED_FILLS
from fmha_cli.domain.phases import Tell, silent
from fmha_cli.domain.verdict import Judging, Verdict
from fmha_cli.oracle.tensors import appended_rows
from fmha_cli.run.arena import Arena, Unwritten
from fmha_cli.run.cases import Case, Cases
from fmha_cli.run.checks import Outputs, never_written, not_repeated, returned_again
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.negated import negated_inputs, without_signed_zero
from fmha_cli.run.outcome import Outcome
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.trial import SEVERITY, Examiner, JudgePolicy, Trial

__all__ = ["SEVERITY", "JudgePolicy", "judge", "recheck"]


def judge(
    supervisor: Supervisor,
    job: WorkerJob,
    arena: Arena,
    cases: Cases,
    policy: JudgePolicy,
    *,
    stream: str = "fmha",
    phase: Tell = silent,
) -> Outcome:
    """Judge one plan.

    Args:
        arena: the arena of the job's plan (``layout_of``), with gaps for a close look. Afterwards it holds the inputs
            of the last fill and may be used for timing.
        stream: the backend's dropout stream.
        phase: takes the phases of the work.

    Raises:
        UsageError: no such fill.
        KeyboardInterrupt: the user interrupted.
    """
    examiner, trials = Examiner(supervisor, job, arena, policy, phase), list[Trial]()
    names = list(policy.fills)
    for name in names:  # it grows
        try:
            trial = Trial(cases.case(job.plan.problem, name, stream=stream, check=policy.check))
            trials.append(trial)
            _judge_fill(examiner, trial)
        except MemoryError as fault:
            note = f"fill {name}: no memory for inputs, outputs or reference ({fault})"
            trials.append(Trial(Case(job.plan.problem, name, {}), Verdict.OUT_OF_MEMORY, notes=[note]))
            break
        if trial.over:
            break
        if policy.all_rows and name == policy.fills[-1] and any(trial.case.sampled for trial in trials):
            unused = {closed: cases.without_closed_form(job.plan.problem, closed) for closed in CLOSED_FILLS}
            names += [closed for closed, reason in unused.items() if reason is None]
            trial.notes += [f"fill {closed} is not used: {reason}" for closed, reason in unused.items() if reason]
    if any(trial.harmed for trial in trials):
        supervisor.retire()
    return _summed(trials, policy.repeats, arena.guard_bytes)


def _judge_fill(examiner: Examiner, trial: Trial) -> None:
    examiner.arena.write(trial.case.inputs, appended_rows(trial.case.problem, trial.case.inputs))
    first: Outputs | None = None
    unwritten: tuple[Unwritten, ...] = ()
    for run in range(examiner.policy.repeats):
        outputs, returned = examiner.launched(trial, run), time.monotonic()
        if outputs is None:
            return
        missing = examiner.arena.unwritten()
        if first is None:
            first, unwritten, trial.outputs = outputs, missing, outputs
            examiner.compare(trial, outputs, missing, run)
        else:
            examiner.compare_runs(trial, first, outputs, missing, unwritten, run)
        if trial.over:
            return
        if examiner.policy.late and run == examiner.policy.repeats - 1:
            examiner.look_late(trial, outputs, returned)


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
    stream: str = "fmha",
    phase: Tell = silent,
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
    examiner = Examiner(supervisor, job, arena, policy, phase)
    trial = Trial(
        cases.case(job.plan.problem, judged.fill, stream=stream, check=policy.check),
        judged.verdict,
        next(iter(judged.comparisons), None),
        list(judged.notes),
        judged.log or "",
        list(judged.stage_ns),
        list(judged.waited_ns),
        judged.mistimed,
        judged.outputs,
        remarks=judged.remarks,
    )
    first = judged.outputs
    if timed and supervisor.holds(job, arena):
        trial.when = f"after {timed} timed launches: "
        left = examiner.left(trial)
        if left is not None:
            examiner.compare_runs(trial, first, left, (), ())
    elif not timed:
        examiner.look_late(trial, first, 0.0 if again else time.monotonic())
    if again and not trial.over:
        _launch_negated(examiner, trial, first)
    before = judged.judging
    return replace(_summed([trial], before.repeats if before else 1, arena.guard_bytes), first=judged.first)


def _launch_negated(examiner: Examiner, trial: Trial, first: Outputs) -> None:
    """One more launch on negated data, judged by the first launch's outputs and, where they differ, the reference."""
    arena = examiner.arena
    if not examiner.supervisor.holds(examiner.job, arena):
        trial.when = "in a fresh worker: "  # its first launch would prove nothing about later ones
        if examiner.launched(trial, 0) is None:
            return
    negated = negated_inputs(trial.case.problem, trial.case.inputs)
    if negated is not None:
        arena.write(negated.inputs, appended_rows(trial.case.problem, negated.inputs))
    trial.when = f"one more launch, {negated.what} negated: " if negated else "one more launch: "
    outputs, returned = examiner.launched(trial, 1), time.monotonic()
    if outputs is None:
        return
    missing = arena.unwritten()
    skipped = never_written(trial.case.problem, missing)
    if skipped and not examiner.policy.check:  # what was written before and is not now needs no reference
        trial.say(Verdict.WRONG, *skipped)
    if negated is None:
        examiner.compare_runs(trial, first, outputs, missing, ())
    else:
        restored = negated.restored(outputs)
        stale = returned_again(first, restored, negated.outputs)
        if stale:
            trial.say(Verdict.WRONG, *stale)
        plain = [{name: without_signed_zero(array) for name, array in side.items()} for side in (first, restored)]
        if missing or not_repeated(plain[0], plain[1], missing):
            examiner.compare(trial, restored, missing)
    examiner.look_late(trial, outputs, returned)


def _summed(trials: list[Trial], repeats: int, guard_bytes: int) -> Outcome:
    worst = max(trials, key=lambda trial: trial.badness)
    seen = [one for trial in trials for one in trial.observed]
    return Outcome(
        verdict=worst.verdict,
        comparisons=tuple(trial.comparison for trial in trials if trial.comparison is not None),
        notes=tuple(note for trial in trials for note in trial.notes),
        log=worst.log_tail or None,
        stage_ns=tuple(times for trial in trials for times in trial.stage_ns),
        waited_ns=tuple(ns for trial in trials for ns in trial.waited_ns),
        mistimed=next((trial.mistimed for trial in trials if trial.mistimed), None),
        fill=worst.case.fill,
        outputs=worst.outputs,
        findings=merged(f for one in seen for f in one.findings) if seen else None,
        executed=summed(seen[0].executed) if seen else None,
        judging=Judging(
            repeats=repeats, launches=sum(len(trial.stage_ns) for trial in trials), guard_bytes=guard_bytes
        ),
        remarks=next((trial.remarks for trial in trials if trial.remarks), ()),
        first=next((trial.first for trial in trials if trial.first is not None), None),
    )

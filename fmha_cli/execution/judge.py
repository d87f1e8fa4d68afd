"""The judge: one plan under several fills, to one verdict.

For every fill, the inputs are written into the arena. Then ``repeats`` times the outputs are poisoned, the plan runs, and
guards and inputs are checked for changes. The outputs are compared with the oracle and with each other. If several
things are wrong with a row, the first of this list is its verdict, and the others stay in the notes:

1. CRASHED, TIMED_OUT, OUT_OF_MEMORY, LAUNCH_FAILED, NOT_RUN: there is no result. The remaining fills do not run.
2. OUT_OF_BOUNDS: it writes where it must not, so its outputs mean nothing. Its worker can no longer be trusted and is
   replaced. The remaining fills do not run. An emulated device also reports reads, and drops accesses outside all
   allocations; its worker is kept unless a guard was changed.
3. HAZARD: an emulated device found a fault that hardware would hide: a missing wait, a race in LDS, a register or LDS
   word that was never written, a barrier that not all waves reach. It precedes the next two, because it names their
   cause.
4. NONDETERMINISTIC: two runs of the same inputs differ. It precedes WRONG, because a race is the cause, and a wrong
   value is one of its effects that may be gone at the next try.
5. WRONG: an output is beyond its budget, never written, or not finite.
6. MISTRUSTED: right, but the data prove little (``oracle.diagnose``), there is no budget to judge it by, or it ran only
   in a fresh worker.
7. UNCHECKED (nothing was compared), PASSED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fmha_cli.domain.emulation import Executed, Finding, Observed, merged, summed
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.execution.arena import Arena, Unwritten
from fmha_cli.execution.cases import Case, Cases
from fmha_cli.execution.checks import (
    Outputs,
    compared,
    hazards,
    must_repeat,
    never_written,
    not_finite,
    not_repeated,
)
from fmha_cli.execution.job import Job
from fmha_cli.execution.supervisor import JobResult, Supervisor
from fmha_cli.oracle.tensors import Array

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


@dataclass(frozen=True, kw_only=True)
class JudgePolicy:
    """The settings of a judgement.

    Attributes:
        fills: names of the data, in order.
        repeats: number of runs of each fill.
        check: compare with the oracle. The guards are watched in any case.
        timeout: seconds for each run; None = no limit.
    """

    fills: tuple[str, ...] = ("normal",)
    repeats: int = 1
    check: bool = True
    timeout: float | None = None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The judgement on a row.

    Attributes:
        comparisons: one for each fill that ran to its end, in order.
        notes: the observations behind the verdict, each with its fill.
        log_tail: the end of the worker's output if a run failed.
        stage_ns: nanoseconds of every launch, in order (the first includes page faults and cold caches).
        fill: the worst fill.
        outputs: what the kernel returned under it, for ``--out`` and saved failures.
        findings: the findings of an emulated device over all runs; None on other devices.
        executed: its counts of the first run; None on other devices.
    """

    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    log_tail: str = ""
    stage_ns: tuple[tuple[int, ...], ...] = ()
    fill: str | None = None
    outputs: Mapping[str, Array] = field(default_factory=dict)
    findings: tuple[Finding, ...] | None = None
    executed: tuple[Executed, ...] | None = None


@dataclass
class _Fill:
    """One fill while it is being judged."""

    case: Case
    verdict: Verdict = Verdict.PASSED
    comparison: Comparison | None = None
    notes: list[str] = field(default_factory=list)
    log_tail: str = ""
    stage_ns: list[tuple[int, ...]] = field(default_factory=list)
    outputs: Outputs = field(default_factory=dict)
    observed: list[Observed] = field(default_factory=list)

    def say(self, verdict: Verdict, *notes: str) -> None:
        """Make the verdict at least as bad as this."""
        self.verdict = max(self.verdict, verdict, key=SEVERITY.index)
        self.notes += [f"fill {self.case.fill}: {note}" for note in notes]


def judge(
    supervisor: Supervisor, job: Job, arena: Arena, cases: Cases, policy: JudgePolicy, *, stream: str = "fmha"
) -> Judged:
    """Judge one plan.

    Args:
        arena: the arena of the job's plan (``layout_of``), with gaps for a close look. Afterwards it holds the inputs
            of the last fill and may be used for timing.
        stream: the backend's dropout stream.

    Raises:
        UsageError: no such fill.
        KeyboardInterrupt: the user interrupted.
    """
    fills: list[_Fill] = []
    for name in policy.fills:
        try:
            fill = _Fill(cases.case(job.plan.problem, name, stream=stream, check=policy.check))
            fills.append(fill)
            _judge_fill(supervisor, job, arena, policy, fill)
        except MemoryError as fault:
            note = f"fill {name}: no memory for inputs, outputs or reference ({fault})"
            return _summed([*fills, _Fill(Case(job.plan.problem, name, {}), Verdict.OUT_OF_MEMORY, notes=[note])])
        if SEVERITY.index(fill.verdict) >= _LAST:
            break
    return _summed(fills)


def _judge_fill(supervisor: Supervisor, job: Job, arena: Arena, policy: JudgePolicy, fill: _Fill) -> None:
    arena.write(fill.case.inputs)
    first: Outputs | None = None
    unwritten: tuple[Unwritten, ...] = ()
    for run in range(policy.repeats):
        if SEVERITY.index(fill.verdict) >= _LAST:
            return
        arena.prepare(run)
        result = supervisor.run(job, arena, timeout=policy.timeout)
        fill.stage_ns += result.stage_ns
        if not _survived(supervisor, arena, result, fill):
            return
        missing, outputs = arena.unwritten(), arena.read()
        if first is None:
            first, unwritten, fill.outputs = outputs, missing, outputs
            _compare(job, policy, fill, outputs, missing)
            continue
        different = not_repeated(first, outputs, (*unwritten, *missing))
        if different and must_repeat(job.plan):
            fill.say(Verdict.NONDETERMINISTIC, *different)
        if different or missing:
            _compare(job, policy, fill, outputs, missing)


def _survived(supervisor: Supervisor, arena: Arena, result: JobResult, fill: _Fill) -> bool:
    """Whether the run left outputs that can be examined."""
    if result.observed is not None:
        fill.observed.append(result.observed)
        for verdict, notes in hazards(result.observed.findings):
            fill.say(verdict, *notes)
    if result.verdict is not None:
        fill.say(result.verdict, result.note or result.verdict.value)
        fill.log_tail = result.log_tail
        return False
    if result.distrust:
        fill.say(Verdict.MISTRUSTED, result.distrust)
        fill.log_tail = result.log_tail
    harm = [f"wrote {violation.text()}" for violation in arena.violations()]
    harm += [change.text() for change in arena.changed_inputs()]
    if harm:
        fill.say(Verdict.OUT_OF_BOUNDS, *harm)
        supervisor.retire()
    return True


def _compare(job: Job, policy: JudgePolicy, fill: _Fill, outputs: Outputs, missing: tuple[Unwritten, ...]) -> None:
    if not policy.check:
        fill.say(Verdict.UNCHECKED)
        return
    comparison = compared(job.plan, fill.case, outputs)
    spoilt = never_written(job.plan.problem, missing) + not_finite(fill.case, outputs)
    distrusted = comparison.verdict is Verdict.MISTRUSTED and comparison.distrust
    fill.say(comparison.verdict, *([distrusted] if distrusted else []))
    if spoilt:
        fill.say(Verdict.WRONG, *spoilt)
    if fill.comparison is None or _badness(comparison) > _badness(fill.comparison):
        fill.comparison, fill.outputs = replace(comparison, notes=(*comparison.notes, *spoilt)), outputs


def _badness(comparison: Comparison) -> float:
    return max((check.badness for _, check in comparison.checks), default=0.0)


def _summed(fills: list[_Fill]) -> Judged:
    worst = max(fills, key=lambda f: (SEVERITY.index(f.verdict), _badness(f.comparison) if f.comparison else 0.0))
    seen = [one for fill in fills for one in fill.observed]
    return Judged(
        verdict=worst.verdict,
        comparisons=tuple(fill.comparison for fill in fills if fill.comparison is not None),
        notes=tuple(note for fill in fills for note in fill.notes),
        log_tail=worst.log_tail,
        stage_ns=tuple(times for fill in fills for times in fill.stage_ns),
        fill=worst.case.fill,
        outputs=worst.outputs,
        findings=merged(f for one in seen for f in one.findings) if seen else None,
        executed=summed(seen[0].executed) if seen else None,
    )

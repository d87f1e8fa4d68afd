"""``Verdict``: the closed set of outcomes, what each means for the exit code, and the checks behind one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.errors import ExitCode


class Verdict(StrEnum):
    """What became of one row."""

    PASSED = "PASSED"
    UNCHECKED = "UNCHECKED"
    MISTRUSTED = "MISTRUSTED"
    WRONG = "WRONG"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    HAZARD = "HAZARD"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    UNSUPPORTED = "UNSUPPORTED"
    BUILD_FAILED = "BUILD_FAILED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NOT_RUN = "NOT_RUN"

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT[self]


_EXIT = {
    Verdict.PASSED: ExitCode.OK,
    Verdict.UNCHECKED: ExitCode.OK,
    Verdict.MISTRUSTED: ExitCode.WRONG,
    Verdict.WRONG: ExitCode.WRONG,
    Verdict.NONDETERMINISTIC: ExitCode.WRONG,
    Verdict.HAZARD: ExitCode.WRONG,
    Verdict.OUT_OF_BOUNDS: ExitCode.WRONG,
    Verdict.UNSUPPORTED: ExitCode.UNSUPPORTED,
    Verdict.NOT_RUN: ExitCode.ENVIRONMENT,
    Verdict.BUILD_FAILED: ExitCode.FAILED,
    Verdict.LAUNCH_FAILED: ExitCode.FAILED,
    Verdict.CRASHED: ExitCode.FAILED,
    Verdict.TIMED_OUT: ExitCode.FAILED,
    Verdict.OUT_OF_MEMORY: ExitCode.FAILED,
}

_PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.INTERNAL,
    ExitCode.WRONG,
    ExitCode.FAILED,
    ExitCode.ENVIRONMENT,
    ExitCode.UNSUPPORTED,
    ExitCode.OK,
)


def exit_code_of(verdicts: Iterable[Verdict], *, interrupted: bool = False) -> ExitCode:
    """The exit code of a run; an unsupported row counts only when every row is unsupported."""
    rows = list(verdicts)
    codes = {v.exit_code for v in rows}
    if any(v is not Verdict.UNSUPPORTED for v in rows):
        codes.discard(ExitCode.UNSUPPORTED)
    if interrupted:
        codes.add(ExitCode.INTERRUPTED)
    return next((code for code in _PRECEDENCE if code in codes), ExitCode.OK)


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one output compares with the reference under one fill (contract, section 7, ``checks``).

    Attributes:
        row_l2: max over rows of |o - ref| / max(|ref|, floor); budgets are what the rule allows.
        nonfinite: elements that are non-finite where the reference is finite, or the other way round.
        rows: rows compared.
        worst: where the worst row is, for people.
        rms: root mean square of the rows' quotients, which sees what stays below the limit of a single row;
            None where the rule does not apply.
    """

    row_l2: float
    row_l2_budget: float
    max_abs: float
    max_abs_budget: float
    nonfinite: int
    rows: int
    fill: str
    worst: str | None = None
    rms: float | None = None
    rms_budget: float | None = None

    @property
    def passed(self) -> bool:
        return self.nonfinite == 0 and all(value <= budget for value, budget in self._limits)

    @property
    def _limits(self) -> tuple[tuple[float, float], ...]:
        rows = ((self.row_l2, self.row_l2_budget), (self.max_abs, self.max_abs_budget))
        return rows if self.rms is None or self.rms_budget is None else (*rows, (self.rms, self.rms_budget))

    @property
    def badness(self) -> float:
        """How much of the budget is used; above 1 fails. Orders fills from best to worst."""
        if self.nonfinite or any(value != value for value, _ in self._limits):
            return float("inf")
        return max((value / budget if budget > 0 else float(value > 0) * 1e308) for value, budget in self._limits)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Checks of all outputs under one fill; ``distrust`` says why a pass would mean little."""

    checks: tuple[tuple[str, Check], ...]
    distrust: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if not all(check.passed for _, check in self.checks):
            return Verdict.WRONG
        return Verdict.MISTRUSTED if self.distrust else Verdict.PASSED

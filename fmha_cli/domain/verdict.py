"""``Verdict``: the closed set of outcomes, the effect of each on the exit code, and the checks behind a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.members import Count, Least, NullWhenNotFinite


class Verdict(StrEnum):
    """The outcome of one row. ``docs/reference/verdicts.md`` is made from the text under each."""

    PASSED = "PASSED"
    """Every output is within its budget of the reference, and no other check objects."""
    UNCHECKED = "UNCHECKED"
    """The kernel ran, and its outputs were not compared with the reference (``--no-check``)."""
    MISTRUSTED = "MISTRUSTED"
    """The outputs are right, but the data prove little, or the times cannot be true. The reasons say which."""
    WRONG = "WRONG"
    """An output is beyond its budget, was never written, is not finite, or changed after the launch had returned."""
    NONDETERMINISTIC = "NONDETERMINISTIC"
    """Two launches with the same inputs returned different outputs."""
    HAZARD = "HAZARD"
    """An emulated device found a fault that hardware would hide: a race, a missing wait, a read of unwritten memory."""
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    """The kernel wrote outside its outputs: into a guard zone, an input, or rows that it must not change."""
    UNSUPPORTED = "UNSUPPORTED"
    """No kernel serves the problem. The reasons say why."""
    BUILD_FAILED = "BUILD_FAILED"
    """The kernel did not compile."""
    LAUNCH_FAILED = "LAUNCH_FAILED"
    """The device or its driver refused the kernel."""
    CRASHED = "CRASHED"
    """The kernel ended its process, or ruined its device's context."""
    TIMED_OUT = "TIMED_OUT"
    """The row took longer than ``--timeout``."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """The host or the device has too little memory for the row."""
    NOT_RUN = "NOT_RUN"
    """Nothing ran: no device or compiler is here, it was a dry run, or the run was interrupted before this row."""

    @property
    def exit_code(self) -> ExitCode:
        return next(code for code, verdicts in _BY_PRECEDENCE.items() if self in verdicts)

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the row: it may win, be remembered, and be compared by its times."""
        return self.exit_code is ExitCode.OK

    @property
    def proves_nothing(self) -> bool:
        """Whether the row says neither that the kernel is right nor that it is wrong."""
        return self in (Verdict.UNCHECKED, Verdict.UNSUPPORTED, Verdict.NOT_RUN)


_BY_PRECEDENCE: Mapping[ExitCode, tuple[Verdict, ...]] = MappingProxyType(
    {
        ExitCode.INTERRUPTED: (),
        ExitCode.INTERNAL: (),
        ExitCode.WRONG: (
            Verdict.MISTRUSTED, Verdict.WRONG, Verdict.NONDETERMINISTIC, Verdict.HAZARD, Verdict.OUT_OF_BOUNDS,
        ),
        ExitCode.FAILED: (
            Verdict.BUILD_FAILED, Verdict.LAUNCH_FAILED, Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY,
        ),
        ExitCode.ENVIRONMENT: (Verdict.NOT_RUN,),
        ExitCode.UNSUPPORTED: (Verdict.UNSUPPORTED,),
        ExitCode.OK: (Verdict.PASSED, Verdict.UNCHECKED),
    }
)  # fmt: skip
"""The exit codes of a run, the strongest first, with the verdicts that give each."""


def exit_code_of(verdicts: Iterable[Verdict], *, interrupted: bool = False) -> ExitCode:
    """The exit code of a run; an unsupported row counts only when every row is unsupported."""
    rows = list(verdicts)
    codes = {v.exit_code for v in rows}
    if any(v is not Verdict.UNSUPPORTED for v in rows):
        codes.discard(ExitCode.UNSUPPORTED)
    if interrupted:
        codes.add(ExitCode.INTERRUPTED)
    return next((code for code in _BY_PRECEDENCE if code in codes), ExitCode.OK)


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one output compares with the reference under one fill (contract, section 7, ``checks``).

    The budgets are the errors that the rule allows. ``rms`` detects errors that stay below the limit of a single row.
    """

    row_l2: Annotated[
        float, NullWhenNotFinite(), "max over rows of |o - ref| / max(|ref|, floor); null: not finite, see notes"
    ]
    row_l2_budget: Annotated[float, NullWhenNotFinite()]
    max_abs: Annotated[float, NullWhenNotFinite()]
    max_abs_budget: Annotated[float, NullWhenNotFinite()]
    nonfinite: Annotated[int, Least(0), "elements of another kind (finite, NaN, infinite) than the reference's"]
    rows: Count
    fill: str
    worst: Annotated[str | None, "where the worst row is"] = None
    column: Annotated[Count | None, "element of the worst row with the largest error; null: rows have one element"] = (
        None
    )
    rms: Annotated[float | None, "root mean square of the rows' quotients; null: no such limit"] = None
    rms_budget: float | None = None
    rows_total: Annotated[Count | None, "rows that the output has; more than rows: a sample was checked"] = None

    @property
    def passed(self) -> bool:
        return self.nonfinite == 0 and all(value <= budget for value, budget in self._limits)

    @property
    def _limits(self) -> tuple[tuple[float, float], ...]:
        rows = ((self.row_l2, self.row_l2_budget), (self.max_abs, self.max_abs_budget))
        return rows if self.rms is None or self.rms_budget is None else (*rows, (self.rms, self.rms_budget))

    @property
    def limit(self) -> Literal["row", "element", "rms", "finite"]:
        """The limit of which the largest share is used (``docs/explanation/numerics.md``, the judging rule)."""
        if self.badness == float("inf"):
            return "finite"
        names: tuple[Literal["row", "element", "rms"], ...] = ("row", "element", "rms")
        shares = [value / budget if budget > 0 else float(value > 0) for value, budget in self._limits]
        return names[shares.index(max(shares))]

    @property
    def badness(self) -> float:
        """The share of the budget that is used; above 1 fails. It orders fills from best to worst."""
        if self.nonfinite or any(value != value for value, _ in self._limits):
            return float("inf")
        return max((value / budget if budget > 0 else float(value > 0) * 1e308) for value, budget in self._limits)


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How closely a row was looked at.

    Attributes:
        repeats: launches of each fill that had to agree bit for bit.
        launches: launches whose outputs, guards and inputs were examined, over all fills.
        guard_bytes: bytes outside of all tensors that were watched for writes.
    """

    repeats: Count
    launches: Count
    guard_bytes: Count


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Checks of all outputs under one fill; ``distrust``: why a pass would prove little."""

    checks: tuple[tuple[str, Check], ...]
    distrust: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if not all(check.passed for _, check in self.checks):
            return Verdict.WRONG
        return Verdict.MISTRUSTED if self.distrust else Verdict.PASSED

"""``fmha.invariance/1``: whether the result of a sequence changes with what is around it, property by property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from fmha_cli.domain.invariance import BitDifference, Invariance
from fmha_cli.domain.members import Count, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Color, Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, counted
from fmha_cli.report.parts import Environment, KernelRow
from fmha_cli.report.table import Table


class InvarianceOutcome(StrEnum):
    """What was found about one property."""

    HELD = "HELD"
    """Every bit is the same."""
    DIFFERS = "DIFFERS"
    """Bits differ, and nobody promised that they would not."""
    BROKEN = "BROKEN"
    """Bits differ although the kernel promises that they do not, or ``--require`` demands it."""
    NOT_APPLICABLE = "NOT_APPLICABLE"
    """The problem has nothing to change, or the formulas give another result then; the reason says which."""
    UNSUPPORTED = "UNSUPPORTED"
    """No kernel serves the problem, or the changed one."""
    FAILED = "FAILED"
    """A launch of the changed problem failed, or wrote where it must not."""
    NOT_RUN = "NOT_RUN"
    """Nothing ran: no device, no compiler, or the run was interrupted."""

    def verdict(self, launched: Verdict) -> Verdict:
        """The verdict with the same effect on the exit code.

        Args:
            launched: of the launch that failed.
        """
        return launched if self is InvarianceOutcome.FAILED else _EFFECTS[self]


_EFFECTS = {
    InvarianceOutcome.HELD: Verdict.PASSED,
    InvarianceOutcome.DIFFERS: Verdict.UNCHECKED,
    InvarianceOutcome.BROKEN: Verdict.WRONG,
    InvarianceOutcome.NOT_APPLICABLE: Verdict.UNCHECKED,
    InvarianceOutcome.UNSUPPORTED: Verdict.UNSUPPORTED,
    InvarianceOutcome.NOT_RUN: Verdict.NOT_RUN,
}


class DifferingStage(StrEnum):
    """What makes the results differ: the first of these that makes them equal again when it is held."""

    RUN = "run"
    """Nothing changed: launches of the same inputs differ."""
    KERNEL = "kernel"
    """Another kernel was chosen."""
    SPLIT = "split"
    """The keys were split in another number of parts."""
    THREAD = "thread"
    """The work was divided among other threads: with one thread the results are the same."""
    TILE = "tile"
    """Kernel, splits and threads are the same: the place within a tile, or among the tiles, changes the order of a sum."""


@dataclass(frozen=True, kw_only=True)
class InvariantRow:
    """One property of one problem and kernel."""

    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    repro: Annotated[str, "command line that gives the problem's rows"]
    backend: str | None
    device: str | None
    arch: str | None
    kernel: Annotated[KernelRow | None, "of the sequence alone"]
    splits: Count | None
    verdict: Annotated[
        Verdict | None, "of the launch that failed, else of the sequence alone, by the reference; null: it did not run"
    ]
    property: Invariance
    outcome: InvarianceOutcome
    promised: Annotated[bool | None, "null: the backend states no promises"]
    required: Annotated[bool, "by --require"]
    change: Annotated[str | None, "what was changed; of several changes the one that differs first"]
    changed: Annotated[str | None, "flags of the changed problem"]
    changed_kernel: Annotated[KernelRow | None, "that serves the changed problem"]
    changed_splits: Count | None
    stage: DifferingStage | None
    place: Annotated[Count | None, "of the sequence in the changed problem's batch"]
    difference: BitDifference | None
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class InvariancePage:
    """validate --invariant --json: bitwise invariance, a row for each property of each problem and kernel."""

    schema: Literal["fmha.invariance/1"] = "fmha.invariance/1"
    environment: Environment
    counts: Annotated[Mapping[InvarianceOutcome, int], ShownAs(Mapping[InvarianceOutcome, Count])]
    rows: tuple[InvariantRow, ...]


def invariance_document(rows: Sequence[InvariantRow], environment: Environment) -> InvariancePage:
    """The document of all rows."""
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in InvarianceOutcome}
    return InvariancePage(environment=environment, counts=counts, rows=tuple(rows))


_PAINT = {
    InvarianceOutcome.HELD: Color.GREEN,
    InvarianceOutcome.DIFFERS: Color.YELLOW,
    InvarianceOutcome.BROKEN: Color.RED,
    InvarianceOutcome.FAILED: Color.RED,
}
_COLUMNS = (
    Column("problem", path="repro", fit=Fit.FOLD, least=24, common="{}".format, rank=3),
    Column("backend", path="backend", common="{}".format, rank=1),
    Column("device", path="device", common="on {}".format, rank=2),
    Column("kernel", path="kernel.digest", common="kernel {}".format, rank=4),
    Column("property", path="property"),
    Column("outcome", path="outcome", paint={outcome.value: color for outcome, color in _PAINT.items()}),
    Column("promised", path="promised", rank=1),
    Column("stage", path="stage", rank=1),
    Column("what", fit=Fit.FOLD, least=30, path="change"),
)


def _promise(row: InvariantRow) -> str:
    said = {True: "yes", False: "no", None: ""}[row.promised]
    return "required" if row.required else said


def _what(row: InvariantRow) -> Iterator[str]:
    """The change and the first difference, or why there is none."""
    for reason in row.reasons[:1]:
        rest = len(row.reasons) - 1
        more = f" (and {counted(rest, 'more reason')})" if rest else ""
        yield f"{reason.id} {reason.text}{more}"
    if row.change is not None:
        yield row.change
    if row.changed_kernel is not None and row.kernel is not None and row.changed_kernel.digest != row.kernel.digest:
        yield f"by kernel {row.changed_kernel.digest[:SHORT]}"
    if row.changed_splits not in (None, row.splits) and row.property is not Invariance.SPLITS:
        yield f"in {counted(row.changed_splits or 0, 'split')}, not {row.splits}"
    if row.difference is not None:
        yield f"{row.difference}{f', at place {row.place}' if row.place else ''}"
    if row.outcome in (InvarianceOutcome.FAILED, InvarianceOutcome.NOT_RUN):
        yield from row.notes[:1]


def invariance_view(document: InvariancePage) -> Table:
    """One line for each property; below, the problems whose sequence alone is not right."""
    lines, wrong = [], dict[str, None]()
    for row in document.rows:
        kernel = "" if row.kernel is None else row.kernel.digest[:SHORT]
        cells = [row.repro, row.backend or "", row.device or "", kernel, row.property.value, row.outcome.value]
        lines.append([*cells, _promise(row), row.stage.value if row.stage else "", "; ".join(_what(row))])
        if row.verdict is not None and not row.verdict.good and row.outcome is not InvarianceOutcome.FAILED:
            wrong[f"  {row.verdict} alone: {row.repro}: {'; '.join(row.notes[:2])}"] = None
    summary = ", ".join(f"{number} {outcome}" for outcome, number in document.counts.items() if number)
    return Table(list(_COLUMNS), lines, summary, list(wrong))


DOCUMENTS = (Document(InvariancePage, invariance_view, rows="rows", columns=_COLUMNS),)

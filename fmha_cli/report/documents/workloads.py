"""``fmha.workloads/1``: the calls of a workload's file with their counts; ``fmha.workload/1``: a line of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.members import Count, Least, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.workload import RecordedCall, Workload, WorkloadCall, WorkloadKind
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, problem_text, reason_text
from fmha_cli.report.table import Table, table_by


@dataclass(frozen=True, kw_only=True)
class WorkloadRow:
    """A distinct call."""

    count: Annotated[int, Least(1), "how often it is called"]
    place: Annotated[str, "where the file has it first"]
    problem: Annotated[Mapping[str, Any] | None, ShownAs(Problem | None)]
    flags: Annotated[str | None, "of fmha run, for the problem"]
    reason: Annotated[Reason | None, "why no problem describes it"]

    @staticmethod
    def of(call: WorkloadCall) -> WorkloadRow:
        """The row of a call."""
        problem = call.problem
        return WorkloadRow(
            count=call.count,
            place=call.place,
            problem=None if problem is None else problem.to_dict(),
            flags=None if problem is None else problem.repro(),
            reason=call.reason,
        )


@dataclass(frozen=True, kw_only=True)
class Workloads:
    """workloads --json: the distinct calls of a file; total = mapped + refused."""

    schema: Literal["fmha.workloads/1"] = "fmha.workloads/1"
    path: str
    kind: Annotated[WorkloadKind, "what wrote the file"]
    total: Annotated[Count, "attention calls of the file"]
    mapped: Annotated[Count, "calls that a problem describes"]
    refused: Annotated[Count, "the others"]
    rows: tuple[WorkloadRow, ...]


def workloads_document(workload: Workload) -> Workloads:
    """The document of a workload."""
    return Workloads(
        path=workload.path,
        kind=workload.kind,
        total=workload.total,
        mapped=workload.total - workload.refused,
        refused=workload.refused,
        rows=tuple(map(WorkloadRow.of, workload.calls)),
    )


def refused_rows(workload: Workload | None) -> tuple[WorkloadRow, ...]:
    """The calls that no problem describes; none without a workload."""
    return tuple(WorkloadRow.of(call) for call in (workload.calls if workload else ()) if call.problem is None)


def refused_lines(rows: Sequence[WorkloadRow], shown: int = 5) -> list[str]:
    """One line for each of the first rows that have a reason, and one for the others."""
    lines = [f"  {counted(row.count, 'call')} without a problem: {_reason(row)}" for row in rows[:shown]]
    rest = sum(row.count for row in rows[shown:])
    return [*lines, f"  {counted(rest, 'call')} more without a problem: `fmha workloads` lists them"] if rest else lines


def _reason(row: WorkloadRow) -> str:
    return "" if row.reason is None else f"{row.place}: {reason_text(row.reason)}"


_COLUMNS = (
    Column("calls", lambda row: str(row.count), number=True, path="count"),
    Column(
        "problem, or the reason",
        lambda row: _reason(row) if row.problem is None else problem_text(row.problem),
        fit=Fit.FOLD,
        least=30,
    ),
    Column("place", lambda row: "" if row.problem is None else row.place, path="place", fit=Fit.END, rank=1),
)


def workloads_view(document: Workloads) -> Table:
    """One line for each distinct call: its problem, or the reason why it has none."""
    problems = sum(row.problem is not None for row in document.rows)
    summary = f"{document.path} ({document.kind}): {counted(document.total, 'call')} = {document.mapped} of "
    summary += f"{counted(problems, 'problem')} + {document.refused} without a problem"
    return table_by(_COLUMNS, document.rows, summary)


DOCUMENTS = (
    Document(Workloads, workloads_view, rows="rows", columns=_COLUMNS),
    Document(RecordedCall, about="A line of a recording that --workload reads: a distinct call with its count."),
)

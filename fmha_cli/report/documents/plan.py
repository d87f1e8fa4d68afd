"""``fmha.plan/1``: the stages that would solve a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.members import Count, Least, Sha256, ShownAs
from fmha_cli.domain.plan import Plan, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import size
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, counted, folded, labels, problem_text, reason_text
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """One stage, with what is known about its launch."""

    family: Family
    kernel: str
    digest: Sha256
    upstream_name: str | None
    detail: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PlanPage:
    """plan --json; kernel is null, with reasons, where nothing serves the problem."""

    schema: Literal["fmha.plan/1"] = "fmha.plan/1"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    backend: str | None = None
    arch: str | None = None
    device: str | None = None
    kernel: Annotated[str | None, "the main one"] = None
    splits: Annotated[int | None, Least(1)] = None
    stages: tuple[PlannedStage, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    workspace_bytes: Count | None = None
    predicted_bytes: Annotated[Count | None, "every tensor once, and the workspaces"] = None
    reasons: tuple[Reason, ...] = ()


def plan_document(
    problem: Problem,
    plan: Plan | None,
    device: str | None = None,
    upstream_names: Sequence[str | None] = (),
    reasons: Sequence[Reason] = (),
) -> PlanPage:
    """The document of a plan; if there is no plan, of the reasons.

    ``upstream_names`` are those of the stages, in the same order.
    """
    if plan is None:
        return PlanPage(problem=problem.to_dict(), device=device, reasons=tuple(reasons))
    names = (*upstream_names, *(None,) * len(plan.stages))
    stages = tuple(
        taken_from(stage.kernel, PlannedStage, kernel=stage.kernel.name, upstream_name=name, detail=dict(stage.detail))
        for stage, name in zip(plan.stages, names, strict=False)
    )
    return taken_from(
        plan,
        PlanPage,
        schema=PlanPage.schema,
        problem=problem.to_dict(),
        backend=plan.main.backend,
        arch=plan.main.arch,
        device=device,
        kernel=plan.main.name,
        stages=stages,
        reasons=tuple(reasons),
    )


def plan_view(document: PlanPage) -> Table:
    """Stages in launch order with their grids; below, their other details and the workspaces."""
    rows, details = [], []
    for i, stage in enumerate(document.stages, 1):
        more = dict(stage.detail)
        rows.append([str(i), stage.digest[:SHORT], labels([stage.kernel])[stage.kernel], more.pop("grid", "")])
        details += [f"  stage {i}, {key}: {value}" for key, value in more.items()]
    details += [f"  workspace {one.name}: {size(one.bytes)}" for one in document.workspaces]
    details += [reason_text(reason) for reason in folded(document.reasons)]
    summary = problem_text(document.problem)
    if document.kernel is None:
        return Table([], [], f"{summary}: no kernel serves this problem", details)
    summary += f": {counted(len(rows), 'stage')}, {size(document.predicted_bytes)} of memory"
    columns = (
        Column("stage", number=True),
        Column("digest"),
        Column("kernel", fit=Fit.FOLD, least=30),
        Column("grid", fit=Fit.FOLD, rank=1),
    )
    return Table(columns, rows, summary, details)


DOCUMENTS = (Document(PlanPage, plan_view, rows="stages"),)

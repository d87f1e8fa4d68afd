"""``fmha.explain/1``: which kernels serve a problem, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.decision import Decision, Trace
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Least, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.document import Document
from fmha_cli.report.lines import labels, problem_text, reason_text
from fmha_cli.report.table import Table

_MOST_REFUSALS = 20
_MOST_BESIDE = 5  # refusals matter less when some kernel serves the problem


@dataclass(frozen=True, kw_only=True)
class DecisionRow:
    """The answer for one kernel, or for a whole backend."""

    backend: str
    arch: str
    kernel: Annotated[str | None, "name; null for a whole backend"]
    supported: bool
    rank: Annotated[int | None, Least(1), "among the supported, 1 is best"]
    reasons: tuple[Reason, ...]

    @staticmethod
    def of(decision: Decision, rank: int | None = None) -> DecisionRow:
        """The row of a decision. The decision is supported if it has a rank."""
        return DecisionRow(
            backend=decision.backend,
            arch=decision.arch,
            kernel=None if decision.kernel is None else decision.kernel.name,
            supported=rank is not None,
            rank=rank,
            reasons=getattr(decision, "reasons", ()),
        )


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """explain --json: supported kernels best first, then refusals, nearest miss first."""

    schema: Literal["fmha.explain/1"] = "fmha.explain/1"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    change: Annotated[
        str | None,
        "the smallest change of the flags that would work; null when a kernel was chosen, or none was found",
    ]
    chosen: Annotated[str | None, "name of the best kernel"]
    decisions: tuple[DecisionRow, ...]


def explain_document(
    problem: Problem, trace: Trace, chosen: KernelSpec | None, change: str | None = None
) -> dict[str, Any]:
    """The document of a trace; ``chosen`` is what ``run`` would use (``Selection.best``)."""
    served = tuple(DecisionRow.of(decision, rank) for rank, decision in enumerate(trace.supported, 1))
    return to_json(
        Explanation(
            problem=problem.to_dict(),
            change=change,
            chosen=None if chosen is None else chosen.name,
            decisions=(*served, *map(DecisionRow.of, trace.unsupported)),
        )
    )


def explain_view(document: Mapping[str, Any]) -> Table:
    """Supported kernels by rank; below, the refusals, nearest first. Kernels with the same reasons share a line."""
    decisions = document["decisions"]
    label = labels([decision["kernel"] for decision in decisions if decision["kernel"]])
    served = [d for d in decisions if d["supported"]]
    rows = [[str(d["rank"]), d["backend"], d["arch"], label[d["kernel"]]] for d in served]
    groups = _refusals(decisions)
    most = _MOST_REFUSALS if not served else _MOST_BESIDE
    details = ["refused, nearest first:"] if groups else []
    for (backend, arch, reasons), names in list(groups.items())[:most]:
        first = "every kernel" if names[0] is None else label[names[0]]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        details.append(f"  {backend} {arch} {first}{more}")
        details += [f"    {reason}" for reason in reasons]
    if len(groups) > most:
        details.append(f"  ... and {len(groups) - most} further refusals; --json shows all")
    details += [f"chosen: {document['chosen']}"] if document["chosen"] else []
    summary = f"{problem_text(document['problem'])}: {len(served)} supported, {len(decisions) - len(served)} refused"
    summary += "" if document["chosen"] else "; no kernel serves this problem"
    summary += f"; it would with {document['change']}" if document["change"] else ""
    return Table(["rank", "backend", "arch", "kernel"], rows, summary, details, frozenset(["rank"]))


def _refusals(decisions: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, tuple[str, ...]], list[str | None]]:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}
    for decision in decisions:
        if not decision["supported"]:
            reasons = tuple(reason_text(reason) for reason in decision["reasons"])
            groups.setdefault((decision["backend"], decision["arch"], reasons), []).append(decision["kernel"])
    return groups


DOCUMENTS = (Document(Explanation, explain_view, rows="decisions"),)

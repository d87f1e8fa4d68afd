"""``fmha.explain/3`` and ``fmha.why/1``: which kernels serve a problem, why the others do not, and two kernels compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.domain.installation import SourceTree
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.members import Count, Least, Sha256, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.explaining import explain_view
from fmha_cli.report.lines import DIGITS, problem_text, reason_text
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class DecisionRow:
    """The answer for one kernel, or for a whole backend."""

    backend: str
    arch: str
    kernel: Annotated[str | None, "name; null for a whole backend"]
    digest: Sha256 | None
    supported: bool
    rank: Annotated[int | None, Least(1), "among the supported, 1 is best"]
    note: Annotated[str | None, "the reason for its rank; null for a refusal"]
    reasons: tuple[Reason, ...]

    @staticmethod
    def of(decision: Decision, rank: int | None = None) -> DecisionRow:
        """The row of a decision. The decision is supported if it has a rank."""
        return DecisionRow(
            backend=decision.backend,
            arch=decision.arch,
            kernel=None if decision.kernel is None else decision.kernel.name,
            digest=None if decision.kernel is None else decision.kernel.digest,
            supported=rank is not None,
            rank=rank,
            note=(decision.note or None) if isinstance(decision, Supported) else None,
            reasons=getattr(decision, "reasons", ()),
        )


@dataclass(frozen=True, kw_only=True)
class PreferredRow:
    """A backend that was asked, at its place in the default order."""

    backend: str
    source: Annotated[str | None, "of its place; null: it is not in the default order, and comes after it"]
    confirmed: Annotated[tuple[str, ...], "architectures on which gpu_check confirmed its kernels; there it goes first"]


@dataclass(frozen=True, kw_only=True)
class PreferenceRow:
    """The order in which auto takes backends on one device."""

    order: tuple[PreferredRow, ...] = ()
    because: Annotated[
        str | None, "why the chosen backend, and not the next one that serves the problem; null without a next one"
    ] = None


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """What fmha tune remembered for the problem, or for the nearest one that differs in its seqlen."""

    used: Annotated[bool, "whether it decided which kernel is chosen"]
    kernel: Annotated[str, "name of the kernel to choose; the default's where it was kept"]
    digest: Annotated[Sha256 | None, "of that kernel; null: it is not chosen, or it is the default"]
    flags: Annotated[str, "the problem that was tuned"]
    made: Annotated[str, "ISO 8601 in UTC"]
    reasons: Annotated[tuple[Reason, ...], "why it is not used"]
    text: Annotated[str, "one sentence"]


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """The decisions that ``--limit`` left out of a document."""

    supported: Count
    refused: Annotated[Mapping[str, Count], "by backend; one that lost none is not named"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """explain --json: supported kernels best first, then refusals, nearest miss first."""

    json_later: ClassVar = ("left_out",)

    schema: Literal["fmha.explain/3"] = "fmha.explain/3"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    change: Annotated[
        str | None,
        "the smallest change of the flags that would work; null when a kernel was chosen, or none was found",
    ]
    changes: Annotated[tuple[str, ...], "further changes of other flags too, the smallest first"]
    chosen: Annotated[str | None, "name of the best kernel"]
    because: Annotated[str | None, "why it was chosen, and why not the next one; null when no kernel was"]
    preference: PreferenceRow
    tuned: Annotated[TunedRow | None, "null: nothing was tuned, or --select is not tuned"]
    trees: Annotated[Mapping[str, SourceTree], "backend -> the user's tree that its kernels would be built against"]
    decisions: tuple[DecisionRow, ...]
    left_out: Annotated[
        LeftOut | None,
        "of the decisions; the document has this member with --limit N alone, and then N supported "
        "decisions and N refusals of each backend",
    ] = None


_UNKNOWN = PreferenceRow()


def explain_document(
    problem: Problem,
    trace: Trace,
    chosen: KernelSpec | None,
    changes: Sequence[str] = (),
    because: str | None = None,
    trees: Mapping[str, SourceTree] | None = None,
    preference: PreferenceRow = _UNKNOWN,
    tuned: TunedRow | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """The document of a trace; ``chosen`` is what ``run`` would use (``Selection.best``), and ``trees`` are the user's.

    Args:
        limit: the most supported decisions, and the most refusals of each backend; None for all.
    """
    fit, misses, left = trace.supported, trace.unsupported, None
    if limit is not None:
        kept = [miss for own in _by_backend(misses).values() for miss in own[:limit]]
        refused = {name: len(own) - limit for name, own in sorted(_by_backend(misses).items()) if len(own) > limit}
        left = LeftOut(supported=max(0, len(fit) - limit), refused=refused)
        misses = tuple(sorted(kept, key=lambda miss: miss.distance))
    served = tuple(DecisionRow.of(decision, rank) for rank, decision in enumerate(fit[:limit], 1))
    return to_json(
        Explanation(
            problem=problem.to_dict(),
            change=changes[0] if changes else None,
            changes=tuple(changes),
            chosen=None if chosen is None else chosen.name,
            because=because,
            preference=preference,
            tuned=tuned,
            trees=trees or {},
            decisions=(*served, *map(DecisionRow.of, misses)),
            left_out=left,
        )
    )


def _by_backend(misses: Iterable[Unsupported]) -> dict[str, list[Unsupported]]:
    found: dict[str, list[Unsupported]] = {}
    for miss in misses:
        found.setdefault(miss.backend, []).append(miss)
    return found


@dataclass(frozen=True, kw_only=True)
class ComparedKernel:
    """One of two kernels, and the answer for it."""

    name: str
    digest: Sha256
    backend: str
    arch: str
    family: Family
    upstream_name: str | None
    supported: bool
    rank: Annotated[int | None, Least(1), "among all that serve the problem, 1 is best"]
    note: str | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """A field in which the kernels differ."""

    part: Literal["kernel", "signature", "algorithm"]
    field: str
    a: Annotated[str, "as names write it; empty where the kernel has no such field"]
    b: str


@dataclass(frozen=True, kw_only=True)
class DecidingRule:
    """A rule that refused one of the kernels, or decided their order."""

    id: str
    text: Annotated[str, "the rule in general"]
    kernel: Annotated[Literal["a", "b"], "whom it concerns"]


@dataclass(frozen=True, kw_only=True)
class WhyPage:
    """explain --why A B --json: what differs between two kernels, and which rules came between them."""

    schema: Literal["fmha.why/1"] = "fmha.why/1"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    a: ComparedKernel
    b: ComparedKernel
    differences: tuple[FieldRow, ...]
    rules: tuple[DecidingRule, ...]
    because: Annotated[str, "one sentence"]


def why_view(document: Mapping[str, Any]) -> Table:
    """The fields that differ; below, what was decided about each kernel, the rules behind it, and the sentence."""
    sides = {name: document[name] for name in ("a", "b")}
    rows = [[d["field"], d["a"], d["b"]] for d in document["differences"]]
    details = []
    for name, side in sides.items():
        state = f"rank {side['rank']}" if side["supported"] else "refused"
        details.append(f"{name}: {side['backend']} {side['arch']} {side['family']} {side['digest'][:DIGITS]}, {state}")
        same = name == "b" and side["note"] == sides["a"]["note"]
        details += [f"  {'as a' if same else side['note']}"] if side["note"] else []
        details += [f"  {reason_text(reason)}" for reason in side["reasons"]]
    details += [f"rule {rule['id']} ({rule['kernel']}): {rule['text']}" for rule in document["rules"]]
    heads = (f"{name} {side['digest'][:DIGITS]}" for name, side in sides.items())
    columns = (Column("field"), *(Column(head, fit=Fit.END, least=12) for head in heads))
    return Table(columns, rows, f"{problem_text(document['problem'])}: {document['because']}", details)


DOCUMENTS = (Document(Explanation, explain_view, rows="decisions"), Document(WhyPage, why_view))

"""``fmha.explain/3`` and ``fmha.why/1``: which kernels serve a problem, why the others do not, and two kernels compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from fmha_cli.domain.decision import KNOWN, Decision, Supported, Trace, Unsupported
from fmha_cli.domain.installation import SourceTree
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.members import Count, Least, Sha256, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import DIGITS, counted, labels, problem_text, ranges, reason_text
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
) -> Explanation:
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
    return Explanation(
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


def _by_backend(misses: Iterable[Unsupported]) -> dict[str, list[Unsupported]]:
    found: dict[str, list[Unsupported]] = {}
    for miss in misses:
        found.setdefault(miss.backend, []).append(miss)
    return found


Groups = dict[tuple[str, str, tuple[str, ...]], list[DecisionRow]]

_RANKS = (
    Column("rank", number=True),
    Column("digest"),
    Column("backend"),
    Column("arch"),
    Column("kernel", fit=Fit.END, least=24),
)
_RANKED = 4
_REFUSED = 5
_BESIDE = 2  # refusals matter less when some kernel serves the problem
_ALL = 1_000_000_000


def explain_view(document: Explanation, *, limit: int | None = None) -> Table:
    """Supported kernels by rank and what ordered them; below, the refusals, nearest first, and the choice.

    Args:
        limit: the most ranked kernels and the most groups of refusals; None shows a few, 0 shows every candidate.
    """
    decisions = document.decisions
    served = [d for d in decisions if d.supported]
    groups = _refusals(decisions)
    most = _ALL if limit == 0 else limit
    shown = served[:limit] if limit else _shown(served, most or _RANKED)
    rows = _ranked(shown)
    more = len(served) - len(rows)
    details = [f"... {more} more {'kernel also fits' if more == 1 else 'kernels also fit'} (--all)"] if more else []
    details += _notes(shown)
    details += ["it would work with:", *(f"  {change}" for change in document.changes)] if document.changes else []
    serving = {d.backend for d in served}
    details += _refused(groups, most or (_BESIDE if served else _REFUSED), serving, every=limit == 0)
    details += _chosen(document, {d.note.partition(KNOWN)[0] for d in shown if d.note})
    details += _backends(document.preference)
    details += _trees(document.trees)
    summary = f"{problem_text(document.problem)}: {len(served)} supported, {len(decisions) - len(served)} refused"
    if not document.chosen:
        summary += "; no kernel serves this problem"
    return Table(_RANKS, rows, summary, details)


def _chosen(document: Explanation, told: Collection[str]) -> Iterator[str]:
    """The choice, and what was tuned for the problem. A note that appears above is not repeated."""
    tuned = document.tuned
    if tuned is not None and tuned.digest is not None:
        yield f"chosen: {tuned.digest[:DIGITS]}, {tuned.text}"
        if document.because:
            yield f"without that: {document.because}"
        return
    if document.chosen:
        because = document.because or document.chosen
        again = next(
            (note for note in sorted(told, key=len, reverse=True) if f" because {note}, instead of " in because), None
        )
        yield f"chosen: {because if again is None else because.replace(f' because {again},', ',', 1)}"
    if tuned is not None:
        yield tuned.text


def _shown(served: Sequence[DecisionRow], most: int) -> list[DecisionRow]:
    """The best kernels, and the best one of every backend that has none among them."""
    best = {d.backend: d.rank for d in reversed(served)}
    return [d for place, d in enumerate(served) if place < most or d.rank == best[d.backend]]


def _ranked(served: Sequence[DecisionRow]) -> list[list[str]]:
    """The rows. Backend and architecture have columns only where they differ."""
    label = _labels(served)
    mixed = len({(d.backend, d.arch) for d in served}) > 1
    return [
        [str(d.rank), _digits(d), *([d.backend, d.arch] if mixed else ["", ""]), _shortest_first(label[d.kernel or ""])]
        for d in served
    ]


def _labels(decisions: Sequence[DecisionRow]) -> dict[str, str]:
    return labels([d.kernel for d in decisions if d.kernel])


def _digits(decision: DecisionRow) -> str:
    return (decision.digest or "")[:DIGITS]


def _shortest_first(label: str) -> str:
    """A label whose short parts come first: what is cut off is a tile, not a flag."""
    family, *parts = label.split(" ")
    return " ".join([family, *sorted(parts, key=len)])


def _notes(served: Sequence[DecisionRow]) -> Iterator[str]:
    """``rank 2-4, 6: the note that these share``."""
    groups: dict[str, list[int]] = {}
    for d in served:
        order, *known = (d.note or "").split(KNOWN)
        for note in (*filter(None, [order]), *(f"KNOWN: {text}" for text in known)):
            groups.setdefault(note, []).append(d.rank or 0)
    for note, ranks in sorted(groups.items(), key=lambda group: group[0].startswith("KNOWN: ")):
        yield f"rank {ranges(ranks)}: {note}"


def _backends(preference: PreferenceRow) -> Iterator[str]:
    """Where several backends serve the problem, why this one, and the order with the architectures of the confirmed ones."""
    if not preference.because:
        return
    confirmed = [f"{row.backend} on {', '.join(row.confirmed)}" for row in preference.order if row.confirmed]
    order = ", ".join(row.backend for row in preference.order)
    yield f"backend: {preference.because}"
    yield f"order: {order}; gpu_check confirmed {' and '.join(confirmed) or 'none yet'}"


def _trees(trees: Mapping[str, SourceTree]) -> Iterator[str]:
    """The user's tree of each backend, and what sets it apart or makes it unfit."""
    for backend, tree in trees.items():
        yield f"source of {backend}: {tree.text}" + "".join(f"; {text}" for text in (*tree.notes, tree.why) if text)


def _refusals(decisions: Sequence[DecisionRow]) -> Groups:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: Groups = {}
    text: Callable[[Reason], str] = cache(reason_text)
    for decision in decisions:
        if not decision.supported:
            reasons = tuple(map(text, decision.reasons))
            groups.setdefault((decision.backend, decision.arch, reasons), []).append(decision)
    return groups


def _refused(groups: Groups, most: int, serving: Collection[str], *, every: bool) -> Iterator[str]:
    """The groups, nearest first; backends without kernels for the architecture come last.

    Without ``every``, a few are shown, and the nearest of each backend whose kernels all are refused. A group whose reasons
    include all those of a nearer one is left out, because it says nothing new.
    """
    if groups:
        yield "refused, nearest first:"
    ordered = sorted(groups.items(), key=lambda group: group[1][0].kernel is None)
    shown: list[tuple[str, frozenset[str]]] = []
    for (backend, arch, reasons), members in ordered:
        if not every:
            told = members[0].kernel is None or backend in serving or any(backend == nearer for nearer, _ in shown)
            if told and len(shown) >= most:
                continue
            if any(backend == nearer and known <= set(reasons) for nearer, known in shown):
                continue
            shown.append((backend, frozenset(reasons)))
        yield f"  {backend} {arch} {_named(members)}"
        yield from (f"    {reason}" for reason in reasons)
        label = _labels(members) if every else {}
        yield from (f"      {_digits(d)} {label[d.kernel]}" for d in members if d.kernel in label)
    if not every and len(groups) > len(shown):
        yield f"  ... and {counted(len(groups) - len(shown), 'further group')}; --all shows every candidate"


def _named(members: Sequence[DecisionRow]) -> str:
    """``fwd 08ebe6051a2b and 3 more``; a refusal of a whole backend has no kernel."""
    first = members[0]
    if first.kernel is None:
        return "every kernel"
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{first.kernel.split(':')[1]} {_digits(first)}{more}"


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


def why_view(document: WhyPage) -> Table:
    """The fields that differ; below, what was decided about each kernel, the rules behind it, and the sentence."""
    rows = [[row.field, row.a, row.b] for row in document.differences]
    details, columns = [], [Column("field")]
    for name, side in (("a", document.a), ("b", document.b)):
        state = f"rank {side.rank}" if side.supported else "refused"
        details.append(f"{name}: {side.backend} {side.arch} {side.family} {side.digest[:DIGITS]}, {state}")
        same = name == "b" and side.note == document.a.note
        details += [f"  {'as a' if same else side.note}"] if side.note else []
        details += [f"  {reason_text(reason)}" for reason in side.reasons]
        columns.append(Column(f"{name} {side.digest[:DIGITS]}", fit=Fit.END, least=12))
    details += [f"rule {rule.id} ({rule.kernel}): {rule.text}" for rule in document.rules]
    return Table(columns, rows, f"{problem_text(document.problem)}: {document.because}", details)


DOCUMENTS = (Document(Explanation, explain_view, rows="decisions"), Document(WhyPage, why_view))

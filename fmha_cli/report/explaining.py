"""The tables of ``explain``: the ranked kernels with the reasons for their order, the refusals, and two kernels compared.

Kernels with the same note or the same reasons share a line. Every line fits the terminal, if its width is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fmha_cli.report.fitting import cut, folded, folded_all
from fmha_cli.report.lines import counted, labels, problem_text, reason_text
from fmha_cli.report.table import Table

Row = Mapping[str, Any]

DIGITS = 12
PLACE = ("backend", "arch")
_RANKED = 5
_REFUSED = 5
_BESIDE = 2  # refusals matter less when some kernel serves the problem
_ALL = 1_000_000_000


def explain_view(document: Row, *, width: int | None = None, limit: int | None = None) -> Table:
    """Supported kernels by rank and what ordered them; below, the refusals, nearest first, and the choice.

    Args:
        width: columns of the terminal; None leaves lines as long as they are.
        limit: the most ranked kernels and the most groups of refusals; None shows a few, 0 shows every candidate.
    """
    decisions = document["decisions"]
    served = [d for d in decisions if d["supported"]]
    groups = _refusals(decisions)
    most = _ALL if limit == 0 else limit
    rows = _ranked(served[: most or _RANKED], width)
    details = (
        [f"... {counted(len(served) - len(rows), 'more kernel')} also fit (--all)"] if len(served) > len(rows) else []
    )
    details += _notes(served[: most or _RANKED])
    details += _changes(document)
    details += _refused(groups, most or (_BESIDE if served else _REFUSED), every=limit == 0)
    details += [f"chosen: {document['because'] or document['chosen']}"] if document["chosen"] else []
    summary = f"{problem_text(document['problem'])}: {len(served)} supported, {len(decisions) - len(served)} refused"
    if not document["chosen"]:
        summary += "; no kernel serves this problem"
    headers = ["rank", "digest", *PLACE, "kernel"]
    table = Table(
        headers, rows, "\n".join(folded(summary, width)), list(folded_all(details, width)), frozenset(["rank"])
    )
    return table.narrowed()


def _ranked(served: Sequence[Row], width: int | None) -> list[list[str]]:
    """The rows. Backend and architecture have columns only where they differ."""
    if not served:
        return []
    label = {name: _shortest_first(text) for name, text in labels([d["kernel"] for d in served]).items()}
    mixed = len({(d["backend"], d["arch"]) for d in served}) > 1
    places = [[d["backend"], d["arch"]] if mixed else ["", ""] for d in served]
    widths = [
        max(len(head) + 2, *map(len, column)) for head, column in zip(PLACE, zip(*places, strict=True), strict=True)
    ]
    used = 6 + 2 + DIGITS + 2 + (sum(width + 2 for width in widths) if mixed else 0)
    room = None if width is None else width - used
    return [
        [str(d["rank"]), d["digest"][:DIGITS], *place, cut(label[d["kernel"]], room)]
        for d, place in zip(served, places, strict=True)
    ]


def _shortest_first(label: str) -> str:
    """A label whose short parts come first: what is cut off is a tile, not a flag."""
    family, *parts = label.split(" ")
    return " ".join([family, *sorted(parts, key=len)])


def _notes(served: Sequence[Row]) -> Iterator[str]:
    """``rank 2-4: the note that these share``."""
    groups: list[tuple[list[int], str]] = []
    for d in served:
        if d["note"] and groups and groups[-1][1] == d["note"]:
            groups[-1][0].append(d["rank"])
        elif d["note"]:
            groups.append(([d["rank"]], d["note"]))
    for ranks, note in groups:
        yield f"rank {ranks[0]}{f'-{ranks[-1]}' if len(ranks) > 1 else ''}: {note}"


def _changes(document: Row) -> list[str]:
    found = document["changes"]
    return ["it would work with:", *(f"  {change}" for change in found)] if found else []


Groups = dict[tuple[str, str, tuple[str, ...]], list[Row]]


def _refusals(decisions: Sequence[Row]) -> Groups:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: Groups = {}
    texts: dict[tuple[str, str, str | None], str] = {}
    for decision in decisions:
        if not decision["supported"]:
            reasons = []
            for reason in decision["reasons"]:
                key = reason["id"], reason["text"], reason["hint"]
                if key not in texts:
                    texts[key] = reason_text(reason)
                reasons.append(texts[key])
            groups.setdefault((decision["backend"], decision["arch"], tuple(reasons)), []).append(decision)
    return groups


def _refused(groups: Groups, most: int, *, every: bool) -> Iterator[str]:
    """The groups, nearest first. Without ``every``, a group whose reasons include all those of a nearer one is left
    out, because it says nothing new."""
    if groups:
        yield "refused, nearest first:"
    shown: list[tuple[str, frozenset[str]]] = []
    for (backend, arch, reasons), members in groups.items():
        if not every:
            if len(shown) == most:
                break
            if any(backend == nearer and known <= set(reasons) for nearer, known in shown):
                continue
            shown.append((backend, frozenset(reasons)))
        yield f"  {backend} {arch} {_named(members)}"
        yield from (f"    {reason}" for reason in reasons)
        if every and members[0]["kernel"]:
            label = labels([d["kernel"] for d in members])
            yield from (f"      {d['digest'][:DIGITS]} {label[d['kernel']]}" for d in members)
    if not every and len(groups) > len(shown):
        yield f"  ... and {counted(len(groups) - len(shown), 'further group')}; --all shows every candidate"


def _named(members: Sequence[Row]) -> str:
    """``fwd 08ebe6051a2b and 3 more``; a refusal of a whole backend has no kernel."""
    first = members[0]
    if first["kernel"] is None:
        return "every kernel"
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{first['kernel'].split(':')[1]} {first['digest'][:DIGITS]}{more}"


def why_view(document: Row, *, width: int | None = None, limit: int | None = None) -> Table:
    """The fields that differ; below, what was decided about each kernel, the rules behind it, and the sentence."""
    sides = {name: document[name] for name in ("a", "b")}
    room = None if width is None else max((width - 30) // 2, 12)
    rows = [[d["field"], cut(d["a"], room), cut(d["b"], room)] for d in document["differences"]]
    details = []
    for name, side in sides.items():
        state = f"rank {side['rank']}" if side["supported"] else "refused"
        details.append(f"{name}: {side['backend']} {side['arch']} {side['family']} {side['digest'][:DIGITS]}, {state}")
        details += [f"  {side['note']}"] if side["note"] else []
        details += [f"  {reason_text(reason)}" for reason in side["reasons"]]
    details += [f"rule {rule['id']} ({rule['kernel']}): {rule['text']}" for rule in document["rules"]]
    summary = "\n".join(folded(f"{problem_text(document['problem'])}: {document['because']}", width))
    headers = ["field", *(f"{name} {side['digest'][:DIGITS]}" for name, side in sides.items())]
    return Table(headers, rows, summary, list(folded_all(details, width)))

"""The table of ``explain``: the ranked kernels with the reasons for their order, the refusals, the choice.

Kernels with the same note or the same reasons share a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fmha_cli.domain.codec import from_json
from fmha_cli.domain.decision import KNOWN
from fmha_cli.domain.installation import SourceTree
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.lines import DIGITS, labels, problem_text
from fmha_cli.report.refusing import refusals, refused
from fmha_cli.report.table import Table

Row = Mapping[str, Any]

_COLUMNS = (
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


def explain_view(document: Row, *, limit: int | None = None) -> Table:
    """Supported kernels by rank and what ordered them; below, the refusals, nearest first, and the choice.

    Args:
        limit: the most ranked kernels and the most groups of refusals; None shows a few, 0 shows every candidate.
    """
    decisions = document["decisions"]
    served = [d for d in decisions if d["supported"]]
    groups = refusals(decisions)
    most = _ALL if limit == 0 else limit
    shown = served[:limit] if limit else _shown(served, most or _RANKED)
    rows = _ranked(shown)
    more = len(served) - len(rows)
    details = [f"... {more} more {'kernel also fits' if more == 1 else 'kernels also fit'} (--all)"] if more else []
    details += _notes(shown)
    details += _changes(document)
    details += refused(groups, most or (_BESIDE if served else _REFUSED), every=limit == 0)
    details += _chosen(document, {d["note"].partition(KNOWN)[0] for d in shown if d["note"]})
    details += _backends(document["preference"])
    details += _trees(document)
    summary = f"{problem_text(document['problem'])}: {len(served)} supported, {len(decisions) - len(served)} refused"
    if not document["chosen"]:
        summary += "; no kernel serves this problem"
    return Table(_COLUMNS, rows, summary, details)


def _chosen(document: Row, told: Collection[str]) -> Iterator[str]:
    """The choice, and what was tuned for the problem. A note that appears above is not repeated."""
    tuned, chosen = document["tuned"], document["chosen"]
    if tuned is not None and tuned["digest"] is not None:
        yield f"chosen: {tuned['digest'][:DIGITS]}, {tuned['text']}"
        if document["because"]:
            yield f"without that: {document['because']}"
        return
    if chosen:
        because = document["because"] or chosen
        again = next(
            (note for note in sorted(told, key=len, reverse=True) if f" because {note}, instead of " in because), None
        )
        yield f"chosen: {because if again is None else because.replace(f' because {again},', ',', 1)}"
    if tuned is not None:
        yield tuned["text"]


def _shown(served: Sequence[Row], most: int) -> list[Row]:
    """The best kernels, and the best one of every backend that has none among them."""
    best = {d["backend"]: d["rank"] for d in reversed(served)}
    return [d for place, d in enumerate(served) if place < most or d["rank"] == best[d["backend"]]]


def _ranked(served: Sequence[Row]) -> list[list[str]]:
    """The rows. Backend and architecture have columns only where they differ."""
    label = {name: _shortest_first(text) for name, text in labels([d["kernel"] for d in served]).items()}
    mixed = len({(d["backend"], d["arch"]) for d in served}) > 1
    places = [[d["backend"], d["arch"]] if mixed else ["", ""] for d in served]
    return [
        [str(d["rank"]), d["digest"][:DIGITS], *place, label[d["kernel"]]]
        for d, place in zip(served, places, strict=True)
    ]


def _shortest_first(label: str) -> str:
    """A label whose short parts come first: what is cut off is a tile, not a flag."""
    family, *parts = label.split(" ")
    return " ".join([family, *sorted(parts, key=len)])


def _notes(served: Sequence[Row]) -> Iterator[str]:
    """``rank 2-4, 6: the note that these share``."""
    groups: dict[str, list[int]] = {}
    for d in served:
        order, *known = (d["note"] or "").split(KNOWN)
        for note in (*filter(None, [order]), *(f"KNOWN: {text}" for text in known)):
            groups.setdefault(note, []).append(d["rank"])
    for note, ranks in sorted(groups.items(), key=lambda group: group[0].startswith("KNOWN: ")):
        yield f"rank {_runs(ranks)}: {note}"


def _runs(ranks: Sequence[int]) -> str:
    """``2-4, 6`` of 2, 3, 4, 6."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _backends(preference: Row) -> Iterator[str]:
    """Where several backends serve the problem, why this one, and the order with the architectures of the confirmed ones."""
    if not preference["because"]:
        return
    order = preference["order"]
    confirmed = [f"{row['backend']} on {', '.join(row['confirmed'])}" for row in order if row["confirmed"]]
    yield f"backend: {preference['because']}"
    yield f"order: {', '.join(row['backend'] for row in order)}; gpu_check confirmed {' and '.join(confirmed) or 'none yet'}"


def _trees(document: Row) -> Iterator[str]:
    """The user's tree of each backend, and what sets it apart or makes it unfit."""
    for backend, data in document["trees"].items():
        tree = from_json(SourceTree, data)
        yield f"source of {backend}: {tree.text}" + "".join(f"; {text}" for text in (*tree.notes, tree.why) if text)


def _changes(document: Row) -> list[str]:
    found = document["changes"]
    return ["it would work with:", *(f"  {change}" for change in found)] if found else []

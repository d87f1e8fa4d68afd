"""``fmha.compare/1``: two runs compared row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference, Mean
from fmha_cli.domain.members import ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import duration
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, counted, problem_text, spelled
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class RunSide:
    """One of the two runs."""

    name: Annotated[str, "the file, or the command that was run"]
    labels: tuple[str, ...]
    revisions: Annotated[tuple[str, ...], "of the user's repository; '+' marks one with changes"]
    records: int


@dataclass(frozen=True, kw_only=True)
class RowSide:
    """One side of a row."""

    backend: str | None
    device: str | None
    kernel: Annotated[str | None, "its digest"]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class CompareRow:
    """One row of both runs."""

    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    cache: str | None
    threads: int | None
    before: RowSide
    after: RowSide
    worse: Annotated[bool, "the verdict was good and is not any more"]
    difference: Annotated[Difference, "of the fresh processes, where the row was run again"]
    screened: Annotated[Difference | None, "the first one, where the row was run again; null elsewhere"]


@dataclass(frozen=True, kw_only=True)
class LoneRow:
    """A row without a counterpart."""

    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    cache: str | None
    side: RowSide


@dataclass(frozen=True, kw_only=True)
class CompareGroup:
    """All rows of one backend."""

    backend: str
    mean: Mean


@dataclass(frozen=True, kw_only=True)
class Compare:
    """compare --json: which rows are surely slower, faster or the same, and what the others could have shown."""

    schema: Literal["fmha.compare/1"] = "fmha.compare/1"
    before: RunSide
    after: RunSide
    interleaved: Annotated[bool, "the processes of the two runs took turns; rows that were run again always do"]
    by: Annotated[tuple[str, ...], "what had to be equal"]
    tolerance: Annotated[float, "a smaller difference counts as none"]
    alpha: Annotated[float, "share of false ones among the sure differences"]
    rows: tuple[CompareRow, ...]
    groups: Annotated[tuple[CompareGroup, ...], "geometric means, by backend"]
    only_before: tuple[LoneRow, ...]
    only_after: tuple[LoneRow, ...]
    notes: Annotated[tuple[str, ...], "what differs between the runs as a whole, and what the rows need"]


Row = Mapping[str, Any]
WORSE = "WORSE"
"""The mark of a row whose verdict was good and is not any more."""

_COLUMNS = (
    Column("point", common=spelled, words=True, fit=Fit.FOLD, least=20),
    Column("where", common="{}".format, words=True, rank=2),
    Column("before p10", number=True, path="difference.before_ns", called="before", rank=3),
    Column("after p10", number=True, path="difference.after_ns", called="after", rank=3),
    Column("ratio [95 %]", number=True, path="difference.ratio", called="ratio"),
    Column("p(adj)", number=True, path="difference.p_adjusted", called="p", rank=4),
    Column("could see", number=True, path="difference.could_see", rank=1),
    Column("verdict", path="difference.speed", fit=Fit.FOLD, least=24),
)


_LEGENDS = {
    "p10": "the median over the processes of their 10 % quantiles; `fmha bench` shows the median of all samples"
}


def compare_view(document: Row, color: bool = False) -> Table:
    """One line for each row; below, the rows of one side, the means, and notes."""
    rows = [_cells(row, color) for row in document["rows"]]
    details = [f"  note: {note}" for note in document["notes"]]
    if not document["interleaved"] and document["rows"]:
        details.append("  not interleaved: what the machine moved by itself adds to the tolerance of each row")
    again = sum(row["screened"] is not None for row in document["rows"])
    details += (
        [f"  {counted(again, 'row')} run again, alternating; their verdicts come from those processes alone"]
        if again
        else []
    )
    for name in ("before", "after"):
        for lone in document[f"only_{name}"]:
            details.append(
                f"  only {name}: {problem_text(lone['problem'])} {_where(lone['side'], lone['cache'])}".rstrip()
            )
    for group in document["groups"]:
        mean = group["mean"]
        if mean["rows"] > 1:
            details.append(f"  {group['backend']}: mean ratio of {counted(mean['rows'], 'row')} {_ratio(mean)}")
    return Table(_COLUMNS, rows, compare_summary(document), details, _LEGENDS)


def compare_summary(document: Row) -> str:
    """``3 rows: 1 slower, 2 unsure; 2 only before``."""
    counts = Counter("worse" if row["worse"] else row["difference"]["speed"] for row in document["rows"])
    parts = [f"{counts[name]} {name}" for name in ("worse", *Speed) if counts[name]]
    text = counted(len(document["rows"]), "row") + (f": {', '.join(parts)}" if parts else "")
    lone = [f"{len(document[f'only_{name}'])} only {name}" for name in ("before", "after")]
    return f"{text}; {', '.join(lone)}" if document["only_before"] or document["only_after"] else text


def _cells(row: Row, color: bool) -> Sequence[str]:
    found = row["difference"]
    seen, p = found["could_see"], found["p_adjusted"]
    return [
        problem_text(row["problem"]),
        _where(row["after"], row["cache"]),
        duration(found["before_ns"]),
        duration(found["after_ns"]),
        _ratio(found),
        "" if p is None else f"{p:.2g}" if p < 0.1 else f"{p:.2f}",
        "" if p is None else "nothing" if seen is None else f"{seen * 100:.3g} %",
        _verdict(row, color),
    ]


def _where(side: Row, cache: str | None) -> str:
    kernel = side["kernel"][:SHORT] if side["kernel"] else None
    return " ".join(part for part in (side["backend"], kernel, cache) if part)


def _ratio(found: Row) -> str:
    if found["ratio"] is None:
        return ""
    ends = found["ratio_ci95"]
    return f"{found['ratio']:.3f}" + (f" [{ends[0]:.3f},{ends[1]:.3f}]" if ends else "")


_RED, _GREEN, _YELLOW = 31, 32, 33
_COLORS = {WORSE: _RED, "SLOWER": _RED, "FASTER": _GREEN, "UNSURE": _YELLOW}


def _verdict(row: Row, color: bool) -> str:
    """``SLOWER``, ``UNSURE (processes differ by 38 %)``, ``WORSE (PASSED, then WRONG)``."""
    found = row["difference"]
    if row["worse"]:
        word, why = WORSE, f"{row['before']['verdict']}, then {row['after']['verdict']}"
    else:
        word, why = found["speed"].upper(), found["why"]
    painted = f"\x1b[{_COLORS[word]}m{word}\x1b[0m" if color and word in _COLORS else word
    return f"{painted} ({why})" if why else painted


DOCUMENTS = (Document(Compare, compare_view, rows="rows", columns=_COLUMNS, colored=True),)

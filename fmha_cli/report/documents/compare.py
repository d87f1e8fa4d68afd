"""``fmha.compare/1``: two runs compared row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference, Mean
from fmha_cli.domain.members import ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import duration
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Color, Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, counted, problem_text, spelled
from fmha_cli.report.table import Table, table_by


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


WORSE = "WORSE"
"""The mark of a row whose verdict was good and is not any more."""

_LEGENDS = {
    "p10": "the median over the processes of their 10 % quantiles; `fmha bench` shows the median of all samples"
}


def compare_view(document: Compare) -> Table:
    """One line for each row; below, the rows of one side, the means, and notes."""
    return table_by(_COLUMNS, document.rows, compare_summary(document), list(_details(document)), _LEGENDS)


def _details(document: Compare) -> Iterator[str]:
    yield from (f"  note: {note}" for note in document.notes)
    if not document.interleaved and document.rows:
        yield "  not interleaved: what the machine moved by itself adds to the tolerance of each row"
    if again := sum(row.screened is not None for row in document.rows):
        yield f"  {counted(again, 'row')} run again, alternating; their verdicts come from those processes alone"
    for name, lone in (("before", document.only_before), ("after", document.only_after)):
        for one in lone:
            yield f"  only {name}: {problem_text(one.problem)} {where_text(one.side, one.cache)}".rstrip()
    for group in document.groups:
        if group.mean.rows > 1:
            yield f"  {group.backend}: mean ratio of {counted(group.mean.rows, 'row')} {_ratio(group.mean)}"


def compare_summary(document: Compare) -> str:
    """``3 rows: 1 slower, 2 unsure; 2 only before``."""
    counts = Counter("worse" if row.worse else row.difference.speed.value for row in document.rows)
    parts = [f"{counts[name]} {name}" for name in ("worse", *(speed.value for speed in Speed)) if counts[name]]
    text = counted(len(document.rows), "row") + (f": {', '.join(parts)}" if parts else "")
    before, after = len(document.only_before), len(document.only_after)
    return f"{text}; {before} only before, {after} only after" if before or after else text


def _p10(side: str) -> Column:
    """The column of one side's times."""
    name = f"{side}_ns"
    path = f"difference.{name}"
    return Column(
        f"{side} p10", lambda row: duration(getattr(row.difference, name)), number=True, path=path, called=side, rank=3
    )


def _p(row: CompareRow) -> str:
    p = row.difference.p_adjusted
    return "" if p is None else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def _could_see(row: CompareRow) -> str:
    seen = row.difference.could_see
    return "" if row.difference.p_adjusted is None else "nothing" if seen is None else f"{seen * 100:.3g} %"


def where_text(side: RowSide, cache: str | None) -> str:
    """``cpu 1a2b3c4d hot``: the backend, the first digits of the kernel's digest, and the cache mode."""
    kernel = side.kernel[:SHORT] if side.kernel else None
    return " ".join(part for part in (side.backend, kernel, cache) if part)


def _ratio(found: Difference | Mean) -> str:
    if found.ratio is None:
        return ""
    ends = found.ratio_ci95
    return f"{found.ratio:.3f}" + (f" [{ends[0]:.3f},{ends[1]:.3f}]" if ends else "")


def _verdict(row: CompareRow) -> str:
    """``SLOWER``, ``UNSURE (processes differ by 38 %)``, ``WORSE (PASSED, then WRONG)``."""
    why: str | None = f"{row.before.verdict}, then {row.after.verdict}"
    word, why = (WORSE, why) if row.worse else (row.difference.speed.upper(), row.difference.why)
    return f"{word} ({why})" if why else word


_COLORS = {WORSE: Color.RED, "SLOWER": Color.RED, "FASTER": Color.GREEN, "UNSURE": Color.YELLOW}
_COLUMNS = (
    Column("point", lambda row: problem_text(row.problem), common=spelled, words=True, fit=Fit.FOLD, least=20),
    Column("where", lambda row: where_text(row.after, row.cache), common="{}".format, words=True, rank=2),
    *map(_p10, ("before", "after")),
    Column("ratio [95 %]", lambda row: _ratio(row.difference), number=True, path="difference.ratio", called="ratio"),
    Column("p(adj)", _p, number=True, path="difference.p_adjusted", called="p", rank=4),
    Column("could see", _could_see, number=True, path="difference.could_see", rank=1),
    Column("verdict", _verdict, path="difference.speed", fit=Fit.FOLD, least=24, paint=_COLORS),
)

DOCUMENTS = (Document(Compare, compare_view, rows="rows", columns=_COLUMNS),)

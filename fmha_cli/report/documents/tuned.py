"""``fmha.tuned/1``: what was remembered, and whether it still counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fmha_cli.bench.entry import RememberedChoice, Result, Scope
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.members import Count, Pattern, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, problem_text, signed
from fmha_cli.report.table import Table, table_of

Action = Literal["ls", "rm", "verify", "export"]


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{ends[0] * 100:.1f} to {ends[1] * 100:.1f}"


def _reasons(reasons: Iterable[Reason]) -> str:
    return "; ".join(f"{reason.id} {reason.text}" for reason in reasons)


@dataclass(frozen=True, kw_only=True)
class TunedEntry:
    """One tuned problem in one scope."""

    id: Annotated[str, Pattern("^[0-9a-f]{16}$"), Column("id", lambda text: text[:8])]
    problem: Annotated[Mapping[str, Any], ShownAs(Problem), Column("problem", problem_text, fit=Fit.FOLD)]
    flags: Annotated[str, "the shortest flags of the problem"]
    result: Annotated[Result, Column("result")]
    kernel: Annotated[str, "name of the kernel to choose", Column("kernel", fit=Fit.END, rank=2)]
    default: Annotated[str, "name of what was chosen without tuning"]
    gain: Annotated[
        float | None, "the default takes this share longer; null: it was kept", Column("gain", signed, number=True)
    ]
    gain_ci95: Annotated[tuple[float, float] | None, Column("95 % [%]", _interval, number=True, rank=3)]
    made: Annotated[str, "ISO 8601 in UTC", Column("made (UTC)", lambda text: text[:10], rank=4)]
    run: Annotated[str | None, "id of the run that measured it"]
    why: Annotated[str | None, "why the default was kept"]
    scope: Scope
    counts: Annotated[bool | None, "verify: it would be used now", Column("counts")] = None
    reasons: Annotated[
        tuple[Reason, ...], "verify: why it would not be used", Column("why not", _reasons, fit=Fit.FOLD)
    ] = ()

    @staticmethod
    def of(entry: RememberedChoice, counts: bool | None = None, reasons: tuple[Reason, ...] = ()) -> TunedEntry:
        """The row of an entry."""
        problem, id = entry.problem.to_dict(), entry.digest
        return taken_from(entry, TunedEntry, id=id, problem=problem, counts=counts, reasons=reasons)


@dataclass(frozen=True, kw_only=True)
class TunedPage:
    """What tune ls, rm, verify and export --format json print."""

    schema: Literal["fmha.tuned/1"] = "fmha.tuned/1"
    action: Action
    store: Annotated[str, "path"]
    count: Annotated[Count, "of entries"]
    entries: tuple[TunedEntry, ...]
    dry_run: Annotated[bool, "rm: nothing was removed"] = False

    json_later: ClassVar[tuple[str, ...]] = ("dry_run",)


def tuned_document(action: Action, store: str, entries: Iterable[TunedEntry], *, dry_run: bool = False) -> TunedPage:
    """The document of an action."""
    rows = tuple(entries)
    return TunedPage(action=action, store=store, count=len(rows), entries=rows, dry_run=dry_run)


def _counting(counts: Sequence[bool | None]) -> str:
    """Which of some entries would be used."""
    used = sum(map(bool, counts))
    if len(counts) == 1:
        return "it counts here" if used else "it does not count here"
    return f"{used or 'none'} of them {'counts' if used == 1 else 'count'} here"


def tuned_view(document: TunedPage) -> Table:
    """One line for each entry."""
    rows = document.entries
    removed = " would be removed" if document.dry_run else " removed"
    done = removed if document.action == "rm" else ""
    counts = f"; {_counting([row.counts for row in rows])}" if document.action == "verify" and rows else ""
    table = table_of(TunedEntry, rows, f"{counted(document.count, 'tuned problem')}{done}{counts}; {document.store}")
    return table.narrowed() if rows else table


DOCUMENTS = (Document(TunedPage, tuned_view, rows="entries"),)

"""``fmha.tune/1``: what became of each problem that was tuned, and of every kernel that competed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from fmha_cli.bench.difference import Difference
from fmha_cli.bench.search import Method, Stop
from fmha_cli.domain.members import Count, Sha256, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import duration
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, problem_text, short, signed
from fmha_cli.report.table import Table, table_of


class Tuned(StrEnum):
    """What became of a problem."""

    TUNED = "tuned"
    """Another kernel than the default is remembered."""
    KEPT = "kept"
    """The default is remembered as what to choose."""
    FAILED = "failed"
    """No kernel could be built, or none ran and was right."""
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"
    PLANNED = "planned"
    """Dry run."""


@dataclass(frozen=True, kw_only=True)
class TuneCandidate:
    """One kernel that was considered."""

    kernel: Annotated[str, "name"]
    digest: Sha256
    default: Annotated[bool, "chosen without tuning"]
    tuning_only: Annotated[bool, "no list of kernels has it, and nothing but tuning chooses it"]
    verdict: Annotated[Verdict | None, "of the check before it was timed; null: it was not built, or may not be"]
    samples: Count
    level_ns: Annotated[float | None, "10 % quantile of its samples; null without any"]
    rounds: Annotated[Count, "of the search in which it took part"]
    reasons: Annotated[tuple[Reason, ...], "why it was not built, or may not run"]
    notes: tuple[str, ...]


def _spent(nanoseconds: float | None) -> str:
    """A time; empty where nothing was done."""
    return duration(nanoseconds or None)


@dataclass(frozen=True, kw_only=True)
class TuneRow:
    """One problem."""

    problem: Annotated[Mapping[str, Any], ShownAs(Problem), Column("problem", problem_text, fit=Fit.FOLD)]
    flags: Annotated[str, "the shortest flags of the problem"]
    backend: Annotated[str | None, Column("backend", common="{}".format, rank=3)]
    device: Annotated[str | None, Column("device", common="{}".format, rank=4)]
    state: Annotated[Tuned, Column("state")]
    kernel: Annotated[
        Sha256 | None, "digest of the kernel to choose; null: none is remembered", Column("kernel", short)
    ]
    default: Annotated[Sha256 | None, "digest of the default", Column("default", short, rank=2)]
    gain: Annotated[
        float | None, "the default takes this share longer; null: it was kept", Column("gain", signed, number=True)
    ]
    gain_ci95: tuple[float, float] | None
    candidates: Annotated[
        tuple[TuneCandidate, ...],
        "the default first; those that may not run last",
        Column("kernels", lambda rows: str(sum(1 for row in rows if row.samples)), number=True),
    ]
    samples: Annotated[Count, "in all", Column("samples", number=True, rank=3)]
    share: Annotated[float | None, "samples taken of those that all kernels could have had; null without any"]
    stop: Annotated[Stop | None, "why the search ended"]
    build_ns: Annotated[Count, "wall time of building", Column("built in", _spent, rank=5)]
    search_ns: Annotated[Count, "wall time of judging and sampling", Column("timed in", _spent, rank=5)]
    confirm_ns: Annotated[Count, "wall time of the confirmation and of validate"]
    difference: Annotated[Difference | None, "the default (before) and the fastest (after) in fresh processes"]
    why: Annotated[str | None, "why the default was kept, or nothing was tuned", Column("why", fit=Fit.FOLD, rank=1)]


@dataclass(frozen=True, kw_only=True)
class Tune:
    """tune --json: one row for each problem."""

    schema: Literal["fmha.tune/1"] = "fmha.tune/1"
    method: Method
    min_gain: Annotated[float, "share"]
    processes: Annotated[Count, "of each kernel in a confirmation"]
    store: Annotated[str | None, "path; null: nothing is remembered"]
    rows: tuple[TuneRow, ...]


def tune_view(document: Tune) -> Table:
    """One line for each problem."""
    rows = document.rows
    counts = Counter(row.state for row in rows)
    told = ", ".join(f"{counts[state]} {state}" for state in Tuned if counts[state])
    kept = f"; remembered in {document.store}" if document.store else "; nothing is remembered"
    dry = Tuned.PLANNED in counts
    details = [_planned(row) for row in rows] if dry else ()
    return table_of(TuneRow, rows, f"{counted(len(rows), 'problem')}: {told}{'' if dry else kept}", details)


def _planned(row: TuneRow) -> str:
    """What a dry run would do."""
    compete = [one for one in row.candidates if not one.reasons]
    own, refused = sum(one.tuning_only for one in compete), len(row.candidates) - len(compete)
    kernels = counted(len(compete), "kernel")
    return f"{row.flags}: {kernels} would compete, {own} of them for tuning alone; {refused} refused"


DOCUMENTS = (Document(Tune, tune_view, rows="rows"),)

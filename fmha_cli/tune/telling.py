"""``Course``: the findings about one problem so far, and its possibly partial row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fmha_cli.bench.difference import Difference
from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.bench.search import Policy, SearchResult, level
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason
from fmha_cli.report.documents.tune import TuneCandidate, Tuned, TuneRow
from fmha_cli.report.record import Record
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.rows import Row
from fmha_cli.tune.builds import unbuilt
from fmha_cli.tune.candidates import Candidates
from fmha_cli.tune.resuming import Searched
from fmha_cli.tune.sampling import Contender


@dataclass
class Course:
    """The state of one problem.

    Attributes:
        rows: one for each candidate.
        contenders: the candidates that were built, or failed to build, with their verdicts.
        good: the contenders that may be chosen; the search numbers these.
        winner: the row of the kernel to choose.
        why: why the default was kept, or nothing was tuned.
        entry: the remembered choice.
        past: the row that an earlier session kept of its search; there are no contenders then.
    """

    candidates: Candidates
    rows: tuple[Row, ...] = ()
    built: Mapping[str, KernelOutcome] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)
    good: list[Contender] = field(default_factory=list)
    found: SearchResult | None = None
    winner: Row | None = None
    difference: Difference | None = None
    gain: float | None = None
    gain_ci95: tuple[float, float] | None = None
    why: str | None = None
    build_ns: int = 0
    search_ns: int = 0
    confirm_ns: int = 0
    past: TuneRow | None = None
    entry: RememberedChoice | None = None


def row_of(course: Course, state: Tuned, policy: Policy, build_budget_s: float | None = None) -> TuneRow:
    """The row of a problem."""
    candidates, found = course.candidates, course.found
    default = candidates.default
    row = TuneRow(
        problem=candidates.problem.to_dict(),
        flags=candidates.problem.repro(),
        backend=None if default is None else default.kernel.backend,
        device=None if default is None else default.device.id,
        state=state,
        kernel=None,
        default=None if default is None else default.kernel.digest,
        gain=None,
        gain_ci95=None,
        candidates=tuple(_candidates(course, build_budget_s)),
        samples=(samples := sum(len(one.launches) for one in course.contenders)),
        share=samples / (len(course.good) * policy.most) if course.good else None,
        stop=None if found is None else found.stop,
        build_ns=course.build_ns,
        search_ns=course.search_ns,
        confirm_ns=0,
        difference=None,
        why=None,
    )
    return _concluded(course.past or row, course, state)


def searched_of(course: Course, row: TuneRow, records: Sequence[Record]) -> Searched:
    """The record of a search that ended."""
    found = course.found
    kernels = [one.row.choice.kernel.digest for one in course.good if one.row.choice is not None]
    return Searched(
        row=row,
        records=tuple(record.to_dict() for record in records),
        order=() if found is None else tuple(kernels[place] for place in found.order),
        running=tuple(kernel for kernel, one in zip(kernels, course.good, strict=True) if one.launch is not None),
        good=len(course.good),
    )


def _concluded(row: TuneRow, course: Course, state: Tuned) -> TuneRow:
    """The row of a search with the choice after it."""
    why = course.why
    if state is Tuned.UNSUPPORTED:
        why = "; ".join(f"{reason.id} {reason.text}" for reason in course.candidates.reasons) or "no kernel serves it"
    elif state is Tuned.INTERRUPTED:
        why = "interrupted"
    return replace(
        row,
        state=state,
        kernel=None if course.winner is None or course.winner.choice is None else course.winner.choice.kernel.digest,
        gain=course.gain,
        gain_ci95=course.gain_ci95,
        confirm_ns=course.confirm_ns,
        difference=course.difference,
        why=why,
    )


def _candidates(course: Course, build_budget_s: float | None) -> Iterator[TuneCandidate]:
    candidates = course.candidates
    known = {one.row.choice.kernel.digest: one for one in course.contenders if one.row.choice is not None}
    for place, choice in enumerate(candidates.choices):
        one = known.get(choice.kernel.digest)
        late = one is None and build_budget_s is not None and bool(course.built)
        yield replace(
            _candidate(candidates, choice.kernel, (unbuilt(build_budget_s or 0),) if late else ()),
            default=place == 0,
            **({} if one is None else _contended(course, one)),
        )
    for refused in candidates.refused:
        if refused.kernel is not None:
            yield _candidate(candidates, refused.kernel, refused.reasons)


def _candidate(candidates: Candidates, kernel: KernelSpec, reasons: tuple[Reason, ...]) -> TuneCandidate:
    return TuneCandidate(
        kernel=kernel.name,
        digest=kernel.digest,
        default=False,
        tuning_only=kernel.digest in candidates.tuning_only,
        verdict=None,
        samples=0,
        level_ns=None,
        rounds=0,
        reasons=reasons,
        notes=(),
    )


def _contended(course: Course, one: Contender) -> dict[str, Any]:
    """The members of a candidate that was judged."""
    totals = [sum(stages) for stages in one.launches]
    place = next((place for place, other in enumerate(course.good) if other is one), None)
    rounds = course.found.rounds if course.found is not None else ()
    return {
        "verdict": one.outcome.verdict,
        "samples": len(totals),
        "level_ns": level(totals) if totals else None,
        "rounds": sum(place in arms for arms in rounds),
        "reasons": one.outcome.reasons,
        "notes": one.outcome.every_note,
    }

"""``Course``: one problem while it is tuned: its candidates in the worker, and its row so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.bench.search import Policy, SearchResult, level
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason
from fmha_cli.report.documents.tune import TuneCandidate, Tuned, TuneRow
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.rows import Row
from fmha_cli.tune.candidates import Candidates, unbuilt
from fmha_cli.tune.resuming import Searched
from fmha_cli.tune.sampling import Contender


@dataclass
class Course:
    """The state of one problem.

    Attributes:
        row: what is known of it; that of an earlier session if its search ended there.
        rows: one for each candidate.
        contenders: the candidates that were built, or failed to build, with their verdicts.
        good: the contenders that may be chosen; the search numbers these.
        entry: the remembered choice.
    """

    candidates: Candidates
    row: TuneRow
    rows: tuple[Row, ...] = ()
    built: Mapping[str, KernelOutcome] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)
    good: list[Contender] = field(default_factory=list)
    found: SearchResult | None = None
    entry: RememberedChoice | None = None

    @staticmethod
    def of(candidates: Candidates) -> Course:
        """Of a problem about which nothing is known yet."""
        default, problem = candidates.default, candidates.problem
        row = TuneRow(
            problem=problem.to_dict(),
            flags=problem.repro(),
            backend=None if default is None else default.kernel.backend,
            device=None if default is None else default.device.id,
            state=Tuned.PLANNED,
            kernel=None,
            default=None if default is None else default.kernel.digest,
            gain=None,
            gain_ci95=None,
            candidates=(),
            samples=0,
            share=None,
            stop=None,
            build_ns=0,
            search_ns=0,
            confirm_ns=0,
            difference=None,
            why=None,
        )
        course = Course(candidates, row)
        course.add(candidates=tuple(course._candidates(None)))
        return course

    def add(self, **members: Any) -> None:
        """Change members of the row."""
        self.row = replace(self.row, **members)

    def count(self, policy: Policy, build_budget_s: float | None) -> None:
        """Put into the row what the search has found."""
        samples = sum(len(one.launches) for one in self.contenders)
        self.add(
            candidates=tuple(self._candidates(build_budget_s)),
            samples=samples,
            share=samples / (len(self.good) * policy.most) if self.good else None,
            stop=None if self.found is None else self.found.stop,
        )

    def end(self, state: Tuned) -> TuneRow:
        """The row of a problem that ends, at least for now, in this state."""
        if state is Tuned.UNSUPPORTED:
            reasons = (f"{reason.id} {reason.text}" for reason in self.candidates.reasons)
            self.add(why="; ".join(reasons) or "no kernel serves it")
        return replace(self.row, state=state, why="interrupted" if state is Tuned.INTERRUPTED else self.row.why)

    def searched(self) -> Searched:
        """What is kept of a search that ended."""
        found = self.found
        kernels = [one.row.choice.kernel.digest for one in self.good if one.row.choice is not None]
        return Searched(
            row=self.end(Tuned.INTERRUPTED),
            order=() if found is None else tuple(kernels[place] for place in found.order),
            running=tuple(kernel for kernel, one in zip(kernels, self.good, strict=True) if one.launch is not None),
            good=len(self.good),
        )

    def _candidates(self, build_budget_s: float | None) -> Iterator[TuneCandidate]:
        candidates = self.candidates
        known = {one.row.choice.kernel.digest: one for one in self.contenders if one.row.choice is not None}
        for place, choice in enumerate(candidates.choices):
            one = known.get(choice.kernel.digest)
            late = one is None and build_budget_s is not None and bool(self.built)
            yield replace(
                _candidate(candidates, choice.kernel, (unbuilt(build_budget_s or 0),) if late else ()),
                default=place == 0,
                **({} if one is None else self._contended(one)),
            )
        for refused in candidates.refused:
            if refused.kernel is not None:
                yield _candidate(candidates, refused.kernel, refused.reasons)

    def _contended(self, one: Contender) -> dict[str, Any]:
        """The members of a candidate that was judged."""
        totals = [sum(stages) for stages in one.launches]
        place = next((place for place, other in enumerate(self.good) if other is one), None)
        rounds = self.found.rounds if self.found is not None else ()
        return {
            "verdict": one.outcome.verdict,
            "samples": len(totals),
            "level_ns": level(totals) if totals else None,
            "rounds": sum(place in arms for arms in rounds),
            "reasons": one.outcome.reasons,
            "notes": one.outcome.every_note,
        }


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

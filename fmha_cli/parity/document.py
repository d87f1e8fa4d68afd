"""The document that ``fmha parity`` prints for a suite and its cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fmha_cli.domain.counterpart import Binaries, Mapped, Program
from fmha_cli.parity.compare import ComparedCase
from fmha_cli.parity.suite import Suite
from fmha_cli.report.documents.parity import (
    ParityCase,
    ParityOutcome,
    ParityPage,
    ParityTimes,
    SuiteFile,
    SuiteRow,
    UpstreamRun,
)
from fmha_cli.report.parts import Environment

_STDERR_KEPT = 4000


def parity_document(
    suite: Suite, rows: Iterable[ParityCase], binaries: Binaries | None, environment: Environment
) -> ParityPage:
    """The document of all cases, from :func:`case_row` or :func:`listed_row`."""
    cases = tuple(rows)
    outcomes = Counter(case.outcome for case in cases)
    paths = {} if binaries is None else binaries.found
    sources = tuple(SuiteFile(source.file, source.revision) for source in suite.sources)
    return ParityPage(
        environment=environment,
        suite=SuiteRow(name=suite.name, title=suite.title, sources=sources),
        upstream={p: str(paths[p]) if p in paths else None for p in Program},
        counts={outcome: outcomes[outcome] for outcome in ParityOutcome},
        cases=cases,
    )


def listed_row(case: Mapped) -> ParityCase:
    """A case that is listed and not run."""
    return _case(case, ParityOutcome.NOT_COMPARABLE if case.reasons else None, case.reasons)


def case_row(row: ComparedCase) -> ParityCase:
    """A case that was run, or was to be run."""
    ratio, times = row.ratio, row.times
    shown = None
    if ratio is not None and times is not None:
        shown = ParityTimes(ours_ns=tuple(times.ours_ns), upstream_ns=tuple(times.upstream_ns), ratio=ratio)
    return _case(row.mapped, row.outcome, row.why, upstream=_upstream(row), ours=row.record, times=shown)


def _case(case: Mapped, outcome: ParityOutcome | None, why: Iterable[str], **ran: Any) -> ParityCase:
    return ParityCase(
        name=case.case.name,
        group=case.case.group,
        program=case.case.program,
        settings=dict(sorted(case.case.settings.items())),
        argv=tuple(case.argv),
        problem=None if case.problem is None else case.problem.repro(),
        outcome=outcome,
        why=tuple(why),
        notes=tuple(case.notes),
        **ran,
    )


def _upstream(row: ComparedCase) -> UpstreamRun | None:
    ran, reading, seen = row.ran, row.reading, row.seen
    if ran is None or reading is None:
        return None
    return UpstreamRun(
        argv=tuple(ran.argv),
        device=ran.device,
        exit_code=ran.returncode,
        said=reading.said,
        findings=None if seen is None else seen.findings,
        executed=None if seen is None else seen.executed,
        why=reading.why or None,
        line=reading.line,
        kernels=tuple(reading.kernels),
        ms=reading.ms,
        seconds=ran.seconds,
        stderr=ran.stderr[-_STDERR_KEPT:],
        variables=dict(sorted(ran.variables.items())),
    )

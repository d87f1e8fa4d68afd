"""``fmha.parity/1``: the document of ``fmha parity``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fmha_cli.parity.case import Program
from fmha_cli.parity.compare import Row
from fmha_cli.parity.mapping import Mapped
from fmha_cli.parity.outcome import Outcome
from fmha_cli.parity.suite import Suite
from fmha_cli.parity.upstream import Binaries

_STDERR_KEPT = 4000


def parity_document(
    suite: Suite, rows: Iterable[Mapping[str, Any]], binaries: Binaries | None, environment: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of all cases; ``rows`` are those of :func:`row_dict` or :func:`listed_dict`."""
    cases = list(rows)
    outcomes = [case["outcome"] for case in cases]
    paths = {} if binaries is None else binaries.found
    return {
        "cases": cases,
        "counts": {outcome.value: outcomes.count(outcome.value) for outcome in Outcome},
        "environment": dict(environment),
        "schema": "fmha.parity/1",
        "suite": {
            "name": suite.name,
            "sources": [{"file": s.file, "revision": s.revision} for s in suite.sources],
            "title": suite.title,
        },
        "upstream": {p.value: str(paths[p]) if p in paths else None for p in Program},
    }


def listed_dict(case: Mapped) -> dict[str, Any]:
    """A case that is listed and not run."""
    return _case(case, Outcome.NOT_COMPARABLE if case.reasons else None, case.reasons)


def row_dict(row: Row) -> dict[str, Any]:
    """A case that was run, or was to be run."""
    ratio, times = row.ratio, row.times
    return {
        **_case(row.mapped, row.outcome, row.why),
        "ours": None if row.record is None else row.record.to_dict(),
        "times": None
        if ratio is None or times is None
        else {"ours_ns": list(times.ours_ns), "ratio": ratio.to_dict(), "upstream_ns": list(times.upstream_ns)},
        "upstream": _upstream(row),
    }


def _case(case: Mapped, outcome: Outcome | None, why: Iterable[str]) -> dict[str, Any]:
    return {
        "argv": list(case.argv),
        "group": case.case.group,
        "name": case.case.name,
        "notes": list(case.notes),
        "ours": None,
        "outcome": None if outcome is None else outcome.value,
        "problem": None if case.problem is None else case.problem.repro(),
        "program": case.case.program.value,
        "settings": dict(sorted(case.case.settings.items())),
        "times": None,
        "upstream": None,
        "why": list(why),
    }


def _upstream(row: Row) -> dict[str, Any] | None:
    ran, reading = row.ran, row.reading
    if ran is None or reading is None:
        return None
    return {
        "argv": list(ran.argv),
        "device": ran.device,
        "executed": None if row.seen is None else [counts.to_dict() for counts in row.seen.executed],
        "exit_code": ran.returncode,
        "findings": None if row.seen is None else [finding.to_dict() for finding in row.seen.findings],
        "kernels": list(reading.kernels),
        "line": reading.line,
        "ms": reading.ms,
        "said": reading.said.value,
        "seconds": ran.seconds,
        "stderr": ran.stderr[-_STDERR_KEPT:],
        "variables": dict(sorted(ran.variables.items())),
        "why": reading.why or None,
    }

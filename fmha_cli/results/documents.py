"""The document of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fmha_cli.domain.codec import taken_from
from fmha_cli.report.documents.compare import Compare, CompareGroup, CompareRow, LoneRow, RowSide, RunSide
from fmha_cli.report.record import Record
from fmha_cli.results.comparison import RowPair, RunComparison
from fmha_cli.results.conditions import By
from fmha_cli.results.matching import MatchedRow
from fmha_cli.results.run import KeptRun


def compare_document(comparison: RunComparison, before: KeptRun, after: KeptRun, by: Sequence[By]) -> Compare:
    """The document of a comparison."""
    return Compare(
        before=_side(before),
        after=_side(after),
        interleaved=comparison.rule.interleaved,
        by=tuple(by),
        tolerance=comparison.rule.tolerance,
        alpha=comparison.rule.alpha,
        rows=tuple(map(_row, comparison.rows)),
        groups=tuple(CompareGroup(backend=name, mean=mean) for name, mean in comparison.means.items()),
        only_before=_lone(comparison.only_before),
        only_after=_lone(comparison.only_after),
        notes=comparison.notes,
    )


def _side(source: KeptRun) -> RunSide:
    runs = [record.run for record in source.records if record.run is not None]
    return RunSide(
        name=source.name,
        labels=tuple(dict.fromkeys(run.label for run in runs if run.label)),
        revisions=tuple(
            dict.fromkeys(f"{run.revision[:12]}{'+' if run.dirty else ''}" for run in runs if run.revision)
        ),
        records=len(source.records),
    )


def _row(row: RowPair) -> CompareRow:
    before, after = row.matched.before.one, row.matched.after.one
    measured = before.measurement or after.measurement
    return CompareRow(
        problem=after.problem,
        cache=None if measured is None else measured.cache.value,
        threads=None if measured is None else measured.threads,
        before=row_side(before),
        after=row_side(after),
        worse=row.matched.worse,
        difference=row.difference,
        screened=row.screened,
    )


def row_side(record: Record) -> RowSide:
    """The side of a row that is one record."""
    return taken_from(record, RowSide, kernel=record.kernel and record.kernel.digest)


def _lone(entries: Iterable[MatchedRow]) -> tuple[LoneRow, ...]:
    ones = (entry.one for entry in entries)
    return tuple(
        LoneRow(
            problem=one.problem,
            cache=None if one.measurement is None else one.measurement.cache.value,
            side=row_side(one),
        )
        for one in ones
    )

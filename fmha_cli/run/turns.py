"""Which rows are interleaved, and which row each is compared with.

The two rows of ``--ab`` are compared with each other. Of several backends, each row is compared with the first one of its problem and
cache mode that was timed, and the fastest good row with the next one. Backends on one device take turns; a ratio between devices is taken
from separate samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from fmha_cli.bench.ab import ab_ratios
from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.stats import median
from fmha_cli.domain.errors import ExitCode
from fmha_cli.report.counts import compared_counts
from fmha_cli.report.record import Record
from fmha_cli.run.outcome import Outcome
from fmha_cli.run.rows import Row


def turns_of(rows: Sequence[Row]) -> list[list[int]]:
    """The numbers of the rows that run together, in the order of the first of each; a row alone is a group of one."""
    groups: dict[object, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(index if row.turns is None else row.turns, []).append(index)
    return list(groups.values())


def beside(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of interleaved rows; on an emulated device each has a note that compares its instructions with the
    other row's.
    """
    mutual = rows[0].asked is None
    others = [1 - n if mutual else 0 for n in range(len(rows))]
    return [
        outcome if n == other else _counted(outcome, outcomes[other], rows[other].short)
        for n, (outcome, other) in enumerate(zip(outcomes, others, strict=True))
    ]


def _counted(outcome: Outcome, other: Outcome, against: str) -> Outcome:
    note = compared_counts(outcome.executed or (), other.executed or (), against)
    return outcome if note is None else replace(outcome, notes=(*outcome.notes, note))


def ratios_of(
    indices: Sequence[int], rows: Sequence[Row], records: Mapping[int, Record], in_turns: Set[int]
) -> dict[int, Ratio]:
    """The ratios of rows that were just timed.

    Args:
        indices: the numbers of these rows.
        records: of all rows that are done, by number.
        in_turns: those of ``indices`` whose samples come from shared rounds.
    """
    samples = {n: r.measurement.samples_ns for n, r in records.items() if r.measurement is not None}
    own = [n for n in indices if n in samples and rows[n].turn is not None]
    if len(own) == 2 and rows[own[0]].asked is None:
        a, b = own
        return dict(zip(own, ab_ratios(samples[a], samples[b], (rows[a].name, rows[b].name)), strict=True))
    found: dict[int, Ratio] = {}
    for n in own if own and rows[own[0]].asked is not None else ():
        first = min(other for other in samples if rows[other].compares(rows[n]))
        if first != n:
            paired = {first, n} <= in_turns
            found[n] = Ratio.of(samples[n], samples[first], against=rows[first].name, paired=paired)
    return found


def lead_of(rows: Sequence[Row], records: Sequence[Record]) -> tuple[int, Ratio] | None:
    """The place of the fastest good row, and its ratio to the next one; None with fewer than two.

    Args:
        rows: those of several backends about one problem and cache mode.
        records: of these rows, in their order.
    """
    good = [
        (median(samples), n, samples)
        for n, record in enumerate(records)
        if record.measurement is not None and record.verdict.exit_code is ExitCode.OK
        for samples in (record.measurement.samples_ns,)
    ]
    if len(good) < 2:
        return None
    (_, first, mine), (_, second, other) = sorted(good, key=lambda one: one[:2])[:2]
    paired = all(ratio.paired for ratio in (records[first].ab, records[second].ab) if ratio is not None)
    return first, Ratio.of(mine, other, against=rows[second].name, paired=paired)

"""``RunComparison``: two runs compared row by row, with the rows that were run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference, Mean, SureRule, judged, mean_of
from fmha_cli.bench.ranks import FEWEST_PROCESSES, fewest_processes
from fmha_cli.domain.errors import EmptySelection, ExitCode
from fmha_cli.report.lines import counted, problem_text
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import USUAL, By, kernel_name, key_of, told, value_of
from fmha_cli.results.matching import Matched, MatchedRow, Matching, matching, unshared


class FailOn(StrEnum):
    """What makes a comparison end with exit code 1."""

    SLOWER = "slower"
    UNSURE = "unsure"
    WRONG = "wrong"
    """A verdict that was good and is not any more."""


FAIL_ON = (FailOn.SLOWER, FailOn.WRONG)


@dataclass(frozen=True)
class RowPair:
    """One row of both runs.

    Attributes:
        difference: the last one: of the fresh processes if the row was run again.
        screened: the first one, where the row was run again.
    """

    matched: Matched
    difference: Difference
    screened: Difference | None = None


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Two runs compared.

    Attributes:
        rows: in the order of the first run.
        means: geometric mean of the ratios, by backend.
        rule: the rule that judged the rows.
        notes: what differs between the runs as a whole, and what the rows need.
    """

    rows: tuple[RowPair, ...]
    only_before: tuple[MatchedRow, ...]
    only_after: tuple[MatchedRow, ...]
    means: Mapping[str, Mean]
    rule: SureRule
    notes: tuple[str, ...]

    @property
    def suspicious(self) -> tuple[RowPair, ...]:
        """The rows that fresh processes may decide."""
        return tuple(row for row in self.rows if row.screened is None and row.difference.suspicious)

    def exit_code(self, fail_on: Sequence[FailOn] = FAIL_ON) -> ExitCode:
        """1 if a row is in a state that counts as a failure, else 0."""
        speeds = {row.difference.speed for row in self.rows if not row.matched.worse}
        bad = (
            (FailOn.SLOWER in fail_on and Speed.SLOWER in speeds)
            or (FailOn.UNSURE in fail_on and Speed.UNSURE in speeds)
            or (FailOn.WRONG in fail_on and any(row.matched.worse for row in self.rows))
        )
        return ExitCode.WRONG if bad else ExitCode.OK


def compared(
    before: Iterable[Record],
    after: Iterable[Record],
    rule: SureRule,
    by: Sequence[By] = USUAL,
    where: str = "fmha compare",
) -> RunComparison:
    """Two runs compared row by row.

    Raises:
        UsageError: E056, several rows of one run correspond.
        EmptySelection: E057, nothing corresponds.
    """
    found = matching(before, after, by)
    if not found.rows:
        raise _nothing_corresponds(found, by, where)
    rows = tuple(map(RowPair, found.rows, judged([row.pair for row in found.rows], rule)))
    return RunComparison(
        rows=rows,
        only_before=found.only_before,
        only_after=found.only_after,
        means=_means(rows),
        rule=rule,
        notes=(*_differing(found.rows, by), *_needs(rows, rule)),
    )


def _nothing_corresponds(found: Matching, by: Sequence[By], where: str) -> EmptySelection:
    """E057 with the first condition that no two rows share, and the conditions under which some would be compared."""
    sides = [[entry.one for entry in side] for side in (found.only_before, found.only_after)]
    what = "nothing corresponds: {} before, {} after".format(*(counted(len(side), "row") for side in sides))
    if not all(sides):
        why = f"the run {'after' if sides[0] else 'before'} has no rows"
        return EmptySelection(what, code="E057", where=where, why=why, help="`fmha results show RUN` shows its rows")
    rest, first = list(by), _unshared(sides, by)
    while (one := _unshared(sides, rest)) not in (None, By.PROBLEM):
        rest.remove(one)
    if one is By.PROBLEM or first is None:
        texts = [problem_text(side[0].problem) for side in sides]
        why = f"the runs have no problem in common: {texts[0]} before, {texts[1]} after"
        help = "run both with the same problem flags"
    else:
        values = [", ".join(sorted({str(value_of(record, first)) for record in side})) for side in sides]
        why = f"{first} is {values[0]} before and {values[1]} after"
        help = f"--by {','.join(rest)} compares them all the same"
    return EmptySelection(what, code="E057", where=where, why=why, help=help)


def _unshared(sides: Sequence[Sequence[Record]], by: Sequence[By]) -> By | None:
    """The first condition that no rows share which share those before it; None if some rows share all."""
    place, _ = unshared([[key_of(record, by) for record in side] for side in sides])
    return by[place] if place < len(by) else None


TO_CONFIRM = 12
"""Fresh processes a side for suspicious rows."""
_SPARE = 7
"""Processes beyond the fewest that could be sure, so not each of them has to agree: on a machine where every tenth
process is slower by a tenth, 12 processes confirm 90 % of 150 slow rows, 16 confirm 97 % (results/comparing.md).
"""


def processes_to_confirm(rows: int, alpha: float) -> int:
    """Fresh processes a side with which so many rows can be decided."""
    return max(TO_CONFIRM, fewest_processes(rows, alpha) + _SPARE)


def confirmed(
    screened: RunComparison, before: Iterable[Record], after: Iterable[Record], by: Sequence[By] = USUAL
) -> RunComparison:
    """The comparison with its suspicious rows judged again by fresh processes alone. The chance that any of them is called slower or
    faster falsely is ``alpha`` at most (Holm, over these rows alone).

    Args:
        before, after: the fresh records. Rows that were not suspicious are left out of them here.
    """
    again = matching(before, after, by)
    fresh = {_identity(row): row for row in again.rows}
    places = [
        i for i, row in enumerate(screened.rows) if row in screened.suspicious and _identity(row.matched) in fresh
    ]
    chosen = [fresh[_identity(screened.rows[i].matched)] for i in places]
    rule = replace(screened.rule, interleaved=True, any_false=True)
    rows = list(screened.rows)
    for place, matched, difference in zip(places, chosen, judged([row.pair for row in chosen], rule), strict=True):
        rows[place] = RowPair(matched, difference, screened=screened.rows[place].difference)
    waiting = tuple(
        replace(row, difference=replace(row.difference, speed=Speed.UNSURE, why="it was not run again"))
        if row.difference.speed in (Speed.SLOWER, Speed.FASTER) and row.screened is None
        else row
        for row in rows
    )
    return replace(screened, rows=waiting, means=_means(waiting))


def _identity(row: Matched) -> tuple[object, ...]:
    sides = (row.before.one, row.after.one)
    return tuple(
        (repr(sorted(one.problem.items(), key=str)), one.backend, one.device, kernel_name(one), told(one, "cache"))
        for one in sides
    )


def _means(rows: Sequence[RowPair]) -> dict[str, Mean]:
    """The geometric mean of the ratios of each backend that has several rows, by the name of the second run's backend."""
    groups: dict[str, list[Matched]] = {}
    for row in rows:
        if row.difference.p is not None:
            groups.setdefault(row.matched.after.one.backend or "", []).append(row.matched)
    return {name: mean_of([row.pair for row in group]) for name, group in groups.items()}


def _differing(rows: Sequence[Matched], by: Sequence[By]) -> list[str]:
    """One line for each condition of the machine or of the run that differs between the two sides."""
    lines = []
    for name, value in _CONDITIONS.items():
        if name in list(by):
            continue
        sides = [
            {value(record) for row in rows for record in (row.before if first else row.after).records}
            for first in (True, False)
        ]
        if sides[0] != sides[1]:
            words = [", ".join(sorted(map(str, side - {None}))) or "not told" for side in sides]
            lines.append(f"{name} differs: {words[0]} before, {words[1]} after")
    return lines


_CONDITIONS: Mapping[str, Callable[[Record], Any]] = {
    "host": lambda record: None if record.host is None else record.host[:12],
    "processor": lambda record: None if record.processor is None else record.processor.name,
    **{name: partial(told, name=name) for name in ("device", "threads", "cache")},
}


def _needs(rows: Sequence[RowPair], rule: SureRule) -> list[str]:
    """What the number of rows needs, if they have less."""
    tested = [row.difference for row in rows if row.difference.p is not None]
    if not tested:
        return [
            f"no row can be sure: it needs {FEWEST_PROCESSES} processes or more a side. Record both runs with fmha bench --processes "
            f"{FEWEST_PROCESSES}, or let fmha compare --run 'CMD' --run 'CMD' run them alternately"
        ]
    fewest = fewest_processes(len(tested), rule.alpha)
    have = min(min(one.processes_before, one.processes_after) for one in tested)
    if have >= fewest:
        return []
    return [
        f"{counted(len(tested), 'row')}: a lone difference needs at least {fewest} processes a side to be sure; here are {have}"
    ]

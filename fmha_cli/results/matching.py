"""Which rows of two runs correspond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fmha_cli.bench.difference import SidePair
from fmha_cli.bench.processes import ProcessSide, split
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import USUAL, By, Key, agrees, is_good, is_timed, kernel_name, key_of, value_of


@dataclass(frozen=True)
class MatchedRow:
    """One row of one side: all its records, each of which holds one process or several."""

    records: tuple[Record, ...]

    @property
    def one(self) -> Record:
        """The record that stands for the row: the first with the worst verdict."""
        return next((record for record in self.records if not is_good(record)), self.records[0])

    @property
    def verdict(self) -> Verdict:
        return self.one.verdict

    @cached_property
    def side(self) -> ProcessSide:
        """Its times; none if it is not good."""
        timed = [record for record in self.records if is_timed(record) and is_good(self.one)]
        ceilings = [one.measurement.ceiling for one in timed if one.measurement is not None]
        return ProcessSide.of(processes_of(timed), [max(one.before, one.after) for one in ceilings if one is not None])


def processes_of(records: Iterable[Record]) -> list[tuple[int, ...]]:
    """The samples of each process of a row, in nanoseconds."""
    measured = [record.measurement for record in records]
    return [part for one in measured if one is not None for part in split(one.samples_ns, one.process_of_sample)]


@dataclass(frozen=True)
class Matched:
    """One row of both sides."""

    before: MatchedRow
    after: MatchedRow

    @property
    def pair(self) -> SidePair:
        return SidePair(self.before.side, self.after.side)

    @property
    def worse(self) -> bool:
        """Whether the row was good and is not any more. A row that did not run says nothing."""
        return is_good(self.before.one) and not is_good(self.after.one) and self.after.verdict is not Verdict.NOT_RUN


Kernels = Mapping[str | None, MatchedRow]
"""The rows under equal conditions, by the name of their kernel."""

Entries = Mapping[Key, Kernels]
"""The rows of one side, by their conditions."""


@dataclass(frozen=True)
class Matching:
    """The rows of both sides, in the order of the first side, and those of one side alone."""

    rows: tuple[Matched, ...]
    only_before: tuple[MatchedRow, ...] = ()
    only_after: tuple[MatchedRow, ...] = ()


def matching(before: Iterable[Record], after: Iterable[Record], by: Sequence[By] = USUAL) -> Matching:
    """The rows of two runs that correspond.

    Raises:
        UsageError: E056, ``by`` leaves rows together that differ otherwise than by their kernel.
    """
    sides = (tuple(before), tuple(after))
    keys: dict[Key, None] = dict.fromkeys(key_of(record, by) for side in sides for record in side if is_timed(record))
    first, second = (entries_of(side, tuple(keys), by) for side in sides)
    rows: list[Matched] = []
    lone: tuple[list[MatchedRow], list[MatchedRow]] = ([], [])
    for key in dict.fromkeys((*first, *second)):
        pairs, left, right = _kernels(first.get(key, {}), second.get(key, {}))
        rows += pairs
        lone[0].extend(left)
        lone[1].extend(right)
    return Matching(tuple(rows), tuple(lone[0]), tuple(lone[1]))


def counterpart(kernels: Kernels, name: str | None, *, renamed: bool = True) -> MatchedRow | None:
    """The row under equal conditions to compare a kernel's row with: that of the same kernel.

    Args:
        renamed: the only row counts whatever its kernel, which may have been renamed since.
    """
    found = kernels.get(name)
    return next(iter(kernels.values())) if found is None and renamed and len(kernels) == 1 else found


def _kernels(before: Kernels, after: Kernels) -> tuple[list[Matched], list[MatchedRow], list[MatchedRow]]:
    """The rows under equal conditions: by the kernel's name, or whatever its name if each side has one."""
    renamed = len(before) == len(after) == 1
    found = {name: counterpart(after, name, renamed=renamed) for name in before}
    rows = [Matched(before[name], other) for name, other in found.items() if other is not None]
    taken = [row.after for row in rows]
    left = [before[name] for name, other in found.items() if other is None]
    return rows, left, [entry for entry in after.values() if not any(entry is other for other in taken)]


def unshared(sides: Sequence[Sequence[Key]]) -> tuple[int, Sequence[Sequence[Key]]]:
    """The place of the first condition that no keys of the two sides share which share all before it, and these keys; the number
    of conditions if some share all."""
    count = len(sides[0][0])
    for place in range(count):
        shared = {key[place] for key in sides[0]} & {key[place] for key in sides[1]}
        if not shared:
            return place, sides
        sides = [[key for key in side if key[place] in shared] for side in sides]
    return count, sides


def entries_of(records: Iterable[Record], keys: Sequence[Key] = (), by: Sequence[By] = USUAL) -> Entries:
    """The rows of one side by their conditions and kernels.

    A row without times lacks some conditions. It belongs wherever it does not contradict them: under each of ``keys`` that fits.

    Raises:
        UsageError: E056, ``by`` leaves rows together that differ otherwise than by their kernel.
    """
    found: dict[Key, dict[str | None, list[Record]]] = {}
    for record in records:
        own = key_of(record, by)
        places = [own] if is_timed(record) else [key for key in keys if agrees(own, key)] or [own]
        for key in places:
            found.setdefault(key, {}).setdefault(kernel_name(record), []).append(record)
    for kernels in found.values():
        for rows in kernels.values():
            _check_alike(rows, by)
    return {key: {name: MatchedRow(tuple(rows)) for name, rows in kernels.items()} for key, kernels in found.items()}


def _check_alike(records: Sequence[Record], by: Sequence[By]) -> None:
    """Raises UsageError: E056, the rows differ in another condition, so they are not one row in several processes."""
    timed = [record for record in records if is_timed(record)]
    for other in (one for one in By if one not in (*by, By.KERNEL, By.MODEL)):
        values = dict.fromkeys(str(value_of(record, other)) for record in timed)
        if len(values) > 1:
            raise UsageError(
                f"--by {','.join(by)}: several rows correspond, with {other} {', '.join(values)}",
                code="E056",
                where="--by",
                help=f"--by {','.join((*by, other))}",
            )

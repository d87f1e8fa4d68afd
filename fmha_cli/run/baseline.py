"""The comparison of a run with an earlier report (``bench --baseline FILE``): has anything become slower?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fmha_cli.bench.difference import Against, SureRule
from fmha_cli.bench.ranks import fewest_processes
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.report.lines import counted
from fmha_cli.report.reading import content_of
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import USUAL, By, Key, is_good, kernel_name, key_of
from fmha_cli.results.matching import Entries, MatchedRow, counterpart, entries_of, processes_of, unshared
from fmha_cli.run.rows import Row

PlannedKey = tuple[Key, str | None]
"""The usual conditions of a row that will be timed, and the name of its kernel."""


def planned_keys(rows: Sequence[Row], threads: int) -> list[PlannedKey]:
    """Of every row that can be timed."""
    found: list[PlannedKey] = []
    for row in rows:
        if row.choice is not None and row.choice.runnable:
            kernel, problem = row.choice.kernel, canonical_json(row.problem.to_dict())
            key = (problem, kernel.backend, row.choice.device.id, kernel.arch, row.cache.value, threads)
            found.append((key, kernel.name))
    return found


@dataclass(frozen=True)
class Baseline:
    """The timed rows of an earlier report.

    Attributes:
        name: the name that rows and messages use for it.
        records: the rows that were timed and are good.
        bad: number of rows that were timed, but are wrong or not to be trusted. Their times mean nothing.
        rows: number of rows that are compared with it; the more there are, the surer a single one must be.
    """

    name: str
    records: tuple[Record, ...]
    bad: int = 0
    rows: int = 1

    @cached_property
    def _entries(self) -> Entries:
        return entries_of(self.records)

    def among(self, planned: Sequence[PlannedKey]) -> Baseline:
        """The baseline of a run with these rows."""
        return replace(self, rows=max(1, sum(self._counterpart(*row) is not None for row in planned)))

    def _counterpart(self, key: Key, kernel: str | None) -> MatchedRow | None:
        return counterpart(self._entries.get(key, {}), kernel)

    def ratio(self, record: Record) -> Against | None:
        """The comparison of a row with its counterpart; None if either has no time."""
        row = None if record.measurement is None else self._counterpart(key_of(record, USUAL), kernel_name(record))
        if row is None:
            return None
        rule = SureRule(interleaved=False, family=self.rows)
        return Against.of(processes_of([record]), processes_of(row.records), against=self.name, rule=rule)

    def coverage(self, planned: Sequence[PlannedKey]) -> tuple[str, ...]:
        """The lines to print before the rows run: how many have a counterpart if not all have, and which rows do not
        count.

        Raises:
            EmptySelection: none has a counterpart. The message names the condition that no row of the baseline meets.
        """
        counterparts = [found for row in planned if (found := self._counterpart(*row)) is not None]
        with_one = len(counterparts)
        if planned and not with_one:
            raise EmptySelection(
                f"--baseline {self.name}: no row has a counterpart in it",
                code="E049",
                where="--baseline",
                why=max((self._missing(key) for key, _ in planned), key=lambda found: found[0])[1],
                help="repeat the command line that wrote it, or write another one with fmha bench ... --json -o FILE",
            )
        lines = []
        if self.bad:
            lines.append(f"{self.name}: {counted(self.bad, 'row')} with a bad verdict left out")
        if with_one < len(planned):
            have = "has" if with_one == 1 else "have"
            lines.append(f"{self.name}: {with_one} of {counted(len(planned), 'row')} {have} a counterpart")
        fewest = fewest_processes(with_one)
        processes = min((len(processes_of(row.records)) for row in counterparts), default=fewest)
        if processes < fewest:
            lines.append(
                f"{self.name}: {counted(processes, 'process')} a row; {counted(with_one, 'row')} can be surely slower or faster "
                f"with {fewest} or more on either side: repeat its command line with --processes {max(8, fewest)}"
            )
        return tuple(lines)

    def _missing(self, key: Key) -> tuple[int, str]:
        """The number of conditions that some row of the baseline meets together, and the next one in words."""
        place, (_, left) = unshared(([key], list(self._entries)))
        if place == len(USUAL):
            return place, "its rows are of other kernels"
        if USUAL[place] is By.PROBLEM:
            return place, "its rows are of other problems"
        had = ", ".join(sorted({str(other[place]) for other in left}))
        return place, f"for the same problem, {USUAL[place]} is {key[place]} here and {had} there"


def load_baseline(path: Path) -> Baseline:
    """The timed rows of a report that ``--json`` or ``--jsonl`` wrote. Emulated devices have no times.

    Raises:
        UsageError: it cannot be read, is not a report, or holds no good timed row.
    """
    try:
        records = content_of(regular_bytes(path)).records
    except (OSError, DecodeError) as fault:
        raise _unusable(path, (isinstance(fault, OSError) and fault.strerror) or str(fault)) from fault
    timed = [r for r in records if r.measurement is not None and not is_emulated(r.device)]
    good = tuple(r for r in timed if is_good(r))
    if not good:
        raise _unusable(path, "its timed rows are wrong or not to be trusted" if timed else "it holds no timed row")
    return Baseline(path.name, good, len(timed) - len(good))


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--baseline {path}: not a report of fmha bench",
        code="E040",
        where="--baseline",
        why=why,
        help="fmha bench ... --json -o FILE writes one",
    )

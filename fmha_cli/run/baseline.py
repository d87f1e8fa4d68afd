"""The comparison of a run with an earlier report (``bench --baseline FILE``): has anything become slower?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from fmha_cli.bench.against import Against
from fmha_cli.bench.difference import SureRule
from fmha_cli.bench.processes import split
from fmha_cli.bench.ranks import fewest_processes
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EmptySelection, ExitCode, UsageError
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.report.lines import counted
from fmha_cli.report.reading import content_of
from fmha_cli.report.record import Record


@dataclass(frozen=True, kw_only=True)
class RowConditions:
    """The conditions that two timed rows must share to be compared: the problem's canonical JSON, and where and how it
    ran.
    """

    problem: str
    backend: str | None
    device: str | None
    arch: str | None
    cache: str
    threads: int

    @staticmethod
    def of(record: Record) -> RowConditions | None:
        """The conditions of a timed row; None without a time."""
        measured = record.measurement
        if measured is None:
            return None
        return RowConditions(
            problem=canonical_json(record.problem),
            backend=record.backend,
            device=record.device,
            arch=record.arch,
            cache=measured.cache.value,
            threads=measured.threads,
        )


Planned = tuple[RowConditions, str]
"""The conditions of a row that will be timed, and the name of its kernel."""


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
    def _by_conditions(self) -> Mapping[RowConditions, Sequence[Record]]:
        rows: dict[RowConditions, list[Record]] = {}
        for record in self.records:
            if conditions := RowConditions.of(record):
                rows.setdefault(conditions, []).append(record)
        return rows

    def among(self, planned: Sequence[Planned]) -> Baseline:
        """The baseline of a run with these rows."""
        return replace(self, rows=max(1, sum(bool(self.counterpart(*row)) for row in planned)))

    def counterpart(self, conditions: RowConditions, kernel: str | None) -> tuple[Record, ...]:
        """The records of the row to compare with, each of one process or several; none without one.

        Of several rows under the same conditions (``--all-kernels``) the one with the same kernel name counts. A kernel
        that was renamed since is compared only if exactly one row corresponds.
        """
        found = self._by_conditions.get(conditions, ())
        same = tuple(row for row in found if _kernel_name(row) == kernel)
        return same or (tuple(found) if len(set(map(_kernel_name, found))) == 1 else ())

    def ratio(self, record: Record) -> Against | None:
        """The comparison of a row with its counterpart; None if either has no time."""
        conditions = RowConditions.of(record)
        rows = () if conditions is None else self.counterpart(conditions, _kernel_name(record))
        if not rows:
            return None
        rule = SureRule(interleaved=False, family=self.rows)
        return Against.of(_processes([record]), _processes(rows), against=self.name, rule=rule)

    def coverage(self, planned: Sequence[Planned]) -> tuple[str, ...]:
        """The lines to print before the rows run: how many have a counterpart if not all have, and which rows do not
        count.

        Raises:
            EmptySelection: none has a counterpart. The message names the condition that no row of the baseline meets.
        """
        counterparts = [rows for row in planned if (rows := self.counterpart(*row))]
        with_one = len(counterparts)
        if planned and not with_one:
            raise EmptySelection(
                f"--baseline {self.name}: no row has a counterpart in it",
                code="E049",
                where="--baseline",
                why=max((self._missing(conditions) for conditions, _ in planned), key=lambda found: found[0])[1],
                help="repeat the command line that wrote it, or write another one with fmha bench ... --json -o FILE",
            )
        lines = []
        if self.bad:
            lines.append(f"{self.name}: {counted(self.bad, 'row')} with a bad verdict left out")
        if with_one < len(planned):
            have = "has" if with_one == 1 else "have"
            lines.append(f"{self.name}: {with_one} of {counted(len(planned), 'row')} {have} a counterpart")
        fewest = fewest_processes(with_one)
        processes = min((len(_processes(rows)) for rows in counterparts), default=fewest)
        if processes < fewest:
            lines.append(
                f"{self.name}: {counted(processes, 'process')} a row; {counted(with_one, 'row')} can be surely slower or faster "
                f"with {fewest} or more on either side: repeat its command line with --processes {max(8, fewest)}"
            )
        return tuple(lines)

    def _missing(self, conditions: RowConditions) -> tuple[int, str]:
        """The number of conditions that some row of the baseline meets together, and the next one in words."""
        left = list(self._by_conditions)
        for place, field in enumerate(fields(RowConditions)):
            wanted = getattr(conditions, field.name)
            met = [row for row in left if getattr(row, field.name) == wanted]
            if not met:
                if field.name == "problem":
                    return place, "its rows are of other problems"
                had = ", ".join(sorted({str(getattr(row, field.name)) for row in left}))
                return place, f"for the same problem, {field.name} is {wanted} here and {had} there"
            left = met
        return len(fields(RowConditions)), "its rows are of other kernels"


def _processes(records: Sequence[Record]) -> list[tuple[int, ...]]:
    """The samples of each process of a row."""
    measured = [record.measurement for record in records]
    return [part for one in measured if one is not None for part in split(one.samples_ns, one.process_of_sample)]


def _kernel_name(record: Record) -> str | None:
    return None if record.kernel is None else record.kernel.name


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
    good = tuple(r for r in timed if r.verdict.exit_code is ExitCode.OK)
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

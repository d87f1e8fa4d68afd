"""The times of one row over many runs, which the store answers without putting a record together: its columns, index and samples suffice.

Times are medians of whole records in nanoseconds, all processes together. Rows that are not good have none here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError, unpacked_samples
from fmha_cli.results.parts import RowPlace, taken_apart
from fmha_cli.results.store import Store, unusable

_GOOD = f"r.verdict in {tuple(str(one) for one in Verdict if one.good)} and r.whole_ns is not null"


@dataclass(frozen=True)
class TimePoint:
    """The time of one row in one run.

    Attributes:
        interval_ns: of the median; None for too few samples.
        processes_ns: the samples of each process.
    """

    run: str
    started: str
    label: str | None
    revision: str | None
    median_ns: int
    interval_ns: tuple[int, int] | None
    processes_ns: tuple[tuple[int, ...], ...]


def history(store: Store, record: Record) -> tuple[TimePoint, ...]:
    """The times of a record's problem and kernel on its device, in its cache mode and with its threads, in the order of the runs.

    Raises:
        EnvironmentProblem: X050.
    """
    shared, measured = taken_apart(record, RowPlace(run=None, key="", started=None)).shared, record.measurement
    problem, kernel = shared["problem"], shared["kernel"]
    if measured is None or problem is None or kernel is None:
        return ()
    asked = (problem.digest, kernel.digest, record.device, measured.cache.value, measured.threads)
    with store.reading() as db:
        rows = db.execute(
            "select r.id, run.uuid, run.started, run.label, run.rev, r.whole_ns, r.ci_lo, r.ci_hi, s.samples "
            "from record r join run on run.id = r.run join record s on s.run = r.run and s.row = r.row "
            "where r.process = 0 and r.problem = (select id from problem where digest = ?) "
            "and r.kernel = (select id from kernel where digest = ?) and r.device is ? and r.cache = ? and r.threads = ? "
            f"and {_GOOD} order by r.run, r.id, s.process",
            asked,
        ).fetchall()
    try:
        return tuple(_point(list(group)) for _, group in groupby(rows, key=itemgetter(0)))
    except DamagedError as fault:
        raise unusable(store.path, f"samples of {kernel.digest.hex()} are damaged: {fault}") from fault


def _point(processes: Sequence[sqlite3.Row]) -> TimePoint:
    """The point of one record from the rows of its processes."""
    _, run, started, label, commit, ns, low, high, _ = processes[0]
    stages = [unpacked_samples(row[-1]) for row in processes if row[-1] is not None]
    samples = tuple(tuple(map(sum, zip(*of, strict=True))) for of in stages)
    return TimePoint(run, started, label, commit, ns, None if low is None else (low, high), samples)

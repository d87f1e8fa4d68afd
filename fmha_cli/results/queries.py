"""Questions about many runs that the store answers without putting a record together: its columns, indexes and samples suffice.

Times are medians of whole records in nanoseconds, all processes together. Rows that are not good have none here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError, unpacked_samples
from fmha_cli.results.parts import Place, taken_apart
from fmha_cli.results.store import Store, unusable

_GOOD = "verdict in ('PASSED', 'UNCHECKED') and whole_ns is not null"


@dataclass(frozen=True)
class Point:
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


@dataclass(frozen=True)
class Pair:
    """The times of one problem, kernel and cache mode in two runs; problem and kernel are the store's own numbers."""

    problem: int
    kernel: int
    cache: str
    first_ns: int
    second_ns: int


@dataclass(frozen=True)
class Best:
    """The fastest row of a problem, in JSON and by name."""

    problem: str
    kernel: str | None
    run: str
    median_ns: int


def history(store: Store, record: Record) -> tuple[Point, ...]:
    """The times of a record's problem and kernel on its device, in its cache mode and with its threads, in the order of the runs.

    Raises:
        EnvironmentProblem: X050.
    """
    shared, measured = taken_apart(record, Place(run=None, key="", started=None)).shared, record.measurement
    problem, kernel = shared["problem"], shared["kernel"]
    if measured is None or problem is None or kernel is None:
        return ()
    asked = (problem.digest, kernel.digest, record.device, measured.cache.value, measured.threads)
    good = _GOOD.replace("verdict", "r.verdict").replace("whole_ns", "r.whole_ns")
    with store.reading() as db:
        rows = db.execute(
            "select r.id, run.uuid, run.started, run.label, run.rev, r.whole_ns, r.ci_lo, r.ci_hi, s.samples "
            "from record r join run on run.id = r.run join record s on s.run = r.run and s.row = r.row "
            "where r.process = 0 and r.problem = (select id from problem where digest = ?) "
            "and r.kernel = (select id from kernel where digest = ?) and r.device is ? and r.cache = ? and r.threads = ? "
            f"and {good} order by r.run, r.id, s.process",
            asked,
        ).fetchall()
    try:
        return tuple(_point(list(group)) for _, group in groupby(rows, key=itemgetter(0)))
    except DamagedError as fault:
        raise unusable(store.path, f"samples of {kernel.digest.hex()} are damaged: {fault}") from fault


def _point(processes: Sequence[sqlite3.Row]) -> Point:
    """The point of one record from the rows of its processes."""
    _, run, started, label, commit, ns, low, high, _ = processes[0]
    stages = [unpacked_samples(row[-1]) for row in processes if row[-1] is not None]
    samples = tuple(tuple(map(sum, zip(*of, strict=True))) for of in stages)
    return Point(run, started, label, commit, ns, None if low is None else (low, high), samples)


def pairs(store: Store, first: str, second: str) -> tuple[Pair, ...]:
    """What two runs (ids) have in common, in the order of the first.

    Raises:
        EnvironmentProblem: X050.
    """
    good = _GOOD.replace("verdict", "{0}.verdict").replace("whole_ns", "{0}.whole_ns")
    with store.reading() as db:
        rows = db.execute(
            "select a.problem, a.kernel, a.cache, a.whole_ns, b.whole_ns from record a join record b "
            "on b.problem = a.problem and b.kernel = a.kernel and b.cache = a.cache and b.device is a.device and b.threads = a.threads "
            "where a.run = (select id from run where uuid = ?) and b.run = (select id from run where uuid = ?) "
            f"and a.process = 0 and b.process = 0 and {good.format('a')} and {good.format('b')} order by a.id, b.id",
            (first, second),
        ).fetchall()
    return tuple(Pair(*row) for row in rows)


def best(store: Store) -> tuple[Best, ...]:
    """The fastest row of every problem over all runs and devices.

    Raises:
        EnvironmentProblem: X050.
    """
    fastest = (
        f"select r.id from record r where r.problem = p.id and r.process = 0 and r.{_GOOD} order by whole_ns limit 1"
    )
    with store.reading() as db:
        rows = db.execute(
            "select p.json, k.name, run.uuid, f.whole_ns from problem p "
            f"join record f on f.id = ({fastest}) join run on run.id = f.run left join kernel k on k.id = f.kernel order by p.id"
        ).fetchall()
    return tuple(Best(*row) for row in rows)

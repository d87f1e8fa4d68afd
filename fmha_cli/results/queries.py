"""Questions about many runs that the store answers without reading a record: its columns and indexes suffice.

Times are medians of whole records in nanoseconds, all processes together. Rows that are not good have none here.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.report.record import Record
from fmha_cli.results.parts import Place, taken_apart
from fmha_cli.results.store import Store

_GOOD = "verdict in ('PASSED', 'UNCHECKED') and whole_ns is not null"


@dataclass(frozen=True)
class Point:
    """The time of one row in one run; the interval is that of its median, None for too few samples."""

    run: str
    started: str
    label: str | None
    revision: str | None
    median_ns: int
    interval_ns: tuple[int, int] | None


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
    with store.reading() as db:
        rows = db.execute(
            "select run.uuid, run.started, run.label, run.rev, whole_ns, ci_lo, ci_hi from record join run on run.id = record.run "
            "where process = 0 and problem = (select id from problem where digest = ?) "
            "and kernel = (select id from kernel where digest = ?) and record.device is ? and cache = ? and threads = ? "
            f"and {_GOOD} order by record.run, record.id",
            asked,
        ).fetchall()
    return tuple(
        Point(run, started, label, commit, ns, None if low is None else (low, high))
        for run, started, label, commit, ns, low, high in rows
    )


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

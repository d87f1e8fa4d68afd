"""Writers that are killed at any moment: no row that was acknowledged is lost, and none is there twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.run import load_run
from tests.support.generators.journals import begun
from tests.support.generators.kept_runs import row_of, run_row
from tests.support.generators.report.samples import measurement

if not hasattr(os, "fork"):
    pytest.skip("writers are forks of this process", allow_module_level=True)

AT_ONCE, LENGTH = 2, 12


@cache
def rows_of(writer: int) -> tuple[Record, ...]:
    """The rows of a writer, some of which have two processes and so two rows of the table."""
    return tuple(
        row_of(
            run_row(writer),
            index,
            measurement=replace(measurement(), process_of_sample=(0, 1) * 4 if index % 2 else None),
        )
        for index in range(LENGTH)
    )


def journal_of(path: Path, rows: Sequence[Record]) -> Journal:
    """The journal of a run in the store, as of one that begins or is repeated."""
    run = rows[0].run
    assert run is not None
    start = begun([str(row.row) for row in rows], run=run.id)
    return Journal.create(start, run, JournalPlaces(store=path, spare=path.with_name(f"{run.id}.sqlite")))


def writer(path: Path, rows: Sequence[Record]) -> tuple[int, int]:
    """A process that keeps rows and acknowledges each by a byte: its id, and the end to read from."""
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(writes)
        return child, reads
    status = 1
    try:
        journal = journal_of(path, rows)
        for row in rows:
            journal.add({str(row.row): row})
            if journal.fault is not None:
                os._exit(3)
            os.write(writes, b".")
        status = 0
    finally:
        os._exit(status)


def killed(child: int, reads: int, after: int) -> int:
    """Kill a writer once it has acknowledged so many rows: how many it had acknowledged."""
    seen = 0
    while seen < after and os.read(reads, 1):
        seen += 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    rest = os.read(reads, LENGTH)
    os.close(reads)
    return seen + len(rest)


@pytest.mark.promise("Every run is kept in a store; a store that cannot be used costs one line.")
@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_lose_and_double_nothing(tmp_path: Path, kills: int) -> None:
    path, draw = tmp_path / "s.sqlite", random.Random(50)
    acknowledged = dict.fromkeys(range(kills), 0)
    for first in range(0, kills, AT_ONCE):
        started = [(number, *writer(path, rows_of(number))) for number in range(first, first + AT_ONCE)]
        for number, child, reads in started:
            acknowledged[number] = killed(child, reads, draw.randrange(LENGTH))
    assert sum(acknowledged.values()) > kills
    for number, count in acknowledged.items():
        rows = rows_of(number)
        there = load_run(run_row(number).id, path).records if count else ()
        assert there == rows[: len(there)]
        assert len(there) >= count
    for number in range(kills):  # each is repeated to its end, as a run that resumes does
        child, reads = writer(path, rows_of(number))
        assert os.waitpid(child, 0)[1] == 0
        os.close(reads)
    with sqlite3.connect(path) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert db.execute("select count(*) from record where process = 0").fetchone() == (kills * LENGTH,)
    assert load_run(run_row(7).id, path).records == rows_of(7)

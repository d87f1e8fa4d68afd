"""The bar of the store that needs no large one: bytes for a row that is measured again. ``benchmarks/store_bars.py`` has the rest."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from fmha_cli.report.record import Record
from fmha_cli.results.store import Store
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import measurement

BAR, SAMPLES, RUNS, ROWS = 500, 60, 12, 20


def rows_of(run: int) -> list[Record]:
    """Rows as ``bench`` makes them, with noise of 2 % and without anything that a good row does not have."""
    draw = random.Random(run)
    rows = []
    for index in range(ROWS):
        launches = tuple((round(draw.gauss(1e6, 2e4)),) for _ in range(SAMPLES))
        measured = replace(measurement(), launches=launches, warmup=draw.randrange(3, 50))
        row = row_of(run_row(run), index, measurement=measured, started=f"2026-11-22T19:{index:02d}:{run:02d}Z")
        stages = tuple(replace(stage, time_ns=None) for stage in row.stages)
        bare = {"baseline": None, "ab": None, "log": None, "out": None, "saved": None, "notes": (), "reasons": ()}
        rows.append(replace(row, stages=stages, regret=draw.random(), **bare))  # type: ignore[arg-type]
    return rows


def size(path: Path) -> int:
    """Bytes of the file when the write-ahead log is folded in."""
    Store.open(path).close()
    return path.stat().st_size


def test_a_row_that_is_measured_again_costs_few_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    filled(path, *rows_of(0))
    before = size(path)
    filled(path, *(row for run in range(1, RUNS) for row in rows_of(run)))
    assert (size(path) - before) / ((RUNS - 1) * ROWS) <= BAR

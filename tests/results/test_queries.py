"""The history of a row, answered by the store's columns as its records would answer it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.results.queries import TimePoint, history
from fmha_cli.results.store import Store
from tests.support.generators.kept_runs import filled, row_of, run_row
from tests.support.generators.report.samples import bare, measurement, record

RUNS = [run_row(n) for n in range(3)]
LONG = Problem.of(batch=1, heads=2, seqlen=4096, dtype="fp16").to_dict()


def timed(run: int, index: int, ns: int, **changes: object) -> Record:
    whole = replace(measurement(), launches=((ns, 0),) * 8, process_of_sample=(0, 0, 0, 0, 0, 0, 1, 1))
    return replace(row_of(RUNS[run], index, measurement=whole), **changes)  # type: ignore[arg-type]


ROWS = (
    timed(0, 0, 500),
    timed(0, 1, 900, problem=LONG),
    timed(1, 0, 400),
    timed(1, 1, 100, verdict=Verdict.WRONG),
    timed(1, 2, 450, device="cuda:0"),
    timed(2, 0, 600),
    timed(2, 1, 800, problem=LONG),
    replace(bare(), run=RUNS[2], row="0" * 24),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    filled(tmp_path / "s.sqlite", *ROWS)
    return Store.open(tmp_path / "s.sqlite")


def point(run: int, ns: int) -> TimePoint:
    about = RUNS[run]
    return TimePoint(about.id, about.started, about.label, about.revision, ns, (ns, ns), ((ns,) * 6, (ns,) * 2))


def test_a_history_has_the_good_rows_of_the_same_point_alone(store: Store) -> None:
    assert history(store, ROWS[0]) == (point(0, 500), point(1, 400), point(2, 600))
    assert history(store, ROWS[6]) == (point(0, 900), point(2, 800))
    assert history(store, ROWS[4]) == (point(1, 450),)
    assert history(store, ROWS[7]) == history(store, record(arch="x86_64_v3")) == ()


def test_the_question_reads_no_other_records(store: Store) -> None:
    asked: list[str] = []
    store.connection.set_trace_callback(asked.append)
    history(store, ROWS[0])
    store.connection.set_trace_callback(None)
    (statement,) = [text for text in asked if text.startswith("select")]
    plan = [row[3] for row in store.connection.execute(f"explain query plan {statement}")]
    assert [step for step in plan if "by_point (problem=? AND kernel=?" in step]
    assert [step for step in plan if step.startswith("SCAN")] == []

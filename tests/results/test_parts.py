"""A record taken apart and joined is the same record, whatever is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.domain.codec import DecodeError
from fmha_cli.report.parts import RunRow, stage_rows
from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError
from fmha_cli.results.parts import RowPlace, Shared, joined, taken_apart
from tests.support.generators.kept_runs import run_row
from tests.support.generators.report.random_records import records
from tests.support.generators.report.samples import PLAN, bare, emulated, measurement, record

UNTIMED = record(stages=stage_rows(PLAN))
"""A row whose stages have samples, and no times."""


def placed(run: RunRow | None, key: str = "9" * 24, started: str | None = None) -> RowPlace:
    return RowPlace(run=run, key=key, started=started)


def read(shared: Mapping[str, Shared | None]) -> dict[str, Any]:
    return {name: None if text is None else json.loads(text.text) for name, text in shared.items()}


def again(row: Record, place: RowPlace) -> Record:
    parts = taken_apart(row, place)
    return joined(read(parts.shared), json.loads(json.dumps(parts.rest)), parts.samples, place)


@pytest.mark.parametrize(
    "row", [record(), bare(), emulated(), record(host=None, processor=None), record(stages=()), UNTIMED]
)
def test_golden_rows_come_back(row: Record) -> None:
    assert again(row, placed(row.run, row.row or "", row.started)) == row
    assert again(row, placed(run_row(7))) == row
    assert again(row, placed(None, started="2026-01-01T00:00:00Z")) == row


@settings(max_examples=60)
@given(records(), st.booleans())
@pytest.mark.slow
@pytest.mark.ci
def test_drawn_rows_come_back(row: Record, known: bool) -> None:
    assert again(row, placed(run_row() if known else None)).to_dict() == row.to_dict()


@pytest.mark.parametrize(
    "processes", [None, (0,) * 8, (0, 0, 0, 1, 1, 1, 2, 2), (0, 1) * 4, (1, 1, 0, 0, 2, 2, 2, 2), (5,) * 4 + (9,) * 4]
)
def test_processes_come_back_in_every_order(processes: tuple[int, ...] | None) -> None:
    row = record(measurement=replace(measurement(), process_of_sample=processes))
    assert again(row, placed(row.run)) == row
    assert len(taken_apart(row, placed(None)).samples) == len(set(processes or (0,)))


def test_what_rows_share_is_told_once() -> None:
    """A row that is measured again has its own times, and the rest of it is stored already."""
    faster = replace(measurement(), launches=((900_000, 999),) * 8, warmup=9)
    one, other = (
        taken_apart(row, placed(row.run, str(row.row), row.started))
        for row in (record(), record(row="1" * 24, started="2026-01-01T00:00:00Z", measurement=faster, run=run_row(3)))
    )
    assert one.shared == other.shared
    assert (
        not {"problem", "kernel", "checks", "fills", "host", "repro", "row", "started", "run", "own"} & one.rest.keys()
    )
    assert not {"samples_ns", "median_ns", "tflops", "noise", "floor"} & one.rest["measurement"].keys()


def test_times_of_stages_are_kept_where_the_samples_do_not_give_them() -> None:
    row = record()
    other = replace(row, stages=tuple(replace(stage, time_ns=5) for stage in row.stages))
    assert "times" not in taken_apart(row, placed(None)).rest
    assert again(other, placed(None)) == other


def test_a_label_that_was_changed_in_the_store_is_the_rows() -> None:
    row = record(run=run_row(1, label="old"))
    parts = taken_apart(row, placed(row.run))
    back = joined(read(parts.shared), parts.rest, parts.samples, placed(run_row(1, label="new")))
    assert back.run is not None
    assert back.run.label == "new"


def test_samples_that_are_missing_are_noticed() -> None:
    row = record(measurement=replace(measurement(), process_of_sample=(0, 1) * 4))
    parts = taken_apart(row, placed(None))
    short = [tuple(stage[:2] for stage in stages) for stages in parts.samples]
    with pytest.raises((DamagedError, DecodeError)):
        joined(read(parts.shared), parts.rest, short, placed(None))

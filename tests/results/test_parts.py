"""A record taken apart and joined is the same record, whatever is in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report.samples import PLAN, bare, emulated, measurement, record, records

from fmha_cli.domain.codec import DecodeError
from fmha_cli.report.parts import RunRow, stage_rows
from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError
from fmha_cli.results.parts import Shared, joined, taken_apart
from results.kept import run_row

UNTIMED = record(stages=stage_rows(PLAN))
"""A row whose stages have samples, and no times."""


def again(row: Record, run: RunRow | None) -> Record:
    parts = taken_apart(row, run)

    def read(shared: Shared | None) -> Any:
        return None if shared is None else json.loads(shared.text)

    return joined(
        json.loads(json.dumps(parts.rest)),
        problem=read(parts.problem),
        kernel=read(parts.kernel),
        build=read(parts.build),
        host=read(parts.host),
        run=run,
        samples=parts.samples,
    )


@pytest.mark.parametrize(
    "row", [record(), bare(), emulated(), record(host=None, processor=None), record(stages=()), UNTIMED]
)
def test_golden_rows_come_back(row: Record) -> None:
    assert again(row, row.run) == row
    assert again(row, run_row(7)) == row
    assert again(row, None) == row


@settings(max_examples=150)
@given(records(), st.booleans())
def test_drawn_rows_come_back(row: Record, known: bool) -> None:
    assert again(row, run_row() if known else None).to_dict() == row.to_dict()


@pytest.mark.parametrize(
    "processes", [None, (0,) * 8, (0, 0, 0, 1, 1, 1, 2, 2), (0, 1) * 4, (1, 1, 0, 0, 2, 2, 2, 2), (5,) * 4 + (9,) * 4]
)
def test_processes_come_back_in_every_order(processes: tuple[int, ...] | None) -> None:
    row = record(measurement=replace(measurement(), process_of_sample=processes))
    assert again(row, row.run) == row
    assert len(taken_apart(row, None).samples) == len(set(processes or (0,)))


def test_what_rows_share_is_told_once() -> None:
    one, other = (taken_apart(record(row=digit * 24, started=f"2026-01-0{digit}T00:00:00Z"), None) for digit in "12")
    assert (one.problem, one.kernel, one.build, one.host) == (other.problem, other.kernel, other.build, other.host)
    assert not {"problem", "kernel", "checks", "host", "processor"} & one.rest.keys()
    assert not {"samples_ns", "median_ns", "tflops", "noise"} & one.rest["measurement"].keys()


def test_times_of_stages_are_kept_where_the_samples_do_not_give_them() -> None:
    row = record()
    other = replace(row, stages=tuple(replace(stage, time_ns=5) for stage in row.stages))
    assert "times" not in taken_apart(row, None).rest
    assert again(other, None) == other


def test_a_label_that_was_changed_in_the_store_is_the_rows() -> None:
    row = record(run=run_row(1, label="old"))
    parts = taken_apart(row, row.run)
    back = joined(
        parts.rest,
        problem=row.problem,
        kernel=None,
        build=None,
        host=None,
        run=run_row(1, label="new"),
        samples=parts.samples,
    )
    assert back.run is not None
    assert back.run.label == "new"


def test_samples_that_are_missing_are_noticed() -> None:
    parts = taken_apart(record(measurement=replace(measurement(), process_of_sample=(0, 1) * 4)), None)
    short = [tuple(stage[:2] for stage in stages) for stages in parts.samples]
    with pytest.raises((DamagedError, DecodeError)):
        joined(parts.rest, problem={}, kernel=None, build=None, host=None, run=None, samples=short)

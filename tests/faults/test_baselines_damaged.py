"""Damaged baselines: each is refused with exit 2 and one line that names the place; a bad row is not a baseline."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.bench.difference import Against, SureRule
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.form import Format
from fmha_cli.report.formats import render
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.record import Record
from tests.cli.conftest import Fmha, Result
from tests.support.generators.result_files import DEEP, DEEPER_THAN_DOCUMENTS, with_member

BENCH = ("bench", "--backend", "null", "-H", "1", "-s", "16", "-d", "8", "--budget", "0.05")


@pytest.fixture(scope="module")
def reports() -> list[str]:
    """The report of one timed row, once a test needed it. It names no folder of a test."""
    return []


@pytest.fixture
def report(fmha: Fmha, reports: list[str]) -> Any:
    """A report of one timed row, which a test may change."""
    if not reports:
        done = fmha(*BENCH, "--json")
        assert done.code == 0, done.err
        reports.append(done.out)
    return json.loads(reports[0])


def compared(fmha: Fmha, text: str | bytes) -> Result:
    Path("base.json").write_bytes(text.encode() if isinstance(text, str) else text)
    return fmha(*BENCH, "--baseline", "base.json")


def refused(done: Result, place: str) -> None:
    assert done.code == 2, done.err
    assert "error[E040]: --baseline base.json: not a report of fmha bench" in done.err
    assert place in done.err
    assert done.out == ""


MEMBERS = {
    "no samples": ("measurement.samples_ns", []),
    "a sample that is a text": ("measurement.samples_ns", ["5"]),
    "a sample below zero": ("measurement.samples_ns", [-5]),
    "samples that are a number": ("measurement.samples_ns", 5),
    "stages of different length": ("measurement.stage_samples_ns", [[1, 2], [3]]),
    "stages without launches": ("measurement.stage_samples_ns", [[], []]),
    "a kernel that is a number": ("kernel", 5),
    "a kernel that is a list": ("kernel", []),
    "a kernel without members": ("kernel", {}),
    "a digest that is not a digest": ("kernel.digest", "0123\n"),
    "a problem that is a list": ("problem", []),
    "a measurement that is a list": ("measurement", []),
    "an unknown verdict": ("verdict", "SUPER"),
    "notes that are numbers": ("notes", [1]),
    "notes that are null": ("notes", None),
    "threads below zero": ("measurement.threads", -1),
    "an unknown cache mode": ("measurement.cache", "lukewarm"),
    "flops beyond every float": ("measurement.flops", 10**400),
    "a floor beyond every float": ("measurement.floor", {"kind": "measured", "compute_ns": 10**400, "memory_ns": 1.0}),
    "fills that are null": ("fills", None),
    "another schema": ("schema", "fmha.record/9"),
}


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("name", MEMBERS)
def test_a_row_with_a_damaged_member_is_refused(fmha: Fmha, report: Any, name: str) -> None:
    path, value = MEMBERS[name]
    done = compared(fmha, json.dumps(with_member(report, f"records.0.{path}", value)))
    refused(done, "records[0]")


@pytest.mark.parametrize("member", ["schema", "measurement", "problem", "kernel", "fills", "verdict", "notes"])
def test_a_row_that_lacks_a_member_is_refused(fmha: Fmha, report: Any, member: str) -> None:
    del report["records"][0][member]
    refused(compared(fmha, json.dumps(report)), "records[0]")


DOCUMENTS = {
    "nothing": (b"", "it is empty"),
    "no JSON": (b"nonsense", "not JSON"),
    "not UTF-8": (b'{"schema": "\xff"}', "not JSON"),
    "deep JSON": (DEEP.encode(), "levels deep"),
    "JSON deeper than any document": (DEEPER_THAN_DOCUMENTS.encode(), "levels deep"),
    "a list": (b"[]", "not an object"),
    "another document": (
        b'{"schema": "fmha.kernels/1"}',
        "its schema is fmha.kernels/1, and this fmha reads fmha.record/1",
    ),
    "records that are a number": (b'{"schema": "fmha.report/1", "records": 5}', "records: not a list"),
    "records that are numbers": (b'{"schema": "fmha.report/1", "records": [5]}', "records[0]: not an object"),
    "no records": (b'{"schema": "fmha.report/1"}', "records: not a list"),
    "no row": (b'{"schema": "fmha.report/1", "records": []}', "no timed row"),
    "a damaged line": (b'{"schema": "fmha.record/3"}\n{"schema": \n', "line 1"),
    "an integer of 5000 digits": (b'{"schema": ' + b"9" * 5000 + b"}", "not JSON"),
}


@pytest.mark.promise("Damaged files are refused in one line, and only what is asked for is read.")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_document_is_refused(fmha: Fmha, name: str) -> None:
    text, place = DOCUMENTS[name]
    refused(compared(fmha, text), place)


def test_a_line_is_named(fmha: Fmha, report: Any) -> None:
    lines = [json.dumps(report["records"][0])] * 2
    refused(compared(fmha, "\n".join([*lines, '{"schema": ']) + "\n"), "line 3: not JSON")
    refused(compared(fmha, "\n".join([*lines, '{"schema": '])), "line 3: the last line is cut short")
    refused(compared(fmha, "\n".join([*lines, DEEP]) + "\n"), "line 3: nested")


def test_numbers_that_are_no_json_are_refused(fmha: Fmha, report: Any) -> None:
    text = json.dumps(report).replace('"regret": null', '"regret": NaN')
    refused(compared(fmha, text), "NaN is no JSON value")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused_at_once(fmha: Fmha, kind: str) -> None:
    """Opening a pipe that nobody writes to would wait for ever."""
    if kind == "folder":
        Path("base.json").mkdir()
    else:
        os.mkfifo("base.json")
    refused(fmha(*BENCH, "--baseline", "base.json"), "only a regular file can be read")


@pytest.mark.promise("Only good rows are baselines, and missing counterparts are reported.")
def test_a_wrong_row_is_no_baseline(fmha: Fmha, report: Any) -> None:
    done = compared(fmha, json.dumps(with_member(report, "records.0.verdict", "WRONG")))
    refused(done, "wrong or not to be trusted")


@pytest.mark.slow
@pytest.mark.ci
def test_a_wrong_row_among_good_ones_is_left_out_aloud(fmha: Fmha, report: Any) -> None:
    row = report["records"][0]
    two = with_member(report, "records", [row, with_member(row, "verdict", "MISTRUSTED")])
    done = compared(fmha, json.dumps(two))
    assert "1 row with a bad verdict left out" in done.err


@pytest.mark.promise("Exit code 5: the selection is empty.")
def test_a_baseline_that_matches_nothing_ends_with_5_before_anything_runs(fmha: Fmha, report: Any) -> None:
    Path("base.json").write_text(json.dumps(report))
    done = fmha(*BENCH[:-2], "--budget", "0.05", "-s", "32", "--baseline", "base.json")
    assert done.code == 5
    assert "error[E049]" in done.err
    assert "its rows are of other problems" in done.err
    assert done.out == ""


@pytest.mark.promise("Only good rows are baselines, and missing counterparts are reported.")
@pytest.mark.slow
@pytest.mark.ci
def test_partial_matches_are_counted(fmha: Fmha, report: Any) -> None:
    Path("base.json").write_text(json.dumps(report))
    done = fmha("bench", *BENCH[1:5], "-s", "16,32,48", *BENCH[7:], "--baseline", "base.json")
    assert "base.json: 1 of 3 rows has a counterpart" in done.err


def test_a_ratio_reads_forwards(report: Any) -> None:
    """A baseline ten times as slow: the table says how many times as fast the row is, with a factor above 1."""
    record = Record.from_dict(report["records"][0])
    ten_times = Against.of([[100] * 10] * 5, [[1000] * 10] * 5, against="base.json", rule=SureRule(interleaved=False))
    text = render(report_document([replace(record, baseline=ten_times)], NO_ENVIRONMENT), Format.TABLE)
    assert "10.00x faster" in text
    assert "faster x" not in text


def test_a_row_of_one_process_is_told_how_to_become_sure(fmha: Fmha, report: Any) -> None:
    done = compared(fmha, json.dumps(report))
    assert done.code == 0
    assert "1 process a row" in done.err
    assert "1 row cannot be judged: a difference can be sure only with 5 processes or more on either side" in done.out

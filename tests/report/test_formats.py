"""The printed formats: every format of every document, and the content that it must show."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.codec import json_of, to_json
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import digits, flop_rate, time_of
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import records_view, report_document, summary
from fmha_cli.report.drawing import plain
from fmha_cli.report.form import Format
from fmha_cli.report.formats import columns, json_text, jsonl_lines, render, rows_of, view
from fmha_cli.report.lines import problem_text, united
from fmha_cli.report.record import Record
from fmha_cli.report.shape import TableShape
from tests.support.generators.report.random_records import records
from tests.support.generators.report.sample_documents import documents
from tests.support.generators.report.samples import ENVIRONMENT, PROBLEM, bare, check, emulated, measurement, record

ALL = [
    (name, i, doc)
    for name, found in documents().items()
    if name not in ("record", "journal", "workload")
    for i, doc in enumerate(found)
]


def faults_of(name: str, document: Any, form: Format) -> Iterator[str]:
    """What is wrong with a form of a document."""
    text = render(document, form)
    if text != text.rstrip("\n"):
        yield "an empty line at the end"
    if form is Format.JSON and json.loads(text) != json_of(document):
        yield "another document"
    if form is Format.JSONL:
        first = [to_json(EnvironmentLine(environment=ENVIRONMENT))] if name == "report" else []
        if [json.loads(line) for line in text.splitlines()] != [*first, *map(json_of, rows_of(document))]:
            yield "other rows"
    if form is Format.CSV:
        table = list(csv.reader(io.StringIO(text)))
        if len(table) != 1 + len(rows_of(document)):
            yield "another number of rows"
        if {len(row) for row in table} != {len(table[0])}:
            yield "rows of unlike length"
    if form is Format.TABLE:
        yield from (f"{word!r} in a table" for word in ("None", "\x1b") if word in text)


@pytest.mark.parametrize("form", list(Format))
def test_every_document_has_every_form(form: Format) -> None:
    found = {f"{name} {index}": list(faults_of(name, document, form)) for name, index, document in ALL}
    assert len(found) > 50
    assert {document: faults for document, faults in found.items() if faults} == {}


@settings(max_examples=30)
@given(records())
@pytest.mark.slow
@pytest.mark.ci
def test_any_record_has_every_form(row: Record) -> None:
    document = report_document([row], ENVIRONMENT)
    for form in Format:
        text = render(document, form)
        assert "NaN" not in text or form is not Format.JSON
    table = list(csv.reader(io.StringIO(render(document, Format.CSV))))
    assert dict(zip(*table, strict=True))["repro"] == row.repro


def test_csv_columns_hold_every_leaf_of_a_row() -> None:
    def leaves(tree: Any, path: str = "") -> set[str]:
        if isinstance(tree, dict):
            return {leaf for key, value in tree.items() for leaf in leaves(value, f"{path}.{key}" if path else key)}
        return {path}

    names = {".".join(path) for path in columns("report")}
    for row in (record(), bare()):
        for leaf in leaves(row.to_dict()):
            covered = any(leaf == n or leaf.startswith(f"{n}.") or n.startswith(f"{leaf}.") for n in names)
            assert covered, leaf
    assert {f"problem.{key}" for key in PROBLEM.to_dict()} <= names
    assert columns("report") == columns("report")


def test_csv_cells() -> None:
    document = report_document([record(), bare()], ENVIRONMENT)
    first, second = csv.DictReader(io.StringIO(render(document, Format.CSV)))
    assert first["measurement.median_ns"] == "1001003"
    assert first["problem.lse"] == "false"
    assert first["kernel.algorithm"] == '{"padded":true,"tile":[64,32]}'
    assert first["verdict"] == "PASSED"
    assert second["measurement.median_ns"] == ""
    assert list(first) == list(second)


def test_table_shows_verdict_time_share_and_error() -> None:
    text = render(report_document([record(), bare()], ENVIRONMENT), Format.TABLE)
    assert "b2 h8/2 s1024 d128 fp16 causal" in text
    assert "time [ms]" in text
    assert "1.001" in text
    assert "o 5.0e-04 (50%)" in text
    assert "K012 hdim 72 is not supported (help: --hdim 80)" in text
    assert "again: " not in text  # a command that ends the same way helps nobody
    assert text.splitlines()[-1] == "2 rows: 1 PASSED, 1 UNSUPPORTED"


@pytest.mark.promise("Only good rows are baselines, and missing counterparts are reported.")
@pytest.mark.parametrize(
    ("samples", "stop", "cell"),
    [
        ([100] * 10, StopReason.CONVERGED, "100"),
        ([100] * 5, StopReason.BUDGET, "NOISY 100"),
        ([20, 30, 60, 100, 140, 170, 188], StopReason.BUDGET, "NOISY 100"),
        ([100], StopReason.SINGLE, None),
    ],
)
def test_times_that_say_little_are_marked(samples: list[int], stop: StopReason, cell: str | None) -> None:
    """The single launch of ``run`` claims no precision, so it has no mark."""
    measured = replace(measurement(), launches=tuple((ns,) for ns in samples), stop=stop)
    row = record(measurement=measured)
    table = records_view(report_document([row], ENVIRONMENT)).narrowed()
    cells = dict(zip(table.headers, table.rows[0], strict=True))
    assert cells.get("time [ns]") == cell
    assert ("\n  NOISY: " in plain(table)) is ("NOISY" in (cell or ""))
    if cell is not None:
        assert ("NOISY" in plain(table, 40)) is ("NOISY" in cell), "a narrow terminal shows the mark too"


@pytest.mark.parametrize(
    ("regret", "ends", "cell"),
    [
        (0.25, (0.2, 0.3), "25.0"),
        (0.25, (-0.01, 0.3), "25.0 UNSURE"),
        (0.25, None, "25.0 UNSURE"),
        (0.0, (0.0, 0.0), "0.00"),
    ],
)
def test_a_regret_inside_its_noise_is_marked(regret: float, ends: tuple[float, float] | None, cell: str) -> None:
    row = record(regret=regret, regret_ci95=ends)
    table = records_view(report_document([row], ENVIRONMENT))
    assert dict(zip(table.headers, table.rows[0], strict=True))["regret [%]"] == cell
    assert ("\n  UNSURE: " in plain(table)) is ("UNSURE" in cell)
    shown = view(report_document([row], ENVIRONMENT), TableShape(columns=("verdict",)))
    assert "UNSURE" not in plain(shown), "a mark that is not on the screen is not explained"


def test_the_limit_that_failed_is_in_the_details() -> None:
    bad = replace(check(1e-4), rms=3e-4, rms_budget=1e-4, worst="head 3 row 7")
    row = record(Verdict.WRONG, comparisons=(Comparison(checks=(("o", bad),)),))
    text = render(report_document([row], ENVIRONMENT), Format.TABLE)
    assert "o 1.0e-04 (300%)" in text
    assert "rms 0.0003 of 0.0001; head 3 row 7" in text


def test_colour_is_asked_for_and_only_in_tables() -> None:
    document = report_document([record(Verdict.WRONG)], ENVIRONMENT)
    assert "\x1b[31mWRONG\x1b[0m" in render(document, Format.TABLE, color=True)
    for form in (Format.MD, Format.CSV, Format.JSON, Format.JSONL):
        assert "\x1b" not in render(document, form, color=True)


def test_markdown_escapes_bars() -> None:
    row = record(backend="a|b")
    assert "a\\|b" in render(report_document([row], ENVIRONMENT), Format.MD)


def test_lines_stream_one_by_one() -> None:
    def rows() -> Any:
        yield record()
        raise KeyError("later")

    lines = jsonl_lines(rows())
    assert json.loads(next(lines))["schema"] == "fmha.record/3"
    with pytest.raises(KeyError):
        next(lines)


def test_json_keeps_lists_of_numbers_on_one_line() -> None:
    text = json_text({"b": [1, 2, 3], "a": [{"x": None}], "e": {}, "l": []})
    assert text == '{\n  "a": [\n    {\n      "x": null\n    }\n  ],\n  "b": [1, 2, 3],\n  "e": {},\n  "l": []\n}'
    with pytest.raises(ValueError, match="JSON"):
        json_text({"x": float("nan")})


def test_an_object_in_several_places_has_the_indent_of_each() -> None:
    shared = {"x": {"y": 1}}
    value = {"a": [shared, shared, shared], "b": {"c": shared, "d": [[shared], [shared]]}, "e": shared}
    assert json_text(value) == json.dumps(value, indent=2, sort_keys=True)


def test_summary_counts_in_the_order_of_the_verdicts() -> None:
    rows = [bare(v) for v in (Verdict.WRONG, Verdict.PASSED, Verdict.WRONG)]
    assert summary(rows) == "3 rows: 1 PASSED, 2 WRONG"
    assert summary(rows[:1]) == "1 row: 1 WRONG"
    assert summary([]) == "0 rows"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("", "b1 h8 s1024 d128 fp16"),
        ("-s 1 --seqlen-k 4k --hdim-v 64 --dtype bf16", "b1 h8 s1/4096 d128/64 bf16"),
        ("--seqlens-q 3,4 --lse --layout bshd", "b2 h8 s4 d128 fp16 group bshd lse"),
        ("--direction bwd --dropout 0.1 --softcap 30", "b1 h8 s1024 d128 fp16 bwd dropout=0.1 softcap=30"),
        (
            "--sink-logits filled --alibi --mask window:4,0",
            "b1 h8 s1024 d128 fp16 window:4,0 alibi=standard sink_logits",
        ),
    ],
)
def test_problems_in_few_words(flags: str, text: str) -> None:
    assert problem_text(Problem.from_cli(flags).to_dict()).replace(".100", ".1").replace("30.0", "30") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "0"), (0.005, "0.00500"), (1234.5, "1234"), (12.345, "12.3"), (3e-5, "3.00e-05")],
)
def test_digits(value: float | None, text: str) -> None:
    assert digits(value) == text


@pytest.mark.promise("Every time, size and rate has a unit that suits it.")
def test_a_unit_that_all_cells_share_stands_in_the_header() -> None:
    assert united("time", [time_of(5e6), None, time_of(2e6)]) == ("time [ms]", ["5.00", "", "2.00"])
    assert united("time", [time_of(22_541_000), time_of(2e3)]) == ("time", ["22.5 ms", "2.00 us"])
    assert united("FLOP/s", [flop_rate(4.9e8)]) == ("GFLOP/s", ["0.490"])
    assert united("B/s", [None]) == ("B/s", [""])


def test_mangled_names_are_cut_for_people() -> None:
    name = "_ZN7ck_tile" + "6kentry" * 100
    row = record(notes=(f"v_what at 0x40 in {name}: not implemented",))
    table = render(report_document([row], ENVIRONMENT), Format.TABLE)
    assert f"{name[:62]}...: not implemented" in table
    assert name not in table


def test_a_row_of_an_emulated_device_shows_the_device_and_no_time() -> None:
    table = render(report_document([emulated()], ENVIRONMENT), Format.TABLE)
    assert "cpu      emu:gfx942 " in table
    assert "HAZARD" in table
    assert "TFLOP/s" not in table

"""``--columns``, ``--sort`` and ``--limit`` on documents and on tables without entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.report.column import Column
from fmha_cli.report.documents.report import Report, report_document
from fmha_cli.report.form import Format
from fmha_cli.report.formats import check_shape, render, view
from fmha_cli.report.shape import TableShape
from fmha_cli.report.shaping import shaped
from fmha_cli.report.table import Table
from tests.support.generators.report.samples import ENVIRONMENT, bare, record

pytestmark = pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")

ROWS = report_document([bare(), record(regret=0.2), record(regret=0.05)], ENVIRONMENT)


def cells(document: Report, **shape: Any) -> list[list[str]]:
    return [list(row) for row in view(document, TableShape(**shape)).rows]


def test_columns_are_chosen_by_header_and_by_the_names_of_csv() -> None:
    table = view(ROWS, TableShape(columns=("verdict", "problem.seqlen_q", "time")))
    assert [column.name for column in table.columns] == ["row", "verdict", "problem.seqlen_q", "time"]
    assert [row[2] for row in table.rows] == ["1024"] * 3
    assert table.rows[0][1] == "UNSUPPORTED"


def test_row_numbers_stay_where_lines_refer_to_them() -> None:
    shape = TableShape(columns=("verdict",))
    assert any(line.startswith("  1-3: K012 ") for line in view(ROWS, shape).details)
    assert view(ROWS, shape).headers == ["#", "verdict"]
    silent = report_document(
        [replace(row, reasons=(), notes=(), comparisons=(), measurement=None) for row in ROWS.records[1:]], ENVIRONMENT
    )
    assert view(silent, shape).headers == ["verdict"]


def test_rows_are_sorted_by_value_and_rows_without_one_come_last() -> None:
    assert cells(ROWS, columns=("row", "regret"), sort=("regret",)) == [["1", "5.00"], ["2", "20.0"], ["3", ""]]
    assert cells(ROWS, columns=("row", "regret"), sort=("regret:desc",)) == [["1", "20.0"], ["2", "5.00"], ["3", ""]]
    by_two = cells(
        ROWS, columns=("verdict", "row", "regret"), sort=("verdict:desc", "measurement.median_ns", "regret:asc")
    )
    assert [row[0] for row in by_two] == ["UNSUPPORTED", "PASSED", "PASSED"]


def test_a_limit_tells_how_many_are_left_and_counts_all() -> None:
    table = view(ROWS, TableShape(limit=1))
    assert len(table.rows) == 1
    assert table.details[-1] == "2 more rows (--limit)"
    assert table.summary == "3 rows: 2 PASSED, 1 UNSUPPORTED"
    assert "more row" not in render(ROWS, Format.TABLE, shape=TableShape(limit=3))


def test_details_are_those_of_the_rows_that_are_shown() -> None:
    assert "  1-3: K012 " in render(ROWS, Format.TABLE)
    assert "  1-2: K012 " in render(ROWS, Format.TABLE, shape=TableShape(sort=("verdict",), limit=2))


def test_markdown_has_the_same_rows_and_columns() -> None:
    text = render(ROWS, Format.MD, shape=TableShape(columns=("verdict",), sort=("verdict",), limit=1))
    assert text.splitlines()[:3] == ["|   # | verdict   |", "|-----|-----------|", "|   1 | PASSED    |"]


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL])
def test_data_have_no_shape(form: Format) -> None:
    assert render(ROWS, form, shape=TableShape(width=40, columns=("verdict",), limit=1)) == render(ROWS, form)


def test_csv_has_every_row_of_the_chosen_columns() -> None:
    shape = TableShape(width=40, columns=("verdict", "problem.hdim"), sort=("verdict",), limit=1)
    assert render(ROWS, Format.CSV, shape=shape).splitlines() == [
        "verdict,problem.hdim",
        "UNSUPPORTED,128",
        *["PASSED,128"] * 2,
    ]
    assert render(ROWS, Format.CSV, shape=TableShape(width=40, sort=("nope",), limit=1)) == render(ROWS, Format.CSV)
    for names in (("time",), ("problem.hdmi",)):
        with pytest.raises(UsageError):
            render(ROWS, Format.CSV, shape=TableShape(columns=names))
        with pytest.raises(UsageError):
            check_shape(TableShape(columns=names), ("report",), tables=False)


def test_a_table_without_entries_is_sorted_by_its_cells() -> None:
    table = Table([Column("name"), Column("count", number=True)], [["d128", "9"], ["d64", "10"], ["", "1"]], "")
    assert [row[0] for row in shaped(table, TableShape(sort=("name",))).rows] == ["d64", "d128", ""]
    assert [row[1] for row in shaped(table, TableShape(sort=("count:desc",), limit=2)).rows] == ["10", "9"]


@pytest.mark.parametrize("flag", ["columns", "sort"])
def test_an_unknown_column_is_refused_with_a_near_name_and_the_list(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag} verdct: no such column") as refused:
        view(ROWS, TableShape(**{flag: ("verdct",)}))  # type: ignore[arg-type]
    assert refused.value.code == "E017"
    assert "verdict" in (refused.value.help or "")
    assert "problem" in (refused.value.help or "")
    with pytest.raises(UsageError):
        check_shape(TableShape(**{flag: ("verdct",)}), ("report",))  # type: ignore[arg-type]
    check_shape(TableShape(columns=("time", "measurement.gbps")), ("report",))

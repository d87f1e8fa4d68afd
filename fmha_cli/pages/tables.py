"""The tables of a page: the ones that the commands print, with the keys that sort their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.pages.content import PageContent
from fmha_cli.pages.packing import column
from fmha_cli.pages.rows import rounded
from fmha_cli.report.column import Column
from fmha_cli.report.documents.compare import compare_view
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.layout import legends_of
from fmha_cli.report.ordering import at
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.table import Table

AGAIN = "again"


@dataclass(frozen=True)
class PageTable:
    """A table of a page.

    Attributes:
        columns: header, whether its cells are numbers, the cells, and the values that order them (None: the cells do).
        again: whether each row has the line that gives it again, which ``rows`` holds.
        notes: the lines below it.
    """

    id: str
    title: str
    columns: Sequence[tuple[str, bool, Sequence[str], Sequence[float | None] | None]]
    count: int
    summary: str
    again: bool
    notes: Sequence[str]

    def packed(self) -> dict[str, Any]:
        """Its JSON in the page."""
        return {
            "id": self.id,
            "count": self.count,
            "again": self.again,
            "columns": [
                {
                    "header": header,
                    "number": number,
                    "cells": column(cells),
                    "keys": None if keys is None else column(keys),
                }
                for header, number, cells, keys in self.columns
            ],
        }


def tables(content: PageContent) -> tuple[PageTable, ...]:
    """The rows, and the rows of the comparison if there is one."""
    document = report_document(content.records, NO_ENVIRONMENT)
    view = records_view(document).escaped()
    if len(content.runs) > 1:
        view = replace(
            view,
            columns=[*view.columns, Column("run")],
            rows=[[*row, name] for row, name in zip(view.rows, content.run_of, strict=True)],
        )
    found = [_table("rows", "All rows", view, content.records, again=True)]
    if content.comparison is not None:
        compared = compare_view(content.comparison).escaped()
        found.insert(0, _table("compared", "Compared rows", compared, content.comparison.rows, again=False))
    return tuple(found)


def _table(id: str, title: str, view: Table, entries: Sequence[object], *, again: bool) -> PageTable:
    shown = view.narrowed()
    columns = []
    for place, head in enumerate(shown.columns):
        cells = [row[place] for row in shown.rows]
        columns.append((head.header, head.number, cells, _keys(head, cells, entries)))
    notes = [line.strip() for line in (*view.details, *legends_of(view, view.headers, view.rows))]
    return PageTable(id, title, columns, len(shown.rows), view.summary, again, notes)


def _keys(head: Column, cells: Sequence[str], entries: Sequence[object]) -> list[float | None] | None:
    """The sort key of a column of numbers; None if its cells serve as one, which cells with several units do not."""
    if not head.number or not head.path or all(_is_number(cell) for cell in cells):
        return None
    values = [at(entry, head.path.split(".")) for entry in entries]
    return [rounded(value) if isinstance(value, int | float) else None for value in values]


def _is_number(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True

"""Give a table its ``TableShape``: the chosen columns, the order of the rows, the first of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from fmha_cli.domain.codec import json_of
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.lines import cell, counted
from fmha_cli.report.ordering import Row, at, order_of
from fmha_cli.report.shape import TableShape
from fmha_cli.report.table import Table

NUMBER = "row"
"""The column of row numbers, to which the lines below a table refer."""

_OF_ROWS = re.compile(r"\s+\d+(-\d+)?(, \d+(-\d+)?)*: ")
"""How such a line begins."""


def chosen(table: Table, entries: Sequence[Row] | None, names: Sequence[str]) -> Table:
    """The table with the named columns, including columns that only CSV has; without names, all of its own. Row numbers
    stay where lines below the table refer to them.
    """
    if not names:
        return table
    own = {column.name: i for i, column in enumerate(table.columns)}
    if NUMBER in own and NUMBER not in names and any(map(_OF_ROWS.match, table.details)):
        names = (NUMBER, *names)
    columns, cells = [], []
    for name in names:
        if name in own:
            columns.append(replace(table.columns[own[name]], common=None, rank=0))
            cells.append([row[own[name]] for row in table.rows])
        else:
            values = [at(entry, name.split(".")) for entry in entries or ()] or [None] * len(table.rows)
            number = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            columns.append(Column(name, number=number, fit=Fit.WHOLE if number else Fit.MIDDLE))
            cells.append([_exactly(value) for value in values])
    rows = [list(row) for row in zip(*cells, strict=True)]
    return replace(table, columns=columns, rows=rows)


def _exactly(value: Any) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else cell(value)


def shaped(table: Table, shape: TableShape) -> Table:
    """A table without entries, with the chosen columns and rows.

    Raises:
        UsageError: E017, no such column.
    """
    if shape.whole:
        return table
    shape.check(table.columns, ())
    rows = [table.rows[i] for i in order_of(table, None, shape.sort)[: shape.limit]]
    return _limited(chosen(replace(table, rows=rows), None, shape.columns), len(table.rows))


def _limited(table: Table, total: int) -> Table:
    left = total - len(table.rows)
    return table if left <= 0 else replace(table, details=[*table.details, f"{counted(left, 'more row')} (--limit)"])


def shaped_document(
    noun: Any, member: str | None, view: Callable[[Any], Table], paths: Iterable[str], shape: TableShape
) -> Table:
    """The table of a document, with the chosen columns and rows; the summary still counts every row.

    Args:
        member: where the document has its rows; None for a document that is not a list of rows.

    Raises:
        UsageError: E017, no such column.
    """
    whole = view(noun)
    entries = getattr(noun, member) if member else None
    if member is None or entries is None or len(entries) != len(whole.rows):
        return shaped(whole, shape)
    shape.check(whole.columns, paths)
    rows = json_of(entries)
    places = order_of(whole, rows, shape.sort)[: shape.limit]
    if places != list(range(len(rows))):
        made = view(replace(noun, **{member: tuple(entries[i] for i in places)}))
        whole = replace(made, summary=whole.summary)
    return _limited(chosen(whole, [rows[i] for i in places], shape.columns), len(rows))

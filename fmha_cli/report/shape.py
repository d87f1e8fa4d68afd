"""``Shape``: which part of a table is shown, in which order and how wide (``--columns``, ``--sort``, ``--limit``, ``--wide``).

A column is named by its header without the unit (``time``), or as CSV names it (``measurement.median_ns``). JSON, JSON Lines
and CSV have no shape: they always hold every row and every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.lines import cell, counted
from fmha_cli.report.ordering import Row, at, key_of, order_of
from fmha_cli.report.table import Column, Fit, Table


@dataclass(frozen=True)
class Shape:
    """How a table is shown.

    Attributes:
        width: columns of the terminal; None: nothing is shortened, left out or wrapped.
        columns: the names of the columns in their order; none for those that the table chooses.
        sort: the names of the columns that order the rows, the first of them first; with ``:desc``, downwards.
        limit: the most rows.
    """

    width: int | None = None
    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def whole(self) -> bool:
        """Whether nobody asked for a part of the table."""
        return not (self.columns or self.sort or self.limit)

    def check(self, columns: Sequence[Column], paths: Iterable[str]) -> None:
        """Refuse names that are neither columns of a table nor paths of CSV.

        Raises:
            UsageError: E017, with near names.
        """
        own = list(dict.fromkeys(column.name for column in columns))
        known = {*own, *paths}
        for flag, names in (("--columns", self.columns), ("--sort", (key_of(name) for name in self.sort))):
            for name in names:
                if name not in known:
                    near = suggest(name, known)
                    more = " (and those of --csv)" if known - set(own) else ""
                    listed = f"the columns are {', '.join(own)}{more}"
                    help = f"{near} {listed}" if near.startswith("did you mean") else listed
                    raise UsageError(f"{flag} {name}: no such column", code="E017", where=flag, help=help)


def chosen(table: Table, entries: Sequence[Row] | None, names: Sequence[str]) -> Table:
    """The table with the named columns, those that only CSV has included; all of its own where none is named."""
    if not names:
        return table
    own = {column.name: i for i, column in enumerate(table.columns)}
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


def shaped(table: Table, shape: Shape) -> Table:
    """A table without entries of its own, with the chosen columns and rows.

    Raises:
        UsageError: E017, no such column.
    """
    if shape.whole:
        return table
    shape.check(table.columns, ())
    return _limited(
        chosen(_reordered(table, order_of(table, None, shape.sort)[: shape.limit]), None, shape.columns),
        len(table.rows),
    )


def _reordered(table: Table, places: Sequence[int]) -> Table:
    return replace(table, rows=[table.rows[i] for i in places])


def _limited(table: Table, total: int) -> Table:
    left = total - len(table.rows)
    return table if left <= 0 else replace(table, details=[*table.details, f"{counted(left, 'more row')} (--limit)"])


def shaped_document(
    data: Row, member: str | None, view: Callable[[Row], Table], paths: Iterable[str], shape: Shape
) -> Table:
    """The table of a document, with the chosen columns and rows; the summary still counts every row.

    Args:
        member: where the document has its rows; None for one that is no list of rows.

    Raises:
        UsageError: E017, no such column.
    """
    whole = view(data)
    if shape.whole:
        return whole
    entries = data[member] if member else None
    if entries is None or len(entries) != len(whole.rows):
        return shaped(whole, shape)
    shape.check(whole.columns, paths)
    places = order_of(whole, entries, shape.sort)[: shape.limit]
    ordered = [entries[i] for i in places]
    made = whole if places == list(range(len(entries))) else view({**data, member: ordered})  # type: ignore[dict-item]
    made = replace(made, summary=whole.summary)
    return _limited(chosen(made, ordered, shape.columns), len(entries))

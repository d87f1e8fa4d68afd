"""``Table``: how people see a document.

The columns of most tables are declared together with the fields of a row. ``layout`` fits a table into a terminal, and
``drawing`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from fmha_cli.domain.codec import extras, members_of
from fmha_cli.report.column import Column
from fmha_cli.report.escaping import escaped
from fmha_cli.report.lines import united


@dataclass(frozen=True)
class Table:
    """Rows of text under headers, lines that explain single rows, and one line that sums up.

    Attributes:
        legends: what a word means (``NOISY``, ``winner``), for each word that may need it; only words that stand in a printed header or
            cell are explained.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    summary: str
    details: Sequence[str] = ()
    legends: Mapping[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> list[str]:
        """The header of every column."""
        return [column.header for column in self.columns]

    @cached_property
    def cells(self) -> Sequence[Sequence[str]]:
        """The cells of every column."""
        return list(zip(*self.rows, strict=True)) or [()] * len(self.columns)

    def narrowed(self) -> Table:
        """The table without columns that are empty in every row."""
        used = [i for i in range(len(self.columns)) if any(row[i] for row in self.rows)]
        return self.only(used) if used and len(used) < len(self.columns) else self

    def escaped(self) -> Table:
        """The table as a terminal may have it: with each control character in its texts shown."""
        rows = self.rows
        if not all(map(str.isprintable, map("".join, rows))):  # a list of kernels has 500,000 cells, all of them plain
            rows = [list(map(escaped, row)) for row in rows]
        columns = [replace(column, header=escaped(column.header)) for column in self.columns]
        return replace(
            self, columns=columns, rows=rows, summary=escaped(self.summary), details=list(map(escaped, self.details))
        )

    def only(self, places: Iterable[int]) -> Table:
        """The table with some of its columns, in the given order."""
        chosen = list(places)
        if len(chosen) > 1:
            rows = list(map(list, map(itemgetter(*chosen), self.rows)))  # much faster than the other way
        else:
            rows = [[row[i] for i in chosen] for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in chosen], rows=rows)


def table_by(
    columns: Iterable[Column],
    rows: Sequence[object],
    summary: str,
    details: Sequence[str] = (),
    legends: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """The table of some rows, each cell made by its column of the whole row. Quantities of one unit have it in the header."""
    found = [_filled(column, [column.text(row) for row in rows]) for column in columns]
    cells = list(map(list, zip(*(texts for _, texts in found), strict=True)))
    return Table([column for column, _ in found], cells, summary, details, legends)


def _filled(column: Column, cells: list[Any]) -> tuple[Column, list[str]]:
    if all(isinstance(one, str) for one in cells):
        return column, cells
    header, texts = united(column.header, cells)
    return (column if header == column.header else replace(column, header=header, called=column.name)), texts


def columns_of(row: Any) -> dict[str, Column]:
    """The members of a row's class that have a column, in the order of its fields."""
    noted = ((m.key, note) for m in members_of(row) for note in extras(m.hint))
    return {key: note for key, note in noted if isinstance(note, Column)}


def table_of(
    row: Any, rows: Sequence[object], summary: str, details: Sequence[str] = (), order: Sequence[str] = ()
) -> Table:
    """The table of rows of a class; ``order`` names the members if their order is not that of the fields.

    Args:
        row: the class, or the columns of a class that declares none, by member.
    """
    columns = row if isinstance(row, Mapping) else columns_of(row)
    shown = {name: replace(columns[name], path=columns[name].path or name) for name in order or columns}
    cells = [[column.text(getattr(entry, name)) for name, column in shown.items()] for entry in rows]
    return Table(list(shown.values()), cells, summary, details)

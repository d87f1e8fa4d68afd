"""Tables whose columns are declared together with the fields of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.codec import extras, members_of
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell


@dataclass(frozen=True)
class Column:
    """How to show a member.

    Attributes:
        header: the header of the column.
        text: turns the member's JSON value into a cell.
        number: whether cells are aligned to the right.
        kept: whether the column stays if every cell is empty.
    """

    header: str
    text: Callable[[Any], str] = cell
    number: bool = False
    kept: bool = False


def columns_of(row: Any) -> dict[str, Column]:
    """The members of a row's class that have a column, in the order of its fields."""
    noted = ((m.name, note) for m in members_of(row) for note in extras(m.hint))
    return {name: note for name, note in noted if isinstance(note, Column)}


def table_of(
    row: Any, rows: Sequence[Mapping[str, Any]], summary: str, details: Sequence[str] = (), order: Sequence[str] = ()
) -> Table:
    """The table of rows of a class; ``order`` names the members if their order is not that of the fields.

    Args:
        row: the class, or the columns of a class that declares none, by member.
    """
    columns = row if isinstance(row, Mapping) else columns_of(row)
    shown = {name: columns[name] for name in order or columns}
    cells = [[column.text(entry[name]) for name, column in shown.items()] for entry in rows]
    numbers = frozenset(column.header for column in shown.values() if column.number)
    table = Table([column.header for column in shown.values()], cells, summary, details, numbers)
    return table.narrowed([column.header for column in shown.values() if column.kept])

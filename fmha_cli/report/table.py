"""``Table``: how people see a document, and its two printed forms (plain, Markdown).

The columns of most tables are declared together with the fields of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fmha_cli.domain.codec import extras, members_of
from fmha_cli.report.lines import cell


@dataclass(frozen=True)
class Table:
    """Rows of text under headers, lines that explain single rows, and one line that sums up.

    Attributes:
        headers: column headers, with units in brackets.
        numbers: headers whose cells are aligned to the right.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    summary: str
    details: Sequence[str] = ()
    numbers: frozenset[str] = field(default_factory=frozenset)

    def narrowed(self, keep: Sequence[str] = ()) -> Table:
        """The table without columns that are empty in every row, except the columns to keep."""
        used = [i for i, head in enumerate(self.headers) if head in keep or any(row[i] for row in self.rows)]
        headers = [self.headers[i] for i in used]
        rows = [[row[i] for i in used] for row in self.rows]
        return Table(headers, rows, self.summary, self.details, self.numbers)


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


def plain(table: Table) -> str:
    """The table as aligned text, then the details, then the summary."""
    return _joined(table, _grid(table, "simple"))


def markdown(table: Table) -> str:
    """The table for GitHub, then the details as a list, then the summary."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in table.rows]
    details = [f"- {line.strip()}" for line in table.details]
    grid = _grid(Table(table.headers, escaped, "", (), table.numbers), "github")
    return _joined(Table(table.headers, escaped, table.summary, details), grid, gap="\n\n")


def _grid(table: Table, form: str) -> str:
    if not table.rows:
        return ""
    from tabulate import tabulate

    align = ["right" if head in table.numbers else "left" for head in table.headers]
    text = tabulate(
        [list(row) for row in table.rows],
        headers=list(table.headers),
        tablefmt=form,
        colalign=align,
        disable_numparse=True,
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def _joined(table: Table, grid: str, gap: str = "\n") -> str:
    parts = [grid, "\n".join(table.details), table.summary]
    return gap.join(part for part in parts if part)

"""Lay a table out for a terminal: values that all rows share are printed once, long cells are shortened, columns are
left out.

The steps, each only as far as the width demands:

1. Columns that are empty in every row go.
2. A value that all rows share moves to the line above the table (``Column.common``); in a table of one row only if it is too
   wide otherwise, because that row's values are its content.
3. Cells are shortened or folded as ``Column.fit`` allows, down to ``Column.least``. Numbers never are.
4. Columns are left out by ``Column.rank``, the ones that alone tell two rows apart last, and so are columns whose
   names look alike once shortened. ``TableLayout.missing`` names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fmha_cli.report.column import Column, Fit
from fmha_cli.report.fitting import LEAST, broken, columns, cut, shortened, widest, widest_of
from fmha_cli.report.lines import counted
from fmha_cli.report.table import Table

GAP = "  "
_CURSOR = re.compile(r"[\t\r\v\f\b]")
_LONG = 24
_NONE = "-"
"""Stands where a row has none of the words in which the rows differ."""


@dataclass(frozen=True)
class TableLayout:
    """A table that fits.

    Attributes:
        rows: the cells; one that was folded has line breaks.
        widths: the columns of the terminal for each column of the table.
        common: the values that all rows share.
        left_out: the names of the columns without a place, in the order of the table.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    widths: Sequence[int]
    common: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> str:
        """The ``%`` format of a line whose characters all need one column."""
        sides = ("" if column.number else "-" for column in self.columns)
        return GAP.join(f"%{side}{room}s" for side, room in zip(sides, self.widths, strict=True))

    @property
    def missing(self) -> str:
        """The line that names the columns that were left out."""
        return f"{counted(len(self.left_out), 'column')} left out: {', '.join(self.left_out)}; --wide shows all"


def lay_out(table: Table, width: int | None) -> TableLayout:
    """The table within a width; None for no limit."""
    table = _on_lines(table.narrowed())
    sizes = _sizes(table)
    if width is None or not table.rows:
        return TableLayout(table.columns, table.rows, [natural for natural, _ in sizes])
    width = max(width, LEAST)
    common: tuple[str, ...] = ()
    if len(table.rows) > 1 or _widths(sizes, width) is None:
        table, common = factored(table)
        sizes = _sizes(table)
    kept = list(range(len(table.columns)))
    while True:
        widths = _widths([sizes[i] for i in kept], width)
        if widths is None:
            telling = _telling(table, kept)
            kept.remove(max(kept, key=lambda i: (i not in telling, table.columns[i].rank, i)))
            continue
        part = table.only(kept)
        rows = [
            [_fitted(text, column, room) for text, column, room in zip(row, part.columns, widths, strict=True)]
            for row in part.rows
        ]
        vague = [i for place, i in enumerate(kept) if _is_vague(part, rows, place)]
        if not vague or len(kept) == 1:
            names = tuple(column.name for i, column in enumerate(table.columns) if i not in kept)
            return TableLayout(part.columns, rows, widths, common, names)
        kept.remove(vague[-1])


def _telling(table: Table, kept: Sequence[int]) -> set[int]:
    """The columns without which two rows would look alike: the requests differ only in them. Results tell no rows
    apart."""
    asked = [i for i in kept if table.columns[i].common is not None]

    def kinds(places: Sequence[int]) -> int:
        return len({tuple(row[i] for i in places) for row in table.rows})

    return {i for i in asked if kinds([other for other in asked if other != i]) < kinds(asked)}


def legends_of(table: Table, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines that explain words of the printed headers and cells."""
    return [
        f"  {word}: {text}"
        for word, text in table.legends.items()
        if any(word in header for header in headers) or any(word in cell for row in rows for cell in row)
    ]


def _is_vague(table: Table, rows: Sequence[Sequence[str]], i: int) -> bool:
    """Whether different names look alike once they are shortened, in a column that the table can do without."""
    column = table.columns[i]
    if column.fit is not Fit.MIDDLE or not column.rank:
        return False
    return len({row[i] for row in rows}) < len({row[i] for row in table.rows})


def _on_lines(table: Table) -> Table:
    """The table without characters that move the cursor; only prose keeps its line breaks."""
    changed = [
        {
            text: _CURSOR.sub(" ", text) if column.fit is Fit.FOLD else " ".join(text.split())
            for text in set(cells)
            if not text.isprintable()
        }
        for cells, column in zip(table.cells, table.columns, strict=True)
    ]
    if not any(changed):
        return table
    rows = [[new.get(text, text) for text, new in zip(row, changed, strict=True)] for row in table.rows]
    return replace(table, rows=rows)


def factored(table: Table) -> tuple[Table, tuple[str, ...]]:
    """The table without the values that all its rows share, and these values. One column always stays."""
    said: list[str] = []
    rows = [list(row) for row in table.rows]
    gone: list[int] = []
    for i, column in enumerate(table.columns):
        if column.common is None:
            continue
        cells = [row[i] for row in rows]
        if column.words:
            shared, rest = _shared_words(cells)
            said += map(column.common, shared)
            for row, words in zip(rows, rest, strict=True):
                row[i] = words or _NONE
            gone += [i] if not any(rest) else []
        elif cells[0] and len(set(cells)) == 1:
            said.append(column.common(cells[0]))
            gone.append(i)
    if len(gone) == len(table.columns):
        return table, ()
    return replace(table, rows=rows).only(i for i in range(len(table.columns)) if i not in gone), tuple(said)


def _shared_words(cells: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that stand in every cell, and the cells without them."""
    lists = [cell.split() for cell in cells]
    shared = set(lists[0]).intersection(*lists[1:])
    said = [word for word in dict.fromkeys(lists[0]) if word in shared]
    return said, [" ".join(word for word in words if word not in shared) for words in lists]


def _sizes(table: Table) -> list[tuple[int, int]]:
    """For each column of the table: the width that it needs, and the least that it can do with. Prose keeps words of up to
    ``_LONG`` columns whole."""
    sizes = []
    for column, every in zip(table.columns, table.cells, strict=True):
        cells = set(every)
        head = columns(column.header)
        natural = max(head, widest_of(cells))
        words = {word for cell in cells for word in cell.split()} if column.fit is Fit.FOLD else ()
        longest = max((size for word in words if (size := columns(word)) <= _LONG), default=0)
        least = natural if column.fit is Fit.WHOLE else min(natural, max(column.least, head, longest))
        sizes.append((natural, least))
    return sizes


def _widths(sizes: Sequence[tuple[int, int]], width: int) -> list[int] | None:
    """The width of each column; None if they do not fit. A single column always does."""
    room = width - len(GAP) * (len(sizes) - 1)
    if len(sizes) == 1:
        return [min(sizes[0][0], room)]
    widths = [least for _, least in sizes]
    spare = room - sum(widths)
    if spare < 0:
        return None
    wanting = sorted(range(len(sizes)), key=lambda i: sizes[i][0] - sizes[i][1])
    for at, i in enumerate(wanting):
        more = min(sizes[i][0] - widths[i], spare // (len(wanting) - at))
        widths[i] += more
        spare -= more
    return widths


def _fitted(text: str, column: Column, room: int) -> str:
    if widest(text) <= room:
        return text
    if column.fit is Fit.MIDDLE:
        return shortened(text, room)
    return cut(text, room) if column.fit is Fit.END else "\n".join(broken(text, room))

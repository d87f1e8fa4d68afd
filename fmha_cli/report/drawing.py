"""Tables as text: for people, and for Markdown.

``tabulate`` writes the Markdown. It does not write the text for terminals, because it takes the number of characters for their
width and makes every column two wider than its header.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from fmha_cli.report.column import Column, Fit
from fmha_cli.report.fitting import columns, cut, folded, folded_all
from fmha_cli.report.layout import GAP, TableLayout, lay_out, legends_of
from fmha_cli.report.table import Table


def plain(table: Table, width: int | None = None, *, color: bool = False) -> str:
    """The values that all rows share, the table as aligned text, the details, the columns that were left out, the
    summary. Control characters are escaped, except those of our own colours.

    Args:
        width: columns of the terminal; None for everything, as wide as it is.
        color: paint verdicts.
    """
    table = table.escaped()
    laid = lay_out(table, width)
    shared = folded(f"all rows: {', '.join(laid.common)}" if len(table.rows) > 1 else ", ".join(laid.common), width)
    parts = [
        *(shared if laid.common else ()),
        *_grid(laid, color=color),
        *folded_all(table.details, width),
        *folded_all(legends_of(table, [column.header for column in laid.columns], laid.rows), width),
        *(folded(laid.missing, width) if laid.left_out else ()),
        *folded(table.summary, width),
    ]
    return "\n".join(filter(None, parts))


def markdown(table: Table) -> str:
    """The table for GitHub, then the details as a list, then the summary."""
    from tabulate import tabulate

    shown = table.narrowed()
    escaped = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in shown.rows]
    align = ["right" if column.number else "left" for column in shown.columns]
    grid = tabulate(escaped, shown.headers, tablefmt="github", colalign=align, disable_numparse=True) if escaped else ""
    lines = [*table.details, *legends_of(table, shown.headers, shown.rows)]
    details = "\n".join(f"- {line.strip()}" for line in lines)
    return "\n\n".join(part for part in (grid, details, table.summary) if part)


def _grid(laid: TableLayout, *, color: bool) -> list[str]:
    """The lines of the table: headers, a rule, the rows; none without rows."""
    if not laid.rows:
        return []
    heads = [cut(column.header, room) for column, room in zip(laid.columns, laid.widths, strict=True)]
    lines = [_line(heads, laid), GAP.join("-" * room for room in laid.widths)]
    rows = laid.rows
    if color:
        rows = [[_painted(*cell) for cell in zip(row, laid.columns, strict=True)] for row in rows]
    if not any(column.fit is Fit.FOLD for column in laid.columns):
        return [*lines, *(_line(row, laid) for row in rows)]
    for row in rows:
        lines += (_line(part, laid) for part in zip_longest(*(text.split("\n") for text in row), fillvalue=""))
    return lines


def _line(cells: Sequence[str], laid: TableLayout) -> str:
    line = laid.pattern % tuple(cells)
    if not line.isascii() or "\x1b" in line:  # some characters need no column, or two
        blanks = (" " * (room - columns(text)) for text, room in zip(cells, laid.widths, strict=True))
        padded = (
            blank + text if column.number else text + blank
            for text, blank, column in zip(cells, blanks, laid.columns, strict=True)
        )
        line = GAP.join(padded)
    return line.rstrip()


def _painted(text: str, column: Column) -> str:
    words = text.split(maxsplit=1) if column.paint else []
    color = column.paint.get(words[0]) if words else None
    return text if color is None else text.replace(words[0], f"\x1b[{color.value}m{words[0]}\x1b[0m", 1)

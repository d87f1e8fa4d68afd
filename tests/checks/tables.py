"""Tables of the summaries, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.checks.check import Row


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table. An empty cell stands for None."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join('' if cell is None else str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def crosstab(
    rows: Iterable[Row], down: str | Callable[[Row], Any], across: str | Callable[[Row], Any], head: str
) -> str:
    """How many rows have each pair of values, in the order of the rows; the columns in alphabetical order.

    Args:
        down, across: the name of a member, or a function of a row.
        head: of the first column.
    """
    first, second = (by if callable(by) else (lambda row, by=by: row[by]) for by in (down, across))
    counts: dict[Any, Counter[Any]] = {}
    for row in rows:
        counts.setdefault(first(row), Counter())[second(row)] += 1
    columns = sorted({value for found in counts.values() for value in found}, key=str)
    lines = [[value, *(found[column] for column in columns)] for value, found in counts.items()]
    total = sum(counts.values(), Counter[Any]())
    return table([head, *map(str, columns)], [*lines, ["**all**", *(total[column] for column in columns)]])

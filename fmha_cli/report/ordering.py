"""The order of a table's rows for ``--sort``: by the values of their JSON, not by the text of their cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fmha_cli.report.table import Table

DESCENDING = ":desc"

Row = Mapping[str, Any]


def key_of(name: str) -> str:
    """The column that a name for ``--sort`` means."""
    return name.removesuffix(DESCENDING).removesuffix(":asc")


def at(row: object, path: Iterable[str]) -> Any:
    """The value to which some members of JSON, or attributes, lead; None where there is none."""
    value: Any = row
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return value


def order_of(table: Table, entries: Sequence[Row] | None, sort: Sequence[str]) -> list[int]:
    """The places of the rows in their order; rows without a value come last.

    Args:
        sort: names of columns, the first of them first; with ``:desc``, downwards.
        entries: the JSON of each row; None for a table whose rows are not entries of its document, which is sorted by
            its cells.
    """
    places = list(range(len(table.rows)))
    for name in reversed(sort):
        key, columns = key_of(name), {column.name: i for i, column in enumerate(table.columns)}
        path = key if key not in columns else table.columns[columns[key]].path
        if entries is not None and path:
            values = [at(entry, path.split(".")) for entry in entries]
        else:
            values = [_number_or_text(row[columns[key]]) if key in columns else None for row in table.rows]
        ranked = [(_rank(values[i]), i) for i in places if values[i] is not None]
        ranked.sort(key=itemgetter(0), reverse=name.endswith(DESCENDING))
        places = [i for _, i in ranked] + [i for i in places if values[i] is None]
    return places


def _rank(value: Any) -> tuple[int, float, list[tuple[int, float, str]]]:
    """Numbers by size, then texts as people order them: ``d64`` before ``d128``."""
    if isinstance(value, bool | int | float):
        return (0, float(value), [])
    return (
        1,
        0.0,
        [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in re.split(r"(\d+)", str(value))],
    )


def _number_or_text(text: str) -> float | str | None:
    try:
        number = float(text)
    except ValueError:
        return text or None
    return number if number == number else text

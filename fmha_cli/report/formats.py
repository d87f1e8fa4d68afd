"""Documents as text: table, json, jsonl, csv, md. All five show the same document, so they never disagree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fmha_cli.report.document import document, name_of
from fmha_cli.report.form import Format

if TYPE_CHECKING:
    from fmha_cli.report.table import Table


def render(data: Mapping[str, Any], form: Format, *, color: bool = False) -> str:
    """A document as text without a final line break; only tables have colour.

    Raises:
        TypeError: the document has no table.
    """
    if form is Format.JSON:
        return json_text(data)
    if form is Format.JSONL:
        return "\n".join(jsonl_lines(rows_of(data)))
    if form is Format.CSV:
        from fmha_cli.report import flat

        name = name_of(data)
        return flat.csv_text(rows_of(data), flat.columns(name, document(name).rows))
    from fmha_cli.report.table import markdown, plain

    table = view(data, color=color and form is Format.TABLE)
    return plain(table) if form is Format.TABLE else markdown(table)


def view(data: Mapping[str, Any], *, color: bool = False) -> Table:
    """The table of a document; ``color`` turns on coloured verdicts.

    Raises:
        TypeError: the document has no table.
    """
    found = document(name_of(data))
    if found.view is None:
        raise TypeError(f"{data['schema']} has no table")
    return found.view(data, color=color) if found.colored else found.view(data)


def rows_of(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a document; the document itself if it has none."""
    member = document(name_of(data)).rows
    return [data] if member is None else list(data[member])


def jsonl_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for every row, as soon as the row exists; ``Record.to_dict()`` streams through this function."""
    for row in rows:
        yield json.dumps(row, sort_keys=True, allow_nan=False, ensure_ascii=False)


def json_text(value: Any) -> str:
    """JSON with sorted keys, an indent of two spaces, and lists of plain values on one line (samples stay readable).

    Raises:
        ValueError: the document contains NaN or infinity, which ``finite`` should have replaced.
    """
    return _pretty(value, "\n")


def _pretty(value: Any, line: str) -> str:
    inner = line + "  "
    if isinstance(value, Mapping) and value:
        parts = [f"{json.dumps(str(k), ensure_ascii=False)}: {_pretty(value[k], inner)}" for k in sorted(value)]
        return "{" + inner + f",{inner}".join(parts) + line + "}"
    if isinstance(value, list | tuple) and any(isinstance(v, Mapping | list | tuple) for v in value):
        return "[" + inner + f",{inner}".join(_pretty(v, inner) for v in value) + line + "]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)

"""Documents as text: table, json, jsonl, csv, md. All five show the same document, so they never disagree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from fmha_cli.report.views import document_name, view


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    MD = "md"


ROWS: Mapping[str, str] = {
    "archs": "archs",
    "build": "builds",
    "cache": "entries",
    "devices": "devices",
    "differences": "rows",
    "doctor": "checks",
    "executed": "kernels",
    "explain": "decisions",
    "inspections": "kernels",
    "kernels": "kernels",
    "parity": "cases",
    "plan": "stages",
    "plugins": "plugins",
    "profiles": "profiles",
    "report": "records",
    "sources": "sources",
}
"""The member of each document that jsonl and csv print row by row; other documents are one row."""


def render(document: Mapping[str, Any], form: Format, *, color: bool = False) -> str:
    """A document as text without a final line break; colour in tables only."""
    name = document_name(document)
    if form is Format.JSON:
        return json_text(document)
    if form is Format.JSONL:
        return "\n".join(jsonl_lines(rows_of(document)))
    if form is Format.CSV:
        from fmha_cli.report import flat

        return flat.csv_text(rows_of(document), flat.columns(name, ROWS.get(name)))
    from fmha_cli.report.table import markdown, plain

    table = view(document, color and form is Format.TABLE)
    return plain(table) if form is Format.TABLE else markdown(table)


def rows_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a document; the document itself where it has none."""
    member = ROWS.get(document_name(document))
    return [document] if member is None else list(document[member])


def jsonl_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for every row, as soon as it is there; ``Record.to_dict()`` streams through here."""
    for row in rows:
        yield json.dumps(row, sort_keys=True, allow_nan=False, ensure_ascii=False)


def json_text(value: Any) -> str:
    """JSON with sorted keys, two spaces, and lists of plain values on one line (samples stay readable).

    Raises:
        ValueError: NaN or infinity, which ``finite`` should have taken out.
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

"""Documents as text: table, json, jsonl, csv, md. All five show the same document, so they never disagree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_origin

from fmha_cli.domain.codec import alternatives, bare, choices, extras, json_of, members_of
from fmha_cli.domain.members import ShownAs
from fmha_cli.report.document import document, kind_of, name_of
from fmha_cli.report.drawing import markdown, plain
from fmha_cli.report.escaping import escaped
from fmha_cli.report.form import Format
from fmha_cli.report.json_text import json_text
from fmha_cli.report.ordering import at
from fmha_cli.report.shaping import shaped_document

if TYPE_CHECKING:
    from fmha_cli.report.shape import TableShape
    from fmha_cli.report.table import Table

Path = tuple[str, ...]
"""The members that lead to a cell of CSV."""


def render(noun: Any, form: Format, *, color: bool = False, shape: TableShape | None = None) -> str:
    """A document as text without a final line break; only tables have colour and a shape, but CSV has its
    columns. Control characters in it are escaped.

    Raises:
        TypeError: the document has no table.
        UsageError: the shape names no column of the table.
    """
    if form is Format.JSON:
        return json_text(json_of(noun))
    if form is Format.TABLE:
        return plain(view(noun, shape), None if shape is None else shape.width, color=color)
    return escaped(_rendered(noun, form, shape))


def _rendered(noun: Any, form: Format, shape: TableShape | None) -> str:
    if form is Format.JSONL:
        opening = kind_of(noun).opening
        return "\n".join(jsonl_lines([*([] if opening is None else [opening(noun)]), *rows_of(noun)]))
    if form is Format.CSV:
        paths = columns(name_of(noun.schema))
        if shape is None or not shape.columns:
            return csv_text(rows_of(noun), paths)
        shape.check((), map(".".join, paths))
        return csv_text(rows_of(noun), [tuple(name.split(".")) for name in shape.columns])
    return markdown(view(noun, shape))


def view(noun: Any, shape: TableShape | None = None) -> Table:
    """The table of a document, with the rows and columns that a shape chooses.

    Raises:
        TypeError: the document has no table.
        UsageError: the shape names no column of the table.
    """
    found = kind_of(noun)
    if found.view is None:
        raise TypeError(f"{noun.schema} has no table")
    if shape is None or shape.whole:
        table = found.view(noun)
    else:
        table = shaped_document(noun, found.rows, found.view, map(".".join, columns(name_of(noun.schema))), shape)
    return table if shape is None or shape.summed else replace(table, summary="")


def check_shape(shape: TableShape, documents: Sequence[str], *, tables: bool = True) -> None:
    """Refuse the names of columns that none of some documents has.

    Args:
        tables: whether the names of the tables' columns count, or those of CSV alone.

    Raises:
        UsageError: E017.
    """
    if shape.columns or (tables and shape.sort):
        own = [column for name in documents for column in document(name).columns] if tables else []
        shape.check(own, [".".join(path) for name in documents for path in columns(name)])


def rows_of(noun: Any) -> Sequence[Any]:
    """The rows of a document; the document itself if it has none."""
    member = kind_of(noun).rows
    return (noun,) if member is None else getattr(noun, member)


def number_of_rows(noun: Any) -> int | None:
    """How many rows a document has; None if it is one row itself."""
    return None if kind_of(noun).rows is None else len(rows_of(noun))


def jsonl_lines(rows: Iterable[object]) -> Iterator[str]:
    """One line for every row, as soon as the row exists."""
    for row in rows:
        yield json.dumps(json_of(row), sort_keys=True, allow_nan=False, ensure_ascii=False)


def columns(name: str) -> tuple[Path, ...]:
    """The columns of the rows of a document, or of the document itself if it is one row.

    Every column that a row may have is always present, in the order of the members. Nested objects with fixed members
    become dotted columns. Lists and open objects stay JSON text in one cell. Null is an empty cell.
    """
    found = document(name)
    if found.rows is None:
        return tuple(_leaves(found.kind, ()))
    rows = next(member.hint for member in members_of(found.kind) if member.key == found.rows)
    return tuple(_leaves(get_args(_shown(rows))[0], ()))


def _leaves(hint: Any, path: Path) -> Iterator[Path]:
    kind = _shown(hint)
    if is_dataclass(kind):
        parts = [(member.key, member.hint) for member in members_of(kind)]
    else:
        parts = [(key, get_args(kind)[1]) for key in choices(get_args(kind)[0])] if get_origin(kind) is Mapping else []
    for key, part in parts:
        yield from _leaves(part, (*path, key))
    if not parts:
        yield path


def _shown(hint: Any) -> Any:
    """The type of a member's JSON values other than null."""
    shown = next((note.type for note in extras(hint) if isinstance(note, ShownAs)), bare(hint))
    kinds = [kind for kind in alternatives(shown) if kind is not type(None)]
    return shown if len(kinds) > 1 or kinds == [hint] else _shown(kinds[0])


def csv_text(rows: Iterable[object], paths: Sequence[Path]) -> str:
    """RFC 4180 with a header line; numbers as JSON writes them."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([".".join(path) for path in paths])
    for row in map(json_of, rows):
        writer.writerow([_cell(row, path) for path in paths])
    return out.getvalue().rstrip("\n")


def _cell(row: Mapping[str, Any], path: Path) -> str:
    value = at(row, path)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))

"""Rows of a document as flat columns for CSV, derived from the document's JSON schema.

Every column that a row may have is always present, in the order of the schema. Nested objects with fixed
members become dotted columns. Lists and open objects stay JSON text in one cell. Null is an empty cell.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fmha_cli.report.schemas import load, name_of

Path = tuple[str, ...]


def columns(name: str, member: str | None) -> tuple[Path, ...]:
    """The columns of the rows in list ``member`` of document ``name``; without a member, of the document itself."""
    whole = load(name)
    node: Mapping[str, Any] = whole
    if member is not None:
        node = _resolved(whole["properties"][member], whole)["items"]
    return tuple(_leaves(node, whole, ()))


def _leaves(node: Mapping[str, Any], scope: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if "$ref" in node and not node["$ref"].startswith("#"):
        scope, node = _document(node["$ref"])
        yield from _leaves(node, scope, path)
        return
    node = _resolved(node, scope)
    if "properties" in node and node.get("additionalProperties") is False:
        for key, child in node["properties"].items():
            yield from _leaves(child, scope, (*path, key))
    elif "anyOf" in node and len(node["anyOf"]) == 2:
        yield from _leaves(node["anyOf"][0], scope, path)
    else:
        yield path


def _document(reference: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The file to which a URN refers, and the node in it to which the fragment refers."""
    urn, _, fragment = reference.partition("#")
    document = load(name_of(urn))
    return document, _pointer(document, fragment)


def _pointer(document: Mapping[str, Any], fragment: str) -> Mapping[str, Any]:
    node = document
    for key in filter(None, fragment.split("/")):
        node = node[key]
    return node


def _resolved(node: Mapping[str, Any], scope: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = node.get("$ref")
    return _pointer(scope, reference[1:]) if reference else node


def csv_text(rows: Iterable[Mapping[str, Any]], paths: Sequence[Path]) -> str:
    """RFC 4180 with a header line; numbers as JSON writes them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([".".join(path) for path in paths])
    for row in rows:
        writer.writerow([_cell(row, path) for path in paths])
    return out.getvalue().rstrip("\n")


def _cell(row: Mapping[str, Any], path: Path) -> str:
    value: Any = row
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))

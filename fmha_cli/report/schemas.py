"""The JSON schemas of the documents, generated from their declarations. ``fmha schema NAME`` prints one in full.

A schema refers to another by its URN. :func:`schema` bundles the schemas to which it refers into its ``$defs``
(JSON Schema 2020-12, section 9.3), so the printed schema is self-contained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.document import Document, document, names
from fmha_cli.report.parts import COMMON
from fmha_cli.report.record import Record
from fmha_cli.report.schema_nodes import SchemaWriter, references

_URN = "urn:fmha:schema:"
_REFERENCE = re.compile(rf'"\$ref": "{_URN}(\w+)')
_SHARED = {**references(COMMON, f"{_URN}common#/$defs/"), Record: f"{_URN}record", "record": f"{_URN}record"}


def schema(name: str) -> dict[str, Any]:
    """One schema as a self-contained document.

    Raises:
        UsageError: no such schema; the message suggests near names.
    """
    if name not in names():
        raise UsageError(f"schema {name}: no such schema", code="E014", where=name, help=suggest(name, names()))
    found = {name: load(name)}
    pending = [name]
    while pending:
        for other in _REFERENCE.findall(json.dumps(found[pending.pop()])):
            if other not in found:
                found[other] = load(other)
                pending.append(other)
    whole: dict[str, Any] = found.pop(name)
    bundled = {f"{_URN}{other}": body for other, body in sorted(found.items())}
    return {**whole, "$defs": {**whole.get("$defs", {}), **bundled}} if bundled else whole


def text(name: str) -> str:
    """What ``fmha schema NAME`` prints.

    Raises:
        UsageError: no such schema.
    """
    return json.dumps(schema(name), indent=2, ensure_ascii=False)


def load(name: str) -> dict[str, Any]:
    """One schema, with references to others not bundled; ``common`` holds what they share."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{_URN}{name}"}
    if name == "common":
        writer = SchemaWriter(_SHARED)
        return {**head, "title": "Parts that several documents share", "$defs": _defined(writer, COMMON)}
    found = document(name)
    writer = SchemaWriter({**_SHARED, **references(found.definitions, "#/$defs/")})
    whole = {**head, "title": found.schema, "description": _summary(found), **_body(found, writer)}
    if found.definitions:
        whole["$defs"] = _defined(writer, found.definitions)
    return whole


def _defined(writer: SchemaWriter, definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: writer.definition(hint) for name, hint in definitions.items()}


def _body(found: Document, writer: SchemaWriter) -> dict[str, Any]:
    kinds = get_args(found.kind)
    return {"oneOf": [writer.node(kind) for kind in kinds]} if kinds else writer.definition(found.kind)


def _summary(found: Document) -> str:
    """The first paragraph of the docstring."""
    return found.about or " ".join(str(found.kind.__doc__).partition("\n\n")[0].split())

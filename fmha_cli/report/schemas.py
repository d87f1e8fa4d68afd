"""The JSON schemas (2020-12) of the documents, generated from their declarations. ``fmha schema NAME`` prints one in full.

A schema refers to another by its URN. :func:`schema` bundles the schemas to which it refers into its ``$defs``
(JSON Schema 2020-12, section 9.3), so the printed schema is self-contained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fmha_cli.domain.codec import alternatives, bare, choices, extras, members_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.members import Keyword, Named, NullWhenNotFinite, ShownAs
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.document import Document, document, name_of, names
from fmha_cli.report.parts import COMMON
from fmha_cli.report.record import Record

Node = dict[str, Any]

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "string"}


class SchemaWriter:
    """Writes the nodes of one schema.

    Args:
        references: how to refer to a class, or to a ``Named`` type by its name (``#/$defs/check``).
    """

    def __init__(self, references: Mapping[Any, str]) -> None:
        self._references = references

    def definition(self, hint: Any) -> Node:
        """A type in full.

        For a ``Named`` type, the notes before its name belong to the definition; those after it describe a single use.
        """
        notes = extras(hint)
        name = next((i for i, note in enumerate(notes) if isinstance(note, Named)), len(notes))
        return self._noted(self._body(bare(hint)), notes[:name])

    def node(self, hint: Any) -> Node:
        """A type where it is used: a reference, or the type in full."""
        notes = extras(hint)
        for i, note in enumerate(notes):
            if isinstance(note, Named):
                return self._noted({"$ref": self._references[note.name]}, notes[i + 1 :])
            if isinstance(note, ShownAs):
                return self._noted(self.node(note.type), notes[i + 1 :])
        kind = bare(hint)
        referred = isinstance(kind, type) and kind in self._references
        return self._noted({"$ref": self._references[kind]} if referred else self._body(kind), notes)

    def _noted(self, node: Node, notes: tuple[Any, ...]) -> Node:
        for note in notes:
            match note:
                case Keyword():
                    node[note.name] = note.value
                case NullWhenNotFinite():
                    node["type"] = [node["type"], "null"]
                case str() if "anyOf" in node and "properties" in node["anyOf"][0]:
                    node = {"description": note, **node}  # readers see the description before a long object
                case str():
                    node["description"] = note
        return node

    def _body(self, kind: Any) -> Node:
        kinds, origin, args = alternatives(kind), get_origin(kind), get_args(kind)
        if len(kinds) > 1:
            return self._union([k for k in kinds if k is not type(None)], type(None) in kinds)
        if isinstance(kind, Mapping):
            return dict(kind)
        if kind in _SCALARS:
            return {"type": _SCALARS[kind]}
        if origin is Literal:
            return {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
        if origin is tuple:
            length = {} if args[-1] is Ellipsis else {"minItems": len(args), "maxItems": len(args)}
            return {"type": "array", "items": self.node(args[0]), **length}
        if origin is Mapping:
            return self._mapping(*args)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [member.value for member in kind]}
        if is_dataclass(kind):
            members = members_of(kind)
            always = getattr(kind, "json_always", None) or [m.key for m in members if not m.default]
            return self._object({m.key: m.hint for m in members}, always)
        return {}

    def _union(self, kinds: list[Any], nullable: bool) -> Node:
        nodes = [self.node(kind) for kind in kinds]
        first = nodes[0]
        if "enum" in first:
            return {"enum": [*first["enum"], None]}
        if "type" not in first or "properties" in first:
            return {"anyOf": [first, {"type": "null"}]}
        rest = {key: value for node in reversed(nodes) for key, value in node.items()}
        return {**rest, "type": [node["type"] for node in nodes] + ["null"] * nullable}

    def _mapping(self, key: Any, item: Any) -> Node:
        if key is str:
            node = self.node(item)
            return {"type": "object", "additionalProperties": node} if node else {"type": "object"}
        return self._object(dict.fromkeys(choices(key), item))

    def _object(self, members: Mapping[str, Any], always: Iterable[str] | None = None) -> Node:
        return {
            "type": "object",
            "properties": {name: self.node(hint) for name, hint in members.items()},
            "required": sorted(members if always is None else always),
            "additionalProperties": False,
        }


def references(names: Mapping[str, Any], prefix: str) -> dict[Any, str]:
    """How to refer to definitions, by class and by name."""
    found: dict[Any, str] = {}
    for name, hint in names.items():
        found[name] = f"{prefix}{name}"
        if _is_class(bare(hint)):
            found[bare(hint)] = f"{prefix}{name}"
    return found


def _is_class(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, Enum))


_URN = "urn:fmha:schema:"
_REFERENCE = re.compile(rf'"\$ref": "{_URN}(\w+)')
_SHARED = {**references(COMMON, f"{_URN}common#/$defs/"), Record: f"{_URN}record", "record": f"{_URN}record"}


def schema(name: str) -> dict[str, Any]:
    """One schema as a self-contained document.

    Raises:
        UsageError: no such schema; the message suggests near names.
    """
    if name not in names():
        raise UsageError(
            f"schema {name}: no such schema", code="E014", where=name, help=suggest(name_of(name), names())
        )
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

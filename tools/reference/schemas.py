"""``schemas.md``: the members of every JSON document, from the schemas that ``fmha schema`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fmha_cli.report.document import names
from fmha_cli.report.schemas import load

from .markdown import anchor, code, page, plain, section, table
from .meanings import meaning

Node = Mapping[str, Any]


def pages() -> dict[str, str]:
    """The page of schemas."""
    about = (
        "`--json` prints one of these documents, `--jsonl` one member of it a line, and `fmha schema NAME` its JSON Schema "
        "(2020-12). Times are nanoseconds and sizes are bytes where a member's name ends in `_ns` or `_bytes`. A member "
        "without a value is null; it is missing only where the column says so."
    )
    documents = [section(name, *_document(name)) for name in (*names(), "common")]
    return {"schemas.md": page("JSON documents", about, *documents)}


def _document(name: str) -> Iterator[str]:
    schema = load(name)
    yield f"`{schema['title']}`. {plain(schema.get('description', ''))}".strip(" .") + "."
    for i, body in enumerate(schema.get("oneOf", [schema] if "properties" in schema else [])):
        yield (f"Form {i + 1}: {plain(body['description'])}" if body.get("description") and "oneOf" in schema else "")
        yield from _members(name, body, "")
    for part, body in schema.get("$defs", {}).items():
        yield section(f"{name}.{part}", plain(body.get("description", "")), *_defined(name, body), level=3)


def _defined(name: str, body: Node) -> Iterator[str]:
    if "properties" in body:
        yield from _members(name, body, "")
    else:
        yield f"Type: {_kind(name, body)}."


def _members(name: str, body: Node, path: str) -> Iterator[str]:
    rows = list(_rows(name, body, path))
    yield table(("member", "type", "meaning", "may be missing"), rows)


def _rows(name: str, body: Node, path: str) -> Iterator[tuple[str, str, str, str]]:
    """One row a member; those of a nested object follow it."""
    for member, node in body.get("properties", {}).items():
        full, missing = f"{path}{member}", "" if member in body.get("required", ()) else "yes"
        told = node.get("description") or meaning(frozenset(body["properties"]), member)
        yield code(full), _kind(name, node), plain(told), missing
        inner = node.get("items", node)
        for one in inner.get("anyOf", [inner]):
            if one.get("properties"):
                yield from _rows(name, one, f"{full}{'[]' if 'items' in node else ''}.")


def _kind(name: str, node: Node) -> str:
    """A node's type in words."""
    if "$ref" in node:
        return _reference(name, str(node["$ref"]))
    if "anyOf" in node or "oneOf" in node:
        return " or ".join(_kind(name, one) for one in node.get("anyOf", node.get("oneOf", ())))
    if "const" in node:
        return code(node["const"])
    if "enum" in node:
        return ", ".join(code("null" if value is None else value) for value in node["enum"])
    kind = node.get("type", "any value")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in node:
        text = text.replace("array", f"array of {_kind(name, node['items'])}")
    if isinstance(node.get("additionalProperties"), Mapping):
        text = text.replace("object", f"object of {_kind(name, node['additionalProperties'])}")
    return text + "".join(f", {word} {limit}" for word, limit in _limits(node))


def _limits(node: Node) -> Iterator[tuple[str, object]]:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "exclusiveMaximum": "below", "pattern": "pattern"}
    for key, word in words.items():
        if key in node:
            yield word, code(node[key]) if key == "pattern" else node[key]


def _reference(name: str, target: str) -> str:
    document, _, part = target.removeprefix("urn:fmha:schema:").partition("#/$defs/")
    document = document or name
    full = f"{document}.{part}" if part else document
    return f"[{part or document}](#{anchor(full)})"

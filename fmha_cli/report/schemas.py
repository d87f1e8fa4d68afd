"""The JSON schemas of the documents: files in ``fmha_cli/schemas/``, printed whole by ``fmha schema NAME``.

A file refers to another by its URN. :func:`text` bundles what a schema refers to into its ``$defs``
(JSON Schema 2020-12, section 9.3), so that what is printed stands alone.
"""

from __future__ import annotations

import json
import re
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from fmha_cli.errors import UsageError
from fmha_cli.near import suggest

_URN = "urn:fmha:schema:"
_REFERENCE = re.compile(rf'"\$ref": "{_URN}(\w+)')


def _folder() -> Traversable:
    return resources.files("fmha_cli").joinpath("schemas")


def names() -> tuple[str, ...]:
    """Names for ``fmha schema NAME``, sorted. Files that only serve others begin with an underscore."""
    files = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(f[:-5] for f in files if f.endswith(".json") and not f.startswith("_")))


def schema(name: str) -> dict[str, Any]:
    """One schema as a self-contained document.

    Raises:
        UsageError: no such schema, with near names.
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
    document: dict[str, Any] = found.pop(name)
    bundled = {f"{_URN}{other}": body for other, body in sorted(found.items())}
    return {**document, "$defs": {**document.get("$defs", {}), **bundled}} if bundled else document


def text(name: str) -> str:
    """What ``fmha schema NAME`` prints.

    Raises:
        UsageError: no such schema.
    """
    return json.dumps(schema(name), indent=2, ensure_ascii=False)


def name_of(urn: str) -> str:
    """The name of the file that a reference between schemas means."""
    return urn.removeprefix(_URN)


def load(name: str) -> dict[str, Any]:
    """One schema file as it is written, references to other files not bundled."""
    file = "_common.json" if name == "common" else f"{name}.json"
    document: dict[str, Any] = json.loads(_folder().joinpath(file).read_text("utf-8"))
    return document

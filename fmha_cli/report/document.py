"""``Document``: one kind of JSON document. The module ``documents.NAME`` declares the document ``fmha.NAME/1``."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from fmha_cli.report import documents
from fmha_cli.report.table import Table


@dataclass(frozen=True)
class Document:
    """The type of ``documents.NAME.DOCUMENT``.

    Attributes:
        kind: the dataclass, or several if a document is one of them.
        view: makes the table from a document's JSON form.
        rows: the member that jsonl and csv print row by row; None for a document that is one row.
        definitions: types to which its schema refers by name.
        about: the description of the document; if empty, the docstring of ``kind``.
        colored: whether ``view`` takes an argument that turns on coloured verdicts.
    """

    kind: Any
    view: Callable[..., Table] | None = None
    rows: str | None = None
    definitions: Mapping[str, Any] = field(default_factory=dict)
    about: str | None = None
    colored: bool = False


def names() -> tuple[str, ...]:
    """The names of all documents, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(documents.__path__)))


def document(name: str) -> Document:
    """The document of a name."""
    found: Document = import_module(f"{documents.__name__}.{name}").DOCUMENT
    return found


def name_of(data: Mapping[str, Any]) -> str:
    """The name of a document from the member that identifies it: ``report`` from ``fmha.report/1``."""
    return str(data["schema"]).removeprefix("fmha.").partition("/")[0]

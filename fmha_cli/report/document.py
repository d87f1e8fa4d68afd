"""``Document``: one kind of JSON document (``fmha.NAME/1``). The modules of ``documents`` declare them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, get_args

from fmha_cli.report import documents
from fmha_cli.report.column import Column
from fmha_cli.report.table import Table


@dataclass(frozen=True)
class Document:
    """One of the ``DOCUMENTS`` of a module.

    Attributes:
        kind: the dataclass, or several if a document is one of them.
        view: makes the table of a document.
        rows: the member that jsonl and csv print row by row; None for a document that is one row.
        columns: those of the table, where the members of its rows do not declare them.
        definitions: types to which its schema refers by name.
        about: the description of the document; if empty, the docstring of ``kind``.
        opening: makes the document in the line before the rows in JSON Lines from a document; None for one without.

    """

    kind: Any
    view: Callable[..., Table] | None = None
    rows: str | None = None
    columns: Sequence[Column] = ()
    definitions: Mapping[str, Any] = field(default_factory=dict)
    about: str | None = None
    opening: Callable[[Any], object] | None = None

    @property
    def schema(self) -> str:
        """What identifies a document of this kind: ``fmha.report/1``."""
        return str((get_args(self.kind) or (self.kind,))[0].schema)


def names() -> tuple[str, ...]:
    """The names of all documents, sorted."""
    modules = {module.name for module in pkgutil.iter_modules(documents.__path__)}
    return tuple(sorted((modules - documents.SEVERAL.keys()).union(*documents.SEVERAL.values())))


def document(name: str) -> Document:
    """The document of a name."""
    module = next((module for module, held in documents.SEVERAL.items() if name in held), name)
    found: tuple[Document, ...] = import_module(f"{documents.__name__}.{module}").DOCUMENTS
    return next(one for one in found if name_of(one.schema) == name)


def kind_of(noun: Any) -> Document:
    """The kind of a document."""
    return document(name_of(noun.schema))


def name_of(schema: str) -> str:
    """The name of a document from what identifies it: ``report`` from ``fmha.report/1``."""
    return schema.removeprefix("fmha.").partition("/")[0]

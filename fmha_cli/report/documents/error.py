"""``fmha.error/1``: what a command prints if it cannot make its own document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import FmhaError
from fmha_cli.report.document import Document
from fmha_cli.report.parts import ErrorRow
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a command prints with --json when it could not make its own document."""

    schema: Literal["fmha.error/1"] = "fmha.error/1"
    error: ErrorRow


def error_document(error: FmhaError) -> dict[str, Any]:
    """The document of an error. A report contains its error instead."""
    return to_json(Failure(error=ErrorRow.of(error)))


def error_view(document: Mapping[str, Any]) -> Table:
    """The error, with a line for each of its parts."""
    error = document["error"]
    rows = [[key, cell(error[key])] for key in ("where", "why", "help") if error[key]]
    return Table(["part", "text"], rows, f"error[{error['code']}]: {error['what']}")


DOCUMENT = Document(Failure, error_view)

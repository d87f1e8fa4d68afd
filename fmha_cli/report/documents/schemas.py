"""``fmha.schemas/1``: the names of the schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fmha_cli.report.document import Document


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """schema --json without a name: the names that it takes."""

    schema: Literal["fmha.schemas/1"] = "fmha.schemas/1"
    schemas: tuple[str, ...]


DOCUMENT = Document(Schemas)

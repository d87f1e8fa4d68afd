"""``fmha.archs/1``: architectures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.members import Count, ShownAs
from fmha_cli.report.document import Document
from fmha_cli.report.table import Column, Table, table_of
from fmha_cli.report.units import counted

_FACT = {
    "type": "object",
    "required": ["source", "value"],
    "properties": {"source": {"type": "string", "minLength": 1}},
}
_FACTS = {"type": "object", "additionalProperties": _FACT}


@dataclass(frozen=True, kw_only=True)
class ArchRow:
    """One architecture: its facts, and the backends that have kernels for it."""

    name: Annotated[str, Column("arch")]
    vendor: Annotated[str, ShownAs(Literal["cpu", "amd", "nvidia"]), Column("vendor")]
    title: Annotated[str, Column("title")]
    facts: Annotated[Mapping[str, Any], ShownAs(_FACTS)]
    backends: Annotated[tuple[str, ...], Column("backends")]
    kernels: Annotated[Count | None, "null: not counted", Column("kernels", number=True)]


@dataclass(frozen=True, kw_only=True)
class Archs:
    """archs --json: facts of architectures, each with its source."""

    schema: Literal["fmha.archs/1"] = "fmha.archs/1"
    archs: tuple[ArchRow, ...]


def archs_document(archs: Iterable[ArchSpec], kernel_counts: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The document of some architectures; ``kernels`` is null if they were not counted."""
    rows = tuple(
        ArchRow(
            name=arch.name,
            vendor=arch.vendor,
            title=arch.title,
            facts={name: dict(fact) for name, fact in sorted(arch.facts.items())},
            backends=tuple(sorted(arch.backends)),
            kernels=(kernel_counts or {}).get(arch.name),
        )
        for arch in archs
    )
    return to_json(Archs(archs=rows))


def archs_view(document: Mapping[str, Any]) -> Table:
    """One line for each architecture."""
    return table_of(ArchRow, document["archs"], counted(len(document["archs"]), "architecture"))


DOCUMENT = Document(Archs, archs_view, rows="archs")

"""``fmha.choices/1``: what each of several backends would run for each problem, or the reasons why it would not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.layer import Layer
from fmha_cli.domain.members import ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.layers import LAYER_COLUMNS, NO_LAYER, layer_cells
from fmha_cli.report.lines import SHORT, counted, problem_text, reason_text, spelled
from fmha_cli.report.parts import KernelRow
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class ChoiceRow:
    """The answer of one backend about one problem."""

    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    backend: str
    device: str | None
    arch: Annotated[str | None, "the kernel's"]
    kernel: Annotated[KernelRow | None, "null: it serves the problem by none"]
    reasons: Annotated[tuple[Reason, ...], "why it has none; the nearest miss's"]
    layer: Annotated[Layer | None, "of --model"] = None


@dataclass(frozen=True, kw_only=True)
class Choices:
    """explain --json of a sweep with several backends, or of a model: one row for each problem and backend, as ``bench`` would run
    them."""

    schema: Literal["fmha.choices/1"] = "fmha.choices/1"
    rows: tuple[ChoiceRow, ...]


_COLUMNS = (
    Column("#", number=True, called="row", rank=1),
    *LAYER_COLUMNS,
    Column("problem", common=spelled, words=True, fit=Fit.FOLD, least=20),
    Column("backend", path="backend"),
    Column("digest", path="kernel.digest", rank=2),
    Column("kernel, or the first reason", fit=Fit.FOLD, least=30),
)


def choices_view(document: Mapping[str, Any], color: bool = False) -> Table:
    """One line for each row, with the first of its reasons."""
    rows: list[Sequence[str]] = []
    for number, row in enumerate(document["rows"], 1):
        kernel = row["kernel"]
        said = reason_text(row["reasons"][0]) if kernel is None else kernel["name"]
        digest = "" if kernel is None else kernel["digest"][:SHORT]
        layer = row.get("layer")
        cells = layer_cells(layer["model"], layer["phase"], layer["kind"], layer["weight"]) if layer else NO_LAYER
        rows.append([str(number), *cells, problem_text(row["problem"]), row["backend"], digest, said])
    served = sum(row["kernel"] is not None for row in document["rows"])
    return Table(_COLUMNS, rows, f"{counted(len(rows), 'row')}: {served} supported, {len(rows) - served} refused", [])


DOCUMENTS = (Document(Choices, choices_view, rows="rows", columns=_COLUMNS, colored=True),)

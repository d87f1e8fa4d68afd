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
from fmha_cli.report.layers import LAYER_COLUMNS
from fmha_cli.report.lines import SHORT, counted, labels, problem_text, ranges, reason_text, spelled
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
    Column("kernel, or the first reason", fit=Fit.END, least=24),
)
_WHOLE = (*_COLUMNS[:-1], Column("kernel, or the first reason", fit=Fit.FOLD, least=30))


def choices_view(document: Choices, *, whole: bool = False) -> Table:
    """One line for each row: what sets its kernel apart from the others of its backend, or the rule that refuses first. Below, each
    first reason in full, with the rows that have it.

    Args:
        whole: the names and reasons in full, in as many lines as they take.
    """
    rows: list[Sequence[str]] = []
    label = _labels(document.rows)
    why: dict[str, list[int]] = {}
    for number, row in enumerate(document.rows, 1):
        if row.kernel is not None:
            said = row.kernel.name if whole else label[row.kernel.name]
        else:
            first = row.reasons[0]
            said = reason_text(first) if whole else f"{first.id} {first.text}"
            why.setdefault(f"{row.backend}: {reason_text(first)}", []).append(number)
        digest = "" if row.kernel is None else row.kernel.digest[:SHORT]
        rows.append(
            [
                str(number),
                *(column.text(row) for column in LAYER_COLUMNS),
                problem_text(row.problem),
                row.backend,
                digest,
                said,
            ]
        )
    served = sum(row.kernel is not None for row in document.rows)
    summary = f"{counted(len(rows), 'row')}: {served} supported, {len(rows) - served} refused"
    details = [] if whole else [f"{ranges(numbers)}: {text}" for text, numbers in why.items()]
    return Table(_WHOLE if whole else _COLUMNS, rows, summary, details)


def _labels(rows: Sequence[ChoiceRow]) -> dict[str, str]:
    """What sets each kernel apart from the others of its backend, what is short first; the element types are the problem's."""
    by_backend: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.kernel is not None:
            by_backend.setdefault(row.backend, {})[row.kernel.name] = None
    found = {name: text for names in by_backend.values() for name, text in labels(list(names)).items()}
    return {name: _without_types(text) for name, text in found.items()}


def _without_types(label: str) -> str:
    family, *parts = label.split(" ")
    return " ".join([family, *sorted((part for part in parts if not part.startswith("dtype")), key=len)])


DOCUMENTS = (Document(Choices, choices_view, rows="rows", columns=_COLUMNS),)

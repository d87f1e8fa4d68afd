"""``fmha.differences/1``: two inspected kernels side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.members import Least, ShownAs
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.documents.inspect import figure_text
from fmha_cli.report.documents.inspections import figures_of
from fmha_cli.report.parts import KernelRow
from fmha_cli.report.table import Table

_MARK = "*"


@dataclass(frozen=True, kw_only=True)
class KernelSide:
    """One of the two kernels."""

    arch: str
    backend: str
    compiler: str | None
    kernel: Annotated[Mapping[str, Any], ShownAs(KernelRow)]
    why: Annotated[str | None, "why instructions were not counted"]

    @staticmethod
    def of(inspection: Mapping[str, Any]) -> KernelSide:
        """The side that a ``fmha.inspect/1`` document describes."""
        return KernelSide(
            arch=inspection["arch"],
            backend=inspection["backend"],
            compiler=figures_of(inspection)["compiler"],
            kernel=inspection["kernel"],
            why=inspection["details"].get("why"),
        )


@dataclass(frozen=True, kw_only=True)
class PropertyDifference:
    """One property of the two kernels."""

    kind: Annotated[
        Literal["kernel", "figure", "instruction"], "a field of the kernel, a figure, a mnemonic with its count"
    ]
    name: str
    left: Annotated[Any, "null where this side does not know"]
    right: Annotated[Any, "null where this side does not know"]
    differs: bool


@dataclass(frozen=True, kw_only=True)
class Differences:
    """inspect --diff --json: two kernels, or one kernel of two compilers, side by side."""

    schema: Literal["fmha.differences/1"] = "fmha.differences/1"
    left: KernelSide
    right: KernelSide
    differing: Annotated[int, Least(0), "rows that differ"]
    rows: tuple[PropertyDifference, ...]


def differences_document(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """The document of two ``fmha.inspect/1`` documents: fields and figures side by side, then each mnemonic.

    It leaves out fields in which the kernels are equal, and figures that both lack.
    """
    rows = (
        *_compared("kernel", _fields(left), _fields(right), only_differing=True),
        *_compared("figure", figures_of(left), figures_of(right)),
        *_compared("instruction", left["instructions"] or {}, right["instructions"] or {}, absent=0),
    )
    differing = sum(row.differs for row in rows)
    return to_json(Differences(left=KernelSide.of(left), right=KernelSide.of(right), differing=differing, rows=rows))


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    kernel = document["kernel"]
    parts = {"arch": document["arch"], "family": kernel["family"]}
    return {**parts, **kernel["signature"], **kernel["algorithm"]}


def _compared(
    kind: Literal["kernel", "figure", "instruction"],
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    *,
    absent: Any = None,
    only_differing: bool = False,
) -> Iterator[PropertyDifference]:
    for name in dict.fromkeys((*left, *right)):
        one, other = left.get(name, absent), right.get(name, absent)
        if (one is None and other is None) or (only_differing and one == other):
            continue
        differs = one != other and not (kind == "figure" and name in _OF_THE_BUILD)
        yield PropertyDifference(kind=kind, name=name, left=one, right=other, differs=differs)


_OF_THE_BUILD = ("build_ns", "compile_peak_bytes")
"""Figures of a build, which change from one build of a kernel to the next: shown, and no difference of kernels."""


def differences_view(document: Mapping[str, Any]) -> Table:
    """Fields, figures and instructions side by side. A mark shows each difference, with the change next to it."""
    rows = []
    for row in document["rows"]:
        if row["kind"] == "instruction" and not row["differs"]:
            continue
        name = row["name"] if row["kind"] == "instruction" else row["name"].replace("_", " ")
        left, right = row["left"], row["right"]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left, right))
        change = f"{right - left:+.6g}" if numbers and row["differs"] else ""
        mark = _MARK if row["differs"] else ""
        rows.append([mark, row["kind"], name, figure_text(row["name"], left), figure_text(row["name"], right), change])
    sides = [document["left"], document["right"]]
    details = [
        f"{side}: {found['kernel']['name']}" + (f", {found['compiler']}" if found["compiler"] else "")
        for side, found in zip(("left", "right"), sides, strict=True)
    ]
    details += [f"{found['arch']}: no instruction counts: {found['why']}" for found in sides if found["why"]]
    same = sum(1 for row in document["rows"] if row["kind"] == "instruction" and not row["differs"])
    summary = f"{document['differing']} of {len(document['rows'])} differ"
    summary += f"; {same} mnemonics with equal counts are not shown" if same else ""
    return Table(_COLUMNS, rows, summary, details)


_COLUMNS = (
    Column("differs", path="differs"),
    Column("what", path="kind", rank=2),
    Column("name", path="name", fit=Fit.MIDDLE, least=24),
    Column("left", path="left", number=True, fit=Fit.MIDDLE, least=12),
    Column("right", path="right", number=True, fit=Fit.MIDDLE, least=12),
    Column("change", number=True, rank=1),
)
DOCUMENTS = (Document(Differences, differences_view, rows="rows", columns=_COLUMNS, definitions={"side": KernelSide}),)

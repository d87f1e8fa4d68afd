"""``fmha.differences/1``: two inspected kernels side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.members import Least
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.documents.inspect import Inspection, figure_text
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
    kernel: KernelRow
    why: Annotated[str | None, "why instructions were not counted"]

    @staticmethod
    def of(inspection: Inspection) -> KernelSide:
        """The side of an inspected kernel."""
        return taken_from(inspection, KernelSide, compiler=figures_of(inspection).compiler)


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


def differences_document(left: Inspection, right: Inspection) -> Differences:
    """The document of two inspected kernels: fields and figures side by side, then each mnemonic.

    It leaves out fields in which the kernels are equal, and figures that both lack.
    """
    rows = (
        *_compared("kernel", _fields(left), _fields(right), only_differing=True),
        *_compared("figure", vars(figures_of(left)), vars(figures_of(right))),
        *_compared("instruction", left.instructions or {}, right.instructions or {}, absent=0),
    )
    differing = sum(row.differs for row in rows)
    return Differences(left=KernelSide.of(left), right=KernelSide.of(right), differing=differing, rows=rows)


def _fields(inspection: Inspection) -> dict[str, Any]:
    kernel = inspection.kernel
    return {"arch": inspection.arch, "family": kernel.family.value, **kernel.signature, **kernel.algorithm}


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


def differences_view(document: Differences) -> Table:
    """Fields, figures and instructions side by side. A mark shows each difference, with the change next to it."""
    rows = []
    shown = [row for row in document.rows if row.kind != "instruction" or row.differs]
    for row in shown:
        name = row.name if row.kind == "instruction" else row.name.replace("_", " ")
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (row.left, row.right))
        change = f"{row.right - row.left:+.6g}" if numbers and row.differs else ""
        texts = (figure_text(row.name, value) for value in (row.left, row.right))
        rows.append([_MARK if row.differs else "", row.kind, name, *texts, change])
    sides = {"left": document.left, "right": document.right}
    details = [
        f"{name}: {side.kernel.name}" + (f", {side.compiler}" if side.compiler else "") for name, side in sides.items()
    ]
    details += [f"{side.arch}: no instruction counts: {side.why}" for side in sides.values() if side.why]
    summary, same = f"{document.differing} of {len(document.rows)} differ", len(document.rows) - len(shown)
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

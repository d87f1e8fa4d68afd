"""``fmha.inspect/1``: what a built kernel needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.quantities import duration, size
from fmha_cli.domain.wording import edited_text
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.finite import nulled
from fmha_cli.report.lines import cell
from fmha_cli.report.parts import ArtifactRow, KernelRow
from fmha_cli.report.table import Table

ByKind = Mapping[str, Count]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """inspect --json: what a built kernel needs. A figure that the backend does not know is null."""

    schema: Literal["fmha.inspect/1"] = "fmha.inspect/1"
    kernel: KernelRow
    backend: str
    arch: str
    artifact: ArtifactRow | None
    registers: Annotated[ByKind | int | None, "by kind (vgpr, sgpr ...), or one number"] = None
    spills: Annotated[
        ByKind | int | None,
        "spilled registers by kind, or a number of spill instructions; as the compiler counts them",
    ] = None
    lds_bytes: Count | None = None
    shared_bytes: Count | None = None
    occupancy: Annotated[float | None, "waves (warps) that fit on one SIMD (scheduler) at once"] = None
    vector_bits: Count | None = None
    instructions: Annotated[ByKind | None, "mnemonic -> count"] = None
    matrix_instructions: Count | None = None
    innermost_loops: Annotated[Count | None, "loops in the machine code that hold no other"] = None
    multiplying_loops: Annotated[
        Count | None, "those of them that multiply vectors: over keys or the head dim, in products or the softmax"
    ] = None
    loop_stack_moves: Annotated[
        Count | None, "instructions in multiplying_loops that move a vector to the stack or read one from there"
    ] = None
    extern_calls: Annotated[
        tuple[str, ...] | None,
        "functions that the code calls and the file does not hold, such as __assertfail; empty for none",
    ] = None
    details: Annotated[Mapping[str, Any], "whatever else the backend says"]

    @property
    def why(self) -> str | None:
        """Why instructions were not counted."""
        return self.details.get("why")


_INSPECTED = tuple(field.name for field in fields(Inspection) if field.default is None)
"""Figures that have the same name in every backend that knows them. A backend's other figures are in ``details``."""


def inspect_document(
    kernel: KernelSpec, findings: Mapping[str, Any], artifact: Artifact | None, upstream_name: str | None = None
) -> Inspection:
    """The document of the result of ``Backend.inspect``; edited sources are named in its details."""
    if artifact is not None and artifact.edited is not None:
        findings = {**findings, "source": edited_text(artifact.edited)}
    figures: dict[str, Any] = {name: findings.get(name) for name in _INSPECTED}
    details, _ = nulled({k: v for k, v in sorted(findings.items()) if k not in _INSPECTED})
    return Inspection(
        kernel=KernelRow.of(kernel, upstream_name),
        backend=kernel.backend,
        arch=kernel.arch,
        artifact=None if artifact is None else ArtifactRow.of(artifact),
        details=details,
        **figures,
    )


_MOST_INSTRUCTIONS = 20
_FIGURES = tuple(name for name in _INSPECTED if name != "instructions")
_LATER = ("why", "kernels")


def inspect_view(document: Inspection) -> Table:
    """One line for each figure, the most frequent instructions, and each GPU kernel of a library that holds several."""
    details = document.details
    figures = {name: getattr(document, name) for name in _FIGURES}
    figures |= {key: value for key, value in details.items() if key not in _LATER}
    rows = [
        ["compile memory" if key == "compile_peak_bytes" else key.replace("_", " "), figure_text(key, value)]
        for key, value in figures.items()
        if value is not None
    ]
    if document.artifact is not None:
        rows.append(["build time", duration(document.artifact.build_ns)])
    counts = sorted((document.instructions or {}).items(), key=lambda item: (-item[1], item[0]))
    rows += [[f"instruction {mnemonic}", str(count)] for mnemonic, count in counts[:_MOST_INSTRUCTIONS]]
    if len(counts) > _MOST_INSTRUCTIONS:
        rest = sum(count for _, count in counts[_MOST_INSTRUCTIONS:])
        rows.append([f"{len(counts) - _MOST_INSTRUCTIONS} other instructions", str(rest)])
    several = details.get("kernels") or []
    lines = [f"GPU kernel {i} of {len(several)}: {cell(_short(k))}" for i, k in enumerate(several, 1)]
    lines = lines if len(several) > 1 else []
    lines += [f"no instruction counts: {document.why}"] if document.why else []
    columns = (Column("what"), Column("value", fit=Fit.FOLD))
    return Table(columns, rows, document.kernel.name, lines)


def _short(kernel: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kernel.items() if key != "symbol" and value is not None}


def figure_text(name: str, value: Any) -> str:
    """A figure as a cell, formatted according to the figure's name."""
    if value is None:
        return ""
    if name.endswith("_ns"):
        return duration(value)
    if name == "compile_peak_bytes":
        return size(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else cell(value)


DOCUMENTS = (Document(Inspection, inspect_view),)

"""``fmha.inspections/1``: the figures of many built kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import extras, members_of
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count, Least
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.documents.inspect import Inspection, figure_text
from fmha_cli.report.lines import SHORT, counted
from fmha_cli.report.ordering import at
from fmha_cli.report.parts import ErrorRow, KernelRow
from fmha_cli.report.table import Table


def _spills(found: Inspection) -> Any:
    return found.spills.get("vgpr", found.spills.get("gpr")) if isinstance(found.spills, Mapping) else found.spills


def _total(found: Inspection) -> Any:
    counted = at(found, ("details", "instruction_classes", "total"))
    return sum(found.instructions.values()) if counted is None and found.instructions is not None else counted


def _limiters(found: Inspection) -> Any:
    limiters = at(found, ("details", "occupancy_limits", "limited_by"))
    return None if limiters is None else " ".join(limiters)


@dataclass(frozen=True)
class In:
    """The place of a figure: members of ``Inspection`` that lead to it; None if one is missing."""

    path: str

    def __call__(self, found: Inspection) -> Any:
        return at(found, self.path.split("."))


_CLASSES = "details.instruction_classes"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The flat figures of a kernel, in display order. A figure that the backend does not know is None."""

    vgpr: Annotated[
        int | None, "vector registers of a work-item, AGPRs included where the file is unified", In("registers.vgpr")
    ]
    agpr: Annotated[int | None, In("registers.agpr")]
    sgpr: Annotated[int | None, In("registers.sgpr")]
    gpr: Annotated[int | None, "registers of a thread", In("registers.gpr")]
    spills: Annotated[
        int | None,
        "spilled vector registers (NVIDIA: registers that spill stores write; CPU: spill instructions, estimated)",
        _spills,
    ]
    sgpr_spills: Annotated[int | None, In("spills.sgpr")]
    lds_bytes: Annotated[int | None, In("lds_bytes")]
    shared_bytes: Annotated[int | None, In("shared_bytes")]
    scratch_bytes: Annotated[int | None, In("details.scratch_bytes")]
    kernarg_bytes: Annotated[int | None, In("details.kernarg_bytes")]
    work_group: Annotated[int | None, "most work-items of a work-group; threads of a block", In("details.work_group")]
    occupancy: Annotated[float | None, "waves (warps) that fit on one SIMD (scheduler) at once", In("occupancy")]
    limited_by: Annotated[str | None, "what keeps the next work-group out", _limiters]
    vector_bits: Annotated[int | None, In("vector_bits")]
    instruction_count: Annotated[int | None, _total]
    matrix_instructions: Annotated[int | None, In("matrix_instructions")]
    loop_stack_moves: Annotated[
        int | None, "vector moves to the stack and from it in innermost loops that multiply", In("loop_stack_moves")
    ]
    lds_instructions: Annotated[int | None, In(f"{_CLASSES}.lds")]
    shared_instructions: Annotated[int | None, In(f"{_CLASSES}.shared")]
    global_instructions: Annotated[int | None, In(f"{_CLASSES}.global")]
    scratch_instructions: Annotated[int | None, In(f"{_CLASSES}.scratch")]
    local_instructions: Annotated[int | None, In(f"{_CLASSES}.local")]
    transcendental_instructions: Annotated[int | None, In(f"{_CLASSES}.transcendental")]
    tensor_memory_instructions: Annotated[int | None, In(f"{_CLASSES}.tensor_memory")]
    barrier_instructions: Annotated[int | None, In(f"{_CLASSES}.barrier")]
    instructions_per_mflop: Annotated[
        float | None,
        "instructions over the million FLOP that one block does if each product of the code runs once",
        In("details.instructions_per_mflop"),
    ]
    code_bytes: Annotated[int | None, In("details.code_bytes")]
    build_ns: Annotated[int | None, "what building took (then, if cached)", In("artifact.build_ns")]
    compile_peak_bytes: Annotated[int | None, In("details.compile_peak_bytes")]
    compiler: Annotated[str | None, In("details.compiler")]


@dataclass(frozen=True, kw_only=True)
class InspectedKernel:
    """One kernel of ``inspect --all``: its figures, or why there are none."""

    arch: str
    backend: str
    kernel: KernelRow
    figures: Figures
    why: Annotated[str | None, "why instructions were not counted"]
    error: ErrorRow | None


@dataclass(frozen=True, kw_only=True)
class Inspections:
    """inspect --all --json: the figures of many built kernels. A figure that the backend does not know is null."""

    schema: Literal["fmha.inspections/1"] = "fmha.inspections/1"
    count: Count
    failed: Annotated[int, Least(0), "kernels that could not be built or read"]
    kernels: tuple[InspectedKernel, ...]


@cache
def _finders() -> dict[str, Callable[[Inspection], Any]]:
    return {m.name: next(note for note in extras(m.hint) if callable(note)) for m in members_of(Figures)}


def figures_of(inspection: Inspection | None) -> Figures:
    """Every flat figure of a kernel; None stands for one without any."""
    return Figures(**{name: None if inspection is None else find(inspection) for name, find in _finders().items()})


def inspection_row(kernel: KernelSpec, upstream_name: str | None, outcome: Inspection | FmhaError) -> InspectedKernel:
    """One kernel of ``inspect --all``."""
    found = None if isinstance(outcome, FmhaError) else outcome
    return InspectedKernel(
        arch=kernel.arch,
        backend=kernel.backend,
        kernel=KernelRow.of(kernel, upstream_name),
        figures=figures_of(found),
        why=None if found is None else found.why,
        error=ErrorRow.of(outcome) if isinstance(outcome, FmhaError) else None,
    )


def inspections_document(rows: Sequence[InspectedKernel]) -> Inspections:
    """The document of the requested kernels, built or not."""
    return Inspections(count=len(rows), failed=sum(row.error is not None for row in rows), kernels=tuple(rows))


def inspections_view(document: Inspections) -> Table:
    """One line for each kernel, without the columns that no kernel fills; errors below."""
    rows, details = [], []
    compilers = {name for row in document.kernels if (name := row.figures.compiler) is not None}
    names = [field.name for field in fields(Figures)] if document.kernels else []
    shown = [name for name in names if name != "compiler" or len(compilers) > 1]
    for row in document.kernels:
        kernel, digest = row.kernel, row.kernel.digest[:SHORT]
        figures = [figure_text(name, getattr(row.figures, name)) for name in shown]
        named = kernel.upstream_name or kernel.name.split(":", 3)[3]
        rows.append([digest, kernel.family, row.arch, *figures, named])
        if row.error:
            details.append(f"  {digest}: error[{row.error.code}]: {row.error.what}")
        elif row.why:
            details.append(f"  {digest}: no instruction counts: {row.why}")
    summary = counted(document.count, "kernel")
    summary += f", {document.failed} not built" if document.failed else ""
    summary += f"; compiler: {', '.join(sorted(compilers))}" if len(compilers) == 1 else ""
    return Table(_columns(shown), rows, summary, details)


_FIRST = ("vgpr", "gpr", "spills", "lds_bytes", "shared_bytes", "occupancy", "instruction_count", "matrix_instructions")
"""The figures that stay longest where the terminal is narrow."""


def _columns(figures: Sequence[str]) -> list[Column]:
    columns = [
        Column("digest", path="kernel.digest"),
        Column("family", path="kernel.family", common="{}".format, rank=1),
        Column("arch", path="arch", common="{}".format, rank=1),
    ]
    for name in figures:
        rank = 2 + _FIRST.index(name) if name in _FIRST else 20
        text = name in ("limited_by", "compiler")
        columns.append(Column(_header(name), path=f"figures.{name}", number=not text, rank=rank, called=name))
    return [*columns, Column("kernel", path="kernel.upstream_name", fit=Fit.MIDDLE, least=20, rank=12)]


def _header(name: str) -> str:
    return (
        name.replace("_instructions", "").replace("instruction_count", "instr.").removesuffix("_ns").replace("_", " ")
    )


DOCUMENTS = (
    Document(
        Inspections,
        inspections_view,
        rows="kernels",
        columns=tuple(_columns([field.name for field in fields(Figures)])),
    ),
)

"""``fmha.inspections/1``: the figures of many built kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import extras, members_of, to_json
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count, Least, ShownAs
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.documents.inspect import figure_text
from fmha_cli.report.lines import SHORT, counted
from fmha_cli.report.parts import ErrorRow, KernelRow
from fmha_cli.report.table import Table


def at(*path: str) -> Callable[[Mapping[str, Any]], Any]:
    """A function that finds a member of ``fmha.inspect/1``; it returns None if the member is missing."""

    def find(document: Mapping[str, Any]) -> Any:
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return find


def _spills(document: Mapping[str, Any]) -> Any:
    found = document["spills"]
    return found.get("vgpr", found.get("gpr")) if isinstance(found, Mapping) else found


def _total(document: Mapping[str, Any]) -> Any:
    counted = at("details", "instruction_classes", "total")(document)
    if counted is not None or document["instructions"] is None:
        return counted
    return sum(document["instructions"].values())


def _limiters(document: Mapping[str, Any]) -> Any:
    found = at("details", "occupancy_limits", "limited_by")(document)
    return None if found is None else " ".join(found)


@dataclass(frozen=True)
class Figures:
    """The flat figures of a kernel, in display order."""

    vgpr: Annotated[
        int | None, "vector registers of a work-item, AGPRs included where the file is unified", at("registers", "vgpr")
    ]
    agpr: Annotated[int | None, at("registers", "agpr")]
    sgpr: Annotated[int | None, at("registers", "sgpr")]
    gpr: Annotated[int | None, "registers of a thread", at("registers", "gpr")]
    spills: Annotated[
        int | None,
        "spilled vector registers (NVIDIA: registers that spill stores write; CPU: spill instructions, estimated)",
        _spills,
    ]
    sgpr_spills: Annotated[int | None, at("spills", "sgpr")]
    lds_bytes: Annotated[int | None, at("lds_bytes")]
    shared_bytes: Annotated[int | None, at("shared_bytes")]
    scratch_bytes: Annotated[int | None, at("details", "scratch_bytes")]
    kernarg_bytes: Annotated[int | None, at("details", "kernarg_bytes")]
    work_group: Annotated[
        int | None, "most work-items of a work-group; threads of a block", at("details", "work_group")
    ]
    occupancy: Annotated[float | None, "waves (warps) that fit on one SIMD (scheduler) at once", at("occupancy")]
    limited_by: Annotated[str | None, "what keeps the next work-group out", _limiters]
    vector_bits: Annotated[int | None, at("vector_bits")]
    instruction_count: Annotated[int | None, _total]
    matrix_instructions: Annotated[int | None, at("matrix_instructions")]
    loop_stack_moves: Annotated[
        int | None, "vector moves to the stack and from it in innermost loops that multiply", at("loop_stack_moves")
    ]
    lds_instructions: Annotated[int | None, at("details", "instruction_classes", "lds")]
    shared_instructions: Annotated[int | None, at("details", "instruction_classes", "shared")]
    global_instructions: Annotated[int | None, at("details", "instruction_classes", "global")]
    scratch_instructions: Annotated[int | None, at("details", "instruction_classes", "scratch")]
    local_instructions: Annotated[int | None, at("details", "instruction_classes", "local")]
    transcendental_instructions: Annotated[int | None, at("details", "instruction_classes", "transcendental")]
    tensor_memory_instructions: Annotated[int | None, at("details", "instruction_classes", "tensor_memory")]
    barrier_instructions: Annotated[int | None, at("details", "instruction_classes", "barrier")]
    instructions_per_mflop: Annotated[
        float | None,
        "instructions over the million FLOP that one block does if each product of the code runs once",
        at("details", "instructions_per_mflop"),
    ]
    code_bytes: Annotated[int | None, at("details", "code_bytes")]
    build_ns: Annotated[int | None, "what building took (then, if cached)", at("artifact", "build_ns")]
    compile_peak_bytes: Annotated[int | None, at("details", "compile_peak_bytes")]
    compiler: Annotated[str | None, at("details", "compiler")]


@dataclass(frozen=True, kw_only=True)
class InspectedKernel:
    """One kernel of ``inspect --all``: its figures, or why there are none."""

    arch: str
    backend: str
    kernel: KernelRow
    figures: Annotated[Mapping[str, Any], ShownAs(Figures)]
    why: Annotated[str | None, "why instructions were not counted"]
    error: ErrorRow | None


@dataclass(frozen=True, kw_only=True)
class Inspections:
    """inspect --all --json: the figures of many built kernels. A figure that the backend does not know is null."""

    schema: Literal["fmha.inspections/1"] = "fmha.inspections/1"
    count: Count
    failed: Annotated[int, Least(0), "kernels that could not be built or read"]
    kernels: Annotated[tuple[Mapping[str, Any], ...], ShownAs(tuple[InspectedKernel, ...])]


@cache
def _finders() -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    return {m.name: next(note for note in extras(m.hint) if callable(note)) for m in members_of(Figures)}


def figures_of(inspection: Mapping[str, Any]) -> dict[str, Any]:
    """Every flat figure of a ``fmha.inspect/1``; None for a figure that the backend does not know."""
    return {name: find(inspection) for name, find in _finders().items()}


def inspection_row(
    kernel: KernelSpec, upstream_name: str | None, outcome: Mapping[str, Any] | FmhaError
) -> dict[str, Any]:
    """One kernel of ``inspect --all``."""
    error = outcome if isinstance(outcome, FmhaError) else None
    found = {} if isinstance(outcome, FmhaError) else outcome
    return to_json(
        InspectedKernel(
            arch=kernel.arch,
            backend=kernel.backend,
            kernel=KernelRow.of(kernel, upstream_name),
            figures=figures_of(found) if found else dict.fromkeys(_finders()),
            why=found["details"].get("why") if found else None,
            error=None if error is None else ErrorRow.of(error),
        )
    )


def inspections_document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document of the requested kernels, built or not."""
    failed = sum(1 for row in rows if row["error"] is not None)
    return to_json(Inspections(count=len(rows), failed=failed, kernels=tuple(rows)))


def inspections_view(document: Mapping[str, Any]) -> Table:
    """One line for each kernel, without the columns that no kernel fills; errors below."""
    rows, details = [], []
    names = list(document["kernels"][0]["figures"]) if document["kernels"] else []
    compilers = {row["figures"]["compiler"] for row in document["kernels"]} - {None}
    shown = [name for name in names if name != "compiler" or len(compilers) > 1]
    for row in document["kernels"]:
        kernel, error = row["kernel"], row["error"]
        named = kernel["upstream_name"] or kernel["name"].split(":", 3)[3]
        figures = [figure_text(name, row["figures"][name]) for name in shown]
        rows.append([kernel["digest"][:SHORT], kernel["family"], row["arch"], *figures, named])
        if error:
            details.append(f"  {kernel['digest'][:SHORT]}: error[{error['code']}]: {error['what']}")
        elif row["why"]:
            details.append(f"  {kernel['digest'][:SHORT]}: no instruction counts: {row['why']}")
    summary = counted(document["count"], "kernel")
    summary += f", {document['failed']} not built" if document["failed"] else ""
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

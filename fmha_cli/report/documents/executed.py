"""``fmha.executed/1``: what the kernels of one problem execute on an emulated device, compared with what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, Literal

from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.members import Least, Pattern, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import digits, size
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import problem_text
from fmha_cli.report.parts import KernelRow
from fmha_cli.report.record import Record
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What the problem needs by its definition."""

    flops: Annotated[int, Least(0), "of visible pairs"]
    dense_flops: Annotated[int, Least(0), "of all pairs"]
    bytes: Annotated[int, Least(0), "every tensor once"]


@dataclass(frozen=True, kw_only=True)
class ExecutedKernels:
    """inspect --executed --json: what the kernels of one problem executed on an emulated device."""

    schema: Literal["fmha.executed/1"] = "fmha.executed/1"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    device: Annotated[str | None, ShownAs(Annotated[str, Pattern("^emu:")])]
    verdict: Annotated[Verdict, ShownAs(str)]
    repro: Annotated[str, "command line that gives the row of this run"]
    kernel: Annotated[KernelRow | None, "the main stage's"]
    kernels: Annotated[tuple[Executed, ...], "one for each GPU kernel, in the order of their launches"]
    total: Annotated[Executed, "the sums over kernels, named all"]
    needed: Needed
    matrix_share: Annotated[float | None, "matrix FLOP / FLOP of visible pairs"]
    findings: tuple[Finding, ...]


def executed_document(problem: Problem, record: Record) -> ExecutedKernels:
    """The document of an executed record."""
    kernels = record.executed or ()
    total = reduce(Executed.plus, kernels)
    flops = problem.flops()
    return ExecutedKernels(
        problem=problem.to_dict(),
        device=record.device,
        verdict=record.verdict,
        repro=record.repro,
        kernel=record.kernel,
        kernels=kernels,
        total=replace(total, kernel="all"),
        needed=Needed(flops=flops, dense_flops=problem.flops(dense=True), bytes=problem.bytes()),
        matrix_share=total.matrix_flops / flops if flops else None,
        findings=record.findings or (),
    )


_SHORT = 40
_SECTOR = 32
_BYTES = {
    "global_read_bytes": "global memory read",
    "global_written_bytes": "global memory written",
    "scalar_read_bytes": "read by scalar loads",
    "scratch_read_bytes": "scratch read",
    "scratch_written_bytes": "scratch written",
    "lds_read_bytes": "LDS read",
    "lds_written_bytes": "LDS written",
}
_COUNTS = {
    "lds_accesses": "LDS accesses",
    "lds_conflict_cycles": "LDS cycles lost to bank conflicts",
    "buffer_out_of_range": "lanes beyond a buffer's end",
    "barriers": "barrier arrivals",
}


def executed_view(document: ExecutedKernels) -> Table:
    """One line for each count, with a column for each GPU kernel and one for their sum; findings below."""
    kernels, total, needed = document.kernels, document.total, document.needed
    counts = [*kernels, total] if len(kernels) > 1 else [total]
    heads = [f"kernel {i}" for i in range(1, len(counts))]
    heads.append("all" if heads else "count")

    def last(text: str, value: str) -> list[str]:
        return [text, *[""] * (len(counts) - 1), value]

    names = sorted(total.classes, key=lambda name: (-total.classes[name], name))
    rows = [["wave instructions", *(str(c.instructions) for c in counts)]]
    rows += [[f"  {name}", *(str(c.classes.get(name, 0)) for c in counts)] for name in names]
    rows += [["matrix FLOP", *(str(c.matrix_flops) for c in counts)]]
    rows += [last("FLOP needed, visible pairs", str(needed.flops))]
    rows += [last("FLOP needed, all pairs", str(needed.dense_flops))]
    rows += [last("matrix FLOP / needed", digits(document.matrix_share))]
    rows += [[text, *(size(getattr(c, name)) for c in counts)] for name, text in _BYTES.items()]
    rows += [last("memory needed, every tensor once", size(needed.bytes))]
    rows += [[text, *(str(getattr(c, name)) for c in counts)] for name, text in _COUNTS.items()]
    if total.global_sectors is not None:
        rows += [["global memory, sectors of 32 bytes", *(str(c.global_sectors) for c in counts)]]
        rows += [["  their bytes / bytes accessed", *(_moved(c) for c in counts)]]
    details = [f"  kernel {i}: {_short(c.kernel)}, launched {c.launches}x" for i, c in enumerate(kernels, 1)]
    details += [f"  {f.kind} at {f.address:#x}: {f.text}" for f in document.findings]
    summary = (
        f"{problem_text(document.problem)} on {document.device}: {document.verdict}; its times are not those of a GPU"
    )
    columns = [Column("what", fit=Fit.FOLD, least=32)]
    columns += [Column(head, number=True, rank=0 if head == heads[-1] else 1) for head in heads]
    return Table(columns, rows, summary, details)


def _moved(count: Executed) -> str:
    accessed = count.global_read_bytes + count.global_written_bytes
    return digits(_SECTOR * (count.global_sectors or 0) / accessed) if accessed else ""


def _short(symbol: str) -> str:
    return symbol if len(symbol) <= _SHORT else f"{symbol[:_SHORT]}... ({len(symbol)} characters)"


DOCUMENTS = (Document(ExecutedKernels, executed_view, rows="kernels"),)

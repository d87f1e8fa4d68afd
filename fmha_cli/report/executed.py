"""``fmha.executed/1``: what the kernels of one problem executed on an emulated device, beside what the problem needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmha_cli.emulation import Executed
from fmha_cli.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.report.records_view import problem_text
from fmha_cli.report.table import Table
from fmha_cli.report.units import digits, size

Document = Mapping[str, Any]

_SHORT = 40
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


def executed_document(problem: Problem, record: Record) -> dict[str, Any]:
    """The document of a record that was executed.

    ``total`` is the sum over ``kernels``; ``matrix_share`` its matrix FLOP over the FLOP that visible pairs need.
    """
    kernels = [Executed.from_dict(counts) for counts in record.executed or ()]
    total = kernels[0]
    for other in kernels[1:]:
        total = total.plus(other)
    flops = problem.flops()
    return {
        "device": record.device,
        "findings": [dict(finding) for finding in record.findings or ()],
        "kernel": None if record.kernel is None else record.kernel.to_dict(),
        "kernels": [counts.to_dict() for counts in kernels],
        "matrix_share": total.matrix_flops / flops if flops else None,
        "needed": {"bytes": problem.bytes(), "dense_flops": problem.flops(dense=True), "flops": flops},
        "problem": problem.to_dict(),
        "repro": record.repro,
        "schema": "fmha.executed/1",
        "total": {**total.to_dict(), "kernel": "all"},
        "verdict": record.verdict.value,
    }


def executed_view(document: Document) -> Table:
    """One line a count, a column for each GPU kernel and their sum; findings below."""
    kernels = document["kernels"]
    columns = [*kernels, document["total"]] if len(kernels) > 1 else [document["total"]]
    heads = [f"kernel {i}" for i in range(1, len(kernels) + 1)] if len(kernels) > 1 else []
    heads.append("all" if heads else "count")
    needed, share = document["needed"], document["matrix_share"]
    names = sorted(document["total"]["classes"], key=lambda name: -document["total"]["classes"][name])
    rows = [["wave instructions", *(str(c["instructions"]) for c in columns)]]
    rows += [[f"  {name}", *(str(c["classes"].get(name, 0)) for c in columns)] for name in names]
    rows += [["matrix FLOP", *(str(c["matrix_flops"]) for c in columns)]]
    rows += [_last(columns, "FLOP needed, visible pairs", str(needed["flops"]))]
    rows += [_last(columns, "FLOP needed, all pairs", str(needed["dense_flops"]))]
    rows += [_last(columns, "matrix FLOP / needed", "" if share is None else digits(share))]
    rows += [[text, *(size(c[key]) for c in columns)] for key, text in _BYTES.items()]
    rows += [_last(columns, "memory needed, every tensor once", size(needed["bytes"]))]
    rows += [[text, *(str(c[key]) for c in columns)] for key, text in _COUNTS.items()]
    details = [f"  kernel {i}: {_short(c['kernel'])}, launched {c['launches']}x" for i, c in enumerate(kernels, 1)]
    details += [f"  {f['kind']} at {f['address']:#x}: {f['text']}" for f in document["findings"]]
    summary = (
        f"{problem_text(document['problem'])} on {document['device']}: {document['verdict']}; no time is one of a GPU"
    )
    return Table(["what", *heads], rows, summary, details, frozenset(heads))


def _last(columns: list[Document], text: str, value: str) -> list[str]:
    return [text, *[""] * (len(columns) - 1), value]


def _short(symbol: str) -> str:
    return symbol if len(symbol) <= _SHORT else f"{symbol[:_SHORT]}... ({len(symbol)} characters)"


VIEWS = {"executed": executed_view}
"""Schema name -> view."""

"""The JSON documents about several inspected kernels: a table of figures, and two kernels side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fmha_cli.errors import FmhaError
from fmha_cli.kernel import KernelSpec
from fmha_cli.report.rows import KernelRow

Document = Mapping[str, Any]


def _at(*path: str) -> Callable[[Document], Any]:
    def find(document: Document) -> Any:
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return find


def _spills(document: Document) -> Any:
    found = document["spills"]
    return found.get("vgpr", found.get("gpr")) if isinstance(found, Mapping) else found


def _total(document: Document) -> Any:
    counted = _at("details", "instruction_classes", "total")(document)
    if counted is not None or document["instructions"] is None:
        return counted
    return sum(document["instructions"].values())


def _limiters(document: Document) -> Any:
    found = _at("details", "occupancy_limits", "limited_by")(document)
    return None if found is None else " ".join(found)


FIGURES: Mapping[str, Callable[[Document], Any]] = {
    "vgpr": _at("registers", "vgpr"),
    "agpr": _at("registers", "agpr"),
    "sgpr": _at("registers", "sgpr"),
    "gpr": _at("registers", "gpr"),
    "spills": _spills,
    "sgpr_spills": _at("spills", "sgpr"),
    "lds_bytes": _at("lds_bytes"),
    "shared_bytes": _at("shared_bytes"),
    "scratch_bytes": _at("details", "scratch_bytes"),
    "kernarg_bytes": _at("details", "kernarg_bytes"),
    "work_group": _at("details", "work_group"),
    "occupancy": _at("occupancy"),
    "limited_by": _limiters,
    "vector_bits": _at("vector_bits"),
    "instruction_count": _total,
    "matrix_instructions": _at("matrix_instructions"),
    "lds_instructions": _at("details", "instruction_classes", "lds"),
    "shared_instructions": _at("details", "instruction_classes", "shared"),
    "global_instructions": _at("details", "instruction_classes", "global"),
    "scratch_instructions": _at("details", "instruction_classes", "scratch"),
    "local_instructions": _at("details", "instruction_classes", "local"),
    "transcendental_instructions": _at("details", "instruction_classes", "transcendental"),
    "code_bytes": _at("details", "code_bytes"),
    "build_ns": _at("artifact", "build_ns"),
    "compile_peak_bytes": _at("details", "compile_peak_bytes"),
    "compiler": _at("details", "compiler"),
}
"""Name -> where ``fmha.inspect/1`` has it: the flat figures of a kernel, in the order in which they are shown."""


def figures_of(inspection: Document) -> dict[str, Any]:
    """Every flat figure; None for what the backend does not know."""
    return {name: find(inspection) for name, find in FIGURES.items()}


def inspection_row(kernel: KernelSpec, upstream_name: str | None, outcome: Document | FmhaError) -> dict[str, Any]:
    """One kernel of ``inspect --all``: its figures, or why there are none."""
    error = outcome if isinstance(outcome, FmhaError) else None
    known = dict.fromkeys(FIGURES) if isinstance(outcome, FmhaError) else figures_of(outcome)
    return {
        "arch": kernel.arch,
        "backend": kernel.backend,
        "error": None if error is None else error.to_dict(),
        "figures": known,
        "kernel": KernelRow.of(kernel, upstream_name).to_dict(),
        "why": None if isinstance(outcome, FmhaError) else outcome["details"].get("why"),
    }


def inspections_document(rows: Sequence[Document]) -> dict[str, Any]:
    """``fmha.inspections/1``: the kernels that were asked for, built or not."""
    failed = sum(1 for row in rows if row["error"] is not None)
    return {
        "count": len(rows),
        "failed": failed,
        "kernels": [dict(row) for row in rows],
        "schema": "fmha.inspections/1",
    }


def differences_document(left: Document, right: Document) -> dict[str, Any]:
    """``fmha.differences/1`` of two ``fmha.inspect/1``: their fields and figures side by side, then each mnemonic.

    Fields of the kernels and figures that neither has are left out.
    """
    rows = [
        *_compared("kernel", _fields(left), _fields(right), only_differing=True),
        *_compared("figure", figures_of(left), figures_of(right)),
        *_compared("instruction", left["instructions"] or {}, right["instructions"] or {}, absent=0),
    ]
    return {
        "differing": sum(1 for row in rows if row["differs"]),
        "left": _side(left),
        "right": _side(right),
        "rows": rows,
        "schema": "fmha.differences/1",
    }


def _fields(document: Document) -> dict[str, Any]:
    kernel = document["kernel"]
    parts = {"arch": document["arch"], "family": kernel["family"]}
    return {**parts, **kernel["signature"], **kernel["algorithm"]}


def _side(document: Document) -> dict[str, Any]:
    return {
        "arch": document["arch"],
        "backend": document["backend"],
        "compiler": figures_of(document)["compiler"],
        "kernel": document["kernel"],
        "why": document["details"].get("why"),
    }


def _compared(
    kind: str, left: Document, right: Document, *, absent: Any = None, only_differing: bool = False
) -> Iterable[dict[str, Any]]:
    for name in dict.fromkeys((*left, *right)):
        one, other = left.get(name, absent), right.get(name, absent)
        if (one is None and other is None) or (only_differing and one == other):
            continue
        yield {"differs": one != other, "kind": kind, "left": one, "name": name, "right": other}

"""The JSON documents about problems and kernels: noun -> dict, ``schema`` member first in meaning.

Every document validates against the file of its name in ``fmha_cli/schemas/``. A command that cannot make
its own document prints :func:`error_document` instead; a report carries its error inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fmha_cli.arch import ArchSpec
from fmha_cli.decision import Trace
from fmha_cli.errors import FmhaError
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact, Plan
from fmha_cli.problem import Problem
from fmha_cli.report.finite import nulled
from fmha_cli.report.rows import KernelRow
from fmha_cli.rules import Reason

if TYPE_CHECKING:
    from fmha_cli.report.record import Record


def error_document(error: FmhaError) -> dict[str, Any]:
    """``fmha.error/1``: what a command prints that could not make its own document."""
    return {"error": error.to_dict(), "schema": "fmha.error/1"}


def report_document(
    records: Iterable[Record | Mapping[str, Any]], environment: Mapping[str, Any], error: FmhaError | None = None
) -> dict[str, Any]:
    """``fmha.report/1``: what ``run``, ``validate`` and ``bench`` print at every exit code but 70 and 130."""
    return {
        "environment": dict(environment),
        "error": None if error is None else error.to_dict(),
        "records": [dict(r) if isinstance(r, Mapping) else r.to_dict() for r in records],
        "schema": "fmha.report/1",
    }


def kernel_entry(
    kernel: KernelSpec, upstream_name: str | None = None, reasons: Sequence[Reason] = (), *, buildable: bool = True
) -> dict[str, Any]:
    """One kernel of ``list-kernels``; ``reasons`` say why it is not buildable."""
    row = KernelRow.of(kernel, upstream_name).to_dict()
    return {
        **row,
        "backend": kernel.backend,
        "buildable": buildable,
        "reasons": [reason.to_dict() for reason in reasons],
    }


def kernels_document(arch: str | None, kernels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``fmha.kernels/1`` of the entries of one architecture."""
    rows = [dict(kernel) for kernel in kernels]
    return {"arch": arch, "count": len(rows), "kernels": rows, "schema": "fmha.kernels/1"}


def explain_document(
    problem: Problem, trace: Trace, chosen: KernelSpec | None, change: str | None = None
) -> dict[str, Any]:
    """``fmha.explain/1``: supported kernels best first, then the refusals, nearest miss first.

    ``chosen`` is what ``run`` would take (``Selection.best``), None when nothing serves the problem; ``change``
    is then the smallest change of the flags that would work, None where none was found.
    """
    rows = [_decision(s.backend, s.arch, s.kernel, i, ()) for i, s in enumerate(trace.supported, 1)]
    rows += [_decision(m.backend, m.arch, m.kernel, None, m.reasons) for m in trace.unsupported]
    return {
        "change": change,
        "chosen": None if chosen is None else chosen.name,
        "decisions": rows,
        "problem": problem.to_dict(),
        "schema": "fmha.explain/1",
    }


def _decision(
    backend: str, arch: str, kernel: KernelSpec | None, rank: int | None, reasons: Sequence[Reason]
) -> dict[str, Any]:
    """One decision; ``rank`` counts supported kernels from 1, the best."""
    return {
        "arch": arch,
        "backend": backend,
        "kernel": None if kernel is None else kernel.name,
        "rank": rank,
        "reasons": [reason.to_dict() for reason in reasons],
        "supported": rank is not None,
    }


def plan_document(
    problem: Problem,
    plan: Plan | None,
    device: str | None = None,
    upstream_names: Sequence[str | None] = (),
    reasons: Sequence[Reason] = (),
) -> dict[str, Any]:
    """``fmha.plan/1``; ``plan`` None with its reasons where nothing serves the problem.

    ``upstream_names`` belong to the stages, in their order.
    """
    names = (*upstream_names, *(None,) * len(plan.stages if plan else ()))
    stages = [
        {
            "detail": dict(stage.detail),
            "digest": stage.kernel.digest,
            "family": stage.family.value,
            "kernel": stage.kernel.name,
            "upstream_name": name,
        }
        for stage, name in zip(plan.stages if plan else (), names, strict=False)
    ]
    spaces = plan.workspaces if plan else ()
    return {
        "arch": plan.main.arch if plan else None,
        "backend": plan.main.backend if plan else None,
        "device": device,
        "kernel": plan.main.name if plan else None,
        "predicted_bytes": plan.predicted_bytes if plan else None,
        "problem": problem.to_dict(),
        "reasons": [reason.to_dict() for reason in reasons],
        "schema": "fmha.plan/1",
        "splits": plan.splits if plan else None,
        "stages": stages,
        "workspace_bytes": plan.workspace_bytes if plan else None,
        "workspaces": [{"align": w.align, "bytes": w.bytes, "name": w.name} for w in spaces],
    }


def archs_document(archs: Iterable[ArchSpec], kernel_counts: Mapping[str, int] | None = None) -> dict[str, Any]:
    """``fmha.archs/1``: facts with their sources; ``kernels`` is null where they were not counted."""
    counts = kernel_counts or {}
    rows = [
        {
            "backends": sorted(arch.backends),
            "facts": {name: dict(fact) for name, fact in sorted(arch.facts.items())},
            "kernels": counts.get(arch.name),
            "name": arch.name,
            "title": arch.title,
            "vendor": arch.vendor,
        }
        for arch in archs
    ]
    return {"archs": rows, "schema": "fmha.archs/1"}


_INSPECTED = (
    "instructions",
    "lds_bytes",
    "matrix_instructions",
    "occupancy",
    "registers",
    "shared_bytes",
    "spills",
    "vector_bits",
)
"""What ``inspect`` names alike in every backend that knows it; whatever else a backend says is in ``details``."""


def inspect_document(
    kernel: KernelSpec, findings: Mapping[str, Any], artifact: Artifact | None, upstream_name: str | None = None
) -> dict[str, Any]:
    """``fmha.inspect/1`` of what ``Backend.inspect`` returned; common figures that it lacks are null."""
    from fmha_cli.report.tools import artifact_dict  # list-kernels, which is to be fast, does without

    details, _ = nulled({k: v for k, v in sorted(findings.items()) if k not in _INSPECTED})
    return {
        **{name: findings.get(name) for name in _INSPECTED},
        "arch": kernel.arch,
        "artifact": None if artifact is None else artifact_dict(artifact),
        "backend": kernel.backend,
        "details": details,
        "kernel": KernelRow.of(kernel, upstream_name).to_dict(),
        "schema": "fmha.inspect/1",
    }

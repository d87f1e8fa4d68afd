"""From a row and what became of it to its Record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fmha_cli.emulation import Executed, Finding
from fmha_cli.measure.measurement import Measurement
from fmha_cli.plan import Artifact
from fmha_cli.protocols import LaunchView
from fmha_cli.registry import Registry
from fmha_cli.report.record import Record
from fmha_cli.report.rows import Inputs, KernelRow, stage_rows
from fmha_cli.rules import Reason
from fmha_cli.verdict import Comparison, Verdict
from fmha_cli.walk.repro import repro_line
from fmha_cli.walk.request import Request
from fmha_cli.walk.rows import Row


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of one row: a verdict, and whatever is known besides."""

    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    measurement: Measurement | None = None
    artifacts: tuple[Artifact | None, ...] = ()
    reasons: tuple[Reason, ...] = ()
    launches: tuple[LaunchView, ...] = ()
    notes: tuple[str, ...] = ()
    log: str | None = None
    out: str | None = None
    saved: str | None = None
    findings: tuple[Finding, ...] | None = None
    executed: tuple[Executed, ...] | None = None


def record_of(row: Row, fate: Fate, request: Request, registry: Registry, paths: Mapping[str, str]) -> Record:
    """The Record of a row. ``paths``: tensor name -> file, of the tensors that were given."""
    inputs = Inputs(fill=request.fills[0], fill_seed=request.fill_seed, files=paths)
    if row.choice is None or row.plan is None:
        return Record(
            problem=row.problem.to_dict(),
            repro=repro_line(row.problem, request),
            verdict=fate.verdict,
            reasons=(*row.reasons, *fate.reasons),
            notes=fate.notes,
            inputs=inputs,
        )
    kernel = row.choice.kernel
    backend = registry.backend(kernel.backend)
    named = request.all_kernels and not row.default
    times = fate.measurement.stage_medians_ns if fate.measurement else ()
    return Record(
        problem=row.problem.to_dict(),
        repro=repro_line(row.problem, request, kernel.digest if named or row.pair else None),
        verdict=fate.verdict,
        backend=kernel.backend,
        device=row.choice.device.id if row.choice.runnable else None,
        arch=kernel.arch,
        kernel=KernelRow.of(kernel, backend.upstream_name(kernel)),
        stages=stage_rows(row.plan, fate.artifacts, times),
        splits=row.plan.splits,
        workspace_bytes=row.plan.workspace_bytes,
        comparisons=fate.comparisons,
        measurement=fate.measurement,
        reasons=(*row.reasons, *fate.reasons),
        inputs=inputs,
        dropout_stream=backend.dropout_stream if row.problem.dropout else None,
        default_choice=row.default if request.all_kernels else None,
        launches=tuple(asdict(launch) for launch in fate.launches),
        notes=fate.notes,
        log=fate.log,
        out=fate.out,
        saved=fate.saved,
        findings=None if fate.findings is None else tuple(finding.to_dict() for finding in fate.findings),
        executed=None if fate.executed is None else tuple(counts.to_dict() for counts in fate.executed),
    )

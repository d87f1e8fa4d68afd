"""The Record of a row, from the row and its Fate, and the command line that repeats the row."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isinf
from typing import Any

from fmha_cli.discovery.builtins import own_options
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.flags import asks_fill
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Comparison, Judging, Verdict
from fmha_cli.execution.judge import Judged
from fmha_cli.measure.measurement import Measurement
from fmha_cli.report.counts import compared_counts
from fmha_cli.report.parts import Inputs, KernelRow, stage_rows
from fmha_cli.report.record import Record
from fmha_cli.walk.input_files import ARRAY
from fmha_cli.walk.origin import selected_by
from fmha_cli.walk.request import TENSOR_OF_FLAG, Command, Request
from fmha_cli.walk.rows import Row
from fmha_cli.walk.sides import options_at


@dataclass(frozen=True, kw_only=True)
class Fate:
    """The outcome of one row: its verdict, and everything else that was found."""

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
    judging: Judging | None = None
    settings: Settings | None = None
    peak_bytes: int | None = None
    in_turns: bool = False
    """Whether its samples come from rounds that it shared with other rows."""

    @classmethod
    def of(cls, judged: Judged, artifacts: tuple[Artifact, ...]) -> Fate:
        """The outcome of a row that was judged."""
        return cls(
            verdict=judged.verdict,
            comparisons=judged.comparisons,
            artifacts=artifacts,
            notes=(*judged.remarks, *(judged.first.lines() if judged.first else ()), *judged.notes),
            peak_bytes=judged.first.peak_bytes if judged.first else None,
            log=judged.log_tail or None,
            findings=judged.findings,
            executed=judged.executed,
            judging=judged.judging,
        )

    def beside(self, other: Fate, against: str) -> Fate:
        """The outcome of an interleaved row; on an emulated device with a note that compares its instructions with the
        other row's.

        Args:
            against: the name of the other row.
        """
        note = compared_counts(self.executed or (), other.executed or (), against)
        return self if note is None else replace(self, notes=(*self.notes, note))


def record_of(row: Row, fate: Fate, request: Request, registry: Registry, paths: Mapping[str, str]) -> Record:
    """The Record of a row.

    Args:
        paths: of ``fmha_cli.walk.completeness.sources_of``. ``repro`` names an array NAME.npy, which is how to save it.
    """
    request = request if row.asked is None else replace(request, backend=row.asked)
    arrays = {flag: f"{name}.npy" for flag, name in TENSOR_OF_FLAG.items() if paths.get(name) == ARRAY}
    request = replace(request, files={**request.files, **arrays}) if arrays else request
    record = Record(
        problem=row.problem.to_dict(),
        repro=repro_line(row.problem, request),
        row=row.key,
        backend=row.asked,
        verdict=fate.verdict,
        comparisons=fate.comparisons,
        measurement=fate.measurement,
        reasons=(*row.reasons, *fate.reasons),
        inputs=Inputs(fill=request.fills[0], fill_seed=request.fill_seed, files=paths),
        launches=fate.launches,
        notes=fate.notes,
        log=fate.log,
        out=fate.out,
        saved=fate.saved,
        findings=fate.findings,
        executed=fate.executed,
        judging=fate.judging,
        settings=fate.settings,
        peak_bytes=fate.peak_bytes,
        **({} if row.layer is None else _members_of(row.layer)),
    )
    if row.choice is None or row.plan is None:
        return record
    kernel = row.choice.kernel
    backend = registry.backend(kernel.backend)
    named = request.all_kernels and not row.default
    times = fate.measurement.stage_medians_ns if fate.measurement else ()
    return replace(
        record,
        repro=repro_line(
            row.problem,
            replace(request, options=options_at(registry, request.options, kernel.backend, row.home)),
            kernel.digest if named or row.tuned or request.ab is not None else None,
        ),
        backend=kernel.backend,
        device=row.choice.device.id if row.choice.runnable else None,
        arch=kernel.arch,
        kernel=KernelRow.of(kernel, backend.upstream_name(kernel)),
        stages=stage_rows(row.plan, fate.artifacts, times),
        splits=row.plan.splits,
        workspace_bytes=row.plan.workspace_bytes,
        dropout_stream=backend.dropout_stream if row.problem.dropout else None,
        default_choice=row.default if request.all_kernels else None,
        selected_by=selected_by(row, request),
    )


def _members_of(layer: Layer) -> dict[str, Any]:
    """The members of a record that say for which layers of a model it stands."""
    return {
        "model": layer.model,
        "phase": layer.phase,
        "layer_kind": layer.kind,
        "weight": layer.weight,
        "assumed": layer.assumed,
    }


def repro_line(problem: Problem, request: Request, digest: str | None = None) -> str:
    """The command line that repeats a row: the problem's shortest flags, the files, and the options that matter for it.

    Args:
        digest: the digest of the row's kernel, if the same flags would choose another one.
    """
    given = not all(asks_fill(key, spec) for key, spec in request.files.items())
    files = request.files if given else {}  # without a file, the problem's own flags name the filled tensors
    words = ["fmha", request.command.value, *_without_replaced(problem.repro().split(), files)]
    for key in (key for key in TENSOR_OF_FLAG if key in files):
        words += [f"--{key.replace('_', '-')}", files[key]]
    if digest is not None:
        words += ["--kernel", digest[:16]]
    elif request.kernel:
        words += ["--kernel", request.kernel]
    words += ["--backend", request.backend] if request.backend != "auto" else []
    words += ["--arch", request.arch] if request.arch else []
    words += ["--device", request.device] if request.device else []
    for flag in (*own_options(Use.REVISION), *own_options(Use.SOURCES)):
        words += [f"--{flag.name}", request.options[flag.name]] if flag.name in request.options else []
    words += ["--fill-seed", str(request.fill_seed)] if request.fill_seed else []
    fills, default = (request.fills, FILLS) if request.command is Command.VALIDATE else (request.fills[:1], FILLS[:1])
    words += ["--fill", ",".join(fills)] if fills != default else []
    words += ["--threads", str(request.threads)] if request.threads else []
    if is_emulated(request.device):
        words += ["--emu-seed", str(request.emu_seed)] if request.emu_seed else []
        words += ["--emu-turn", str(request.emu_turn)] if request.emu_turn else []
        words += ["--no-emu-checks"] if not request.emu_checks else []
        words += ["--emu-arith", request.emu_arith.value] if request.emu_arith != Request.emu_arith else []
    words += ["--no-check"] if not request.check else []
    words += ["--no-probe"] if not request.probe else []
    if request.check and request.oracle_s != Request.oracle_s:
        words += ["--check-budget", budget_text(request.oracle_s)]
    return shlex.join(words)


def budget_text(seconds: float) -> str:
    """The value of ``--check-budget``."""
    return "all" if isinf(seconds) else f"{seconds:g}"


def _without_replaced(words: list[str], files: Mapping[str, str]) -> list[str]:
    """The problem's flags without the ``filled`` tensors for which a file was given."""
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and word.removeprefix("--").replace("-", "_") in files:
            next(rest, None)
        else:
            out.append(word)
    return out

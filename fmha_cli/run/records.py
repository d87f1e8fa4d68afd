"""The Record of a row, from the row and its Outcome, and the command line that repeats the row."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from math import isinf
from typing import Any

from fmha_cli.discovery.builtins import own_options
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.fields import asks_fill
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.problem import Problem
from fmha_cli.report.parts import Inputs, KernelRow, stage_rows
from fmha_cli.report.record import Record
from fmha_cli.run.input_files import ARRAY
from fmha_cli.run.origin import selected_by
from fmha_cli.run.outcome import Outcome
from fmha_cli.run.request import TENSOR_OF_FLAG, Command, Request
from fmha_cli.run.rows import Row
from fmha_cli.run.sides import options_at


def record_of(row: Row, outcome: Outcome, request: Request, registry: Registry, paths: Mapping[str, str]) -> Record:
    """The Record of a row.

    Args:
        paths: of ``fmha_cli.run.completeness.sources_of``. ``repro`` names an array NAME.npy, which is how to save it.
    """
    request = request if row.asked is None else replace(request, backend=row.asked)
    arrays = {flag: f"{name}.npy" for flag, name in TENSOR_OF_FLAG.items() if paths.get(name) == ARRAY}
    request = replace(request, files={**request.files, **arrays}) if arrays else request
    record = Record(
        problem=row.problem.to_dict(),
        repro=repro_line(row.problem, request),
        row=row.key,
        backend=row.asked,
        verdict=outcome.verdict,
        comparisons=outcome.comparisons,
        measurement=outcome.measurement,
        reasons=(*row.reasons, *outcome.reasons),
        inputs=Inputs(fill=request.fills[0], fill_seed=request.fill_seed, files=paths),
        launches=outcome.launches,
        notes=outcome.every_note,
        log=outcome.log,
        out=outcome.out,
        saved=outcome.saved,
        findings=outcome.findings,
        executed=outcome.executed,
        judging=outcome.judging,
        settings=outcome.settings,
        peak_bytes=outcome.first.peak_bytes if outcome.first else None,
        **({} if row.layer is None else _members_of(row.layer)),
    )
    if row.choice is None or row.plan is None:
        return record
    kernel = row.choice.kernel
    backend = registry.backend(kernel.backend)
    named = request.all_kernels and not row.default
    times = outcome.measurement.stage_medians_ns if outcome.measurement else ()
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
        stages=stage_rows(row.plan, outcome.artifacts, times),
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

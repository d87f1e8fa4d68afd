"""``Outcome``: what came of a row. The judge begins it, timing and the run add to it, and it becomes the row's Record, which may also be
compared with those of other rows.

The two rows of ``--ab`` are compared with each other. Of several backends, each row is compared with the first one of its problem and
cache mode that was timed, and the fastest good row with the next one. Backends on one device take turns; a ratio between devices is
taken from separate samples.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import isinf
from typing import Any

from fmha_cli.bench.compare import Ratio, Regret
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.sampling import ab_ratios
from fmha_cli.bench.stats import median
from fmha_cli.discovery.builtins import own_options
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.fields import asks_fill, flags_in, words_of
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.invariance import BitDifference, required_text
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Comparison, Judging, Verdict
from fmha_cli.oracle.tensors import Array
from fmha_cli.report.counts import compared_counts
from fmha_cli.report.parts import Inputs, KernelRow, stage_rows
from fmha_cli.report.record import Record
from fmha_cli.run.input_files import ARRAY
from fmha_cli.run.origin import selected_by
from fmha_cli.run.request import TENSOR_OF_FLAG, Command, Request, options_at
from fmha_cli.run.rows import Row


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one row.

    Attributes:
        comparisons: one for each fill that ran to its end, in order.
        differences: between launches of the same inputs.
        reasons: against the row as it ran; those against its problem are the row's own.
        notes: the observations behind the verdict, each with its fill.
        log: the end of the worker's output if a run failed.
        judging: how closely the row was looked at.
        stage_ns: nanoseconds of every judged launch, in order (the first includes page faults and cold caches).
        waited_ns: nanoseconds that the host waited for each of them.
        mistimed: why the times cannot be true.
        measurement: the times, if they can be believed.
        in_turns: whether its samples come from rounds that it shared with other rows.
        fill: the worst fill.
        outputs: what the kernel returned under it, for ``--out`` and saved failures.
        findings: the findings of an emulated device over all runs; None on other devices.
        executed: its counts of the first run; None on other devices.
        remarks: what the session said when it was bound.
        first: what the worker observed of the first launch; None if there was none.
        artifacts: one for each stage; None for one that was not built.
        launches: what a dry run would launch.
        settings: with which the kernels ran; None if none takes any.
        out, saved: files of ``--out`` and ``--save-failures`` that were written.
    """

    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    differences: tuple[BitDifference, ...] = ()
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    log: str | None = None
    judging: Judging | None = None
    stage_ns: tuple[tuple[int, ...], ...] = ()
    waited_ns: tuple[int, ...] = ()
    mistimed: str | None = None
    measurement: Measurement | None = None
    in_turns: bool = False
    fill: str | None = None
    outputs: Mapping[str, Array] = field(default_factory=dict)
    findings: tuple[Finding, ...] | None = None
    executed: tuple[Executed, ...] | None = None
    remarks: tuple[str, ...] = ()
    first: FirstLaunch | None = None
    artifacts: tuple[Artifact | None, ...] = ()
    launches: tuple[LaunchView, ...] = ()
    settings: Settings | None = None
    out: str | None = None
    saved: str | None = None

    @property
    def every_note(self) -> tuple[str, ...]:
        """Remarks, what the first launch showed, and the notes."""
        return (*self.remarks, *(self.first.lines() if self.first else ()), *self.notes)


def record_of(row: Row, outcome: Outcome, request: Request, registry: Registry, paths: Mapping[str, str]) -> Record:
    """The Record of a row.

    Args:
        paths: of ``fmha_cli.run.refusals.sources_of``. ``repro`` names an array NAME.npy, which is how to save it.
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
        notes=(*(f"KNOWN: {text}" for text in _known(row.choice.decision, outcome)), *record.notes),
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
    """The members of a record that say for which calls of a model or workload it stands."""
    return {
        "model": layer.model,
        "phase": layer.phase,
        "layer_kind": layer.kind,
        "weight": layer.weight,
        "assumed": layer.assumed,
        "calls": layer.calls,
    }


def repro_line(problem: Problem, request: Request, digest: str | None = None) -> str:
    """The command line that repeats a row: the problem's shortest flags, the files, and the options that matter for it.

    Args:
        digest: the digest of the row's kernel, if the same flags would choose another one.
    """
    given = not all(asks_fill(key, spec) for key, spec in request.files.items())
    files = request.files if given else {}  # without a file, the problem's own flags name the filled tensors
    own = {key: text for key, text in flags_in(problem).items() if key not in files}
    words = ["fmha", request.command.value, *words_of(own)]
    for key in (key for key in TENSOR_OF_FLAG if key in files):
        words += [f"--{key.replace('_', '-')}", files[key]]
    if digest is not None:
        words += ["--kernel", digest[:16]]
    elif request.kernel:
        words += ["--kernel", request.kernel]
    words += ["--backend", request.backend] if request.backend != "auto" else []
    words += ["--arch", request.arch] if request.arch else []
    words += ["--device", request.device] if request.device else []
    words += ["--require", required_text(request.require)] if request.require else []
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
        words += ["--emu-careful"] if request.emu_careful else []
        words += ["--emu-arith", request.emu_arith.value] if request.emu_arith != Request.emu_arith else []
    words += ["--no-check"] if not request.check else []
    words += ["--no-probe"] if not request.probe else []
    if request.check and request.oracle_s != Request.oracle_s:
        words += ["--check-budget", budget_text(request.oracle_s)]
    return shlex.join(words)


def budget_text(seconds: float) -> str:
    """The value of ``--check-budget``."""
    return "all" if isinf(seconds) else f"{seconds:g}"


def beside(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of interleaved rows; on an emulated device each has a note that compares its instructions with the
    other row's.
    """
    mutual = rows[0].asked is None
    others = [1 - n if mutual else 0 for n in range(len(rows))]
    return [
        outcome if n == other else _counted(outcome, outcomes[other], rows[other].short)
        for n, (outcome, other) in enumerate(zip(outcomes, others, strict=True))
    ]


def _counted(outcome: Outcome, other: Outcome, against: str) -> Outcome:
    note = compared_counts(outcome.executed or (), other.executed or (), against)
    return outcome if note is None else replace(outcome, notes=(*outcome.notes, note))


def ratios_of(
    indices: Sequence[int], rows: Sequence[Row], records: Mapping[int, Record], in_turns: Set[int]
) -> dict[int, Ratio]:
    """The ratios of rows that were just timed.

    Args:
        indices: the numbers of these rows.
        records: of all rows that are done, by number.
        in_turns: those of ``indices`` whose samples come from shared rounds.
    """
    samples = {n: r.measurement.samples_ns for n, r in records.items() if r.measurement is not None}
    own = [n for n in indices if n in samples and rows[n].turn is not None]
    if len(own) == 2 and rows[own[0]].asked is None:
        a, b = own
        return dict(zip(own, ab_ratios(samples[a], samples[b], (rows[a].name, rows[b].name)), strict=True))
    found: dict[int, Ratio] = {}
    for n in own if own and rows[own[0]].asked is not None else ():
        first = min(other for other in samples if rows[other].compares(rows[n]))
        if first != n:
            paired = {first, n} <= in_turns
            found[n] = Ratio.of(samples[n], samples[first], against=rows[first].name, paired=paired)
    return found


def lead_of(rows: Sequence[Row], records: Sequence[Record]) -> tuple[int, Ratio] | None:
    """The place of the fastest good row, and its ratio to the next one; None with fewer than two.

    Args:
        rows: those of several backends about one problem and cache mode.
        records: of these rows, in their order.
    """
    good = [
        (median(samples), n, samples)
        for n, record in enumerate(records)
        if record.measurement is not None and record.verdict.exit_code is ExitCode.OK
        for samples in (record.measurement.samples_ns,)
    ]
    if len(good) < 2:
        return None
    (_, first, mine), (_, second, other) = sorted(good, key=lambda one: one[:2])[:2]
    paired = all(ratio.paired for ratio in (records[first].ab, records[second].ab) if ratio is not None)
    return first, Ratio.of(mine, other, against=rows[second].name, paired=paired)


def with_regret(record: Record, group: Sequence[Record]) -> Record:
    """The default choice of a group with its regret, if its time and another's can be believed."""
    if not record.default_choice or record.measurement is None:
        return record
    good = [r for r in group if r.measurement is not None and r.verdict is Verdict.PASSED]
    others = [r.measurement.samples_ns for r in good if r.measurement is not None and r is not record]
    if not good:
        return record
    regret = Regret.of(record.measurement.samples_ns, others)
    return replace(record, regret=regret.value, regret_ci95=regret.ci95)


def _known(decision: Supported, outcome: Outcome) -> tuple[str, ...]:
    """The known faults that may be why a row is not right: of one with findings and right numbers, those that cause these."""
    if outcome.verdict is Verdict.HAZARD and all(one.verdict is not Verdict.WRONG for one in outcome.comparisons):
        return decision.explaining({finding.kind for finding in outcome.findings or ()})
    return decision.known if outcome.verdict.exit_code is ExitCode.WRONG else ()

"""``Outcome``: what came of a row. The judge begins it, timing and the walk add to it, and it becomes the row's Record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fmha_cli.bench.measurement import Measurement
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Comparison, Judging, Verdict
from fmha_cli.oracle.tensors import Array


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one row.

    Attributes:
        comparisons: one for each fill that ran to its end, in order.
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

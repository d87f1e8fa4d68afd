"""Samples of what documents consist of: a problem, a kernel, a plan, rows. Whole documents: ``sample_documents``."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.conditions import Ceiling, ProcessorConditions
from fmha_cli.bench.difference import Against, SureRule
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import Bound, CacheState, Floor, PeakKind
from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.emulation import Executed, Finding, FindingKind
from fmha_cli.domain.journal import JournalBuilt, JournalPlanned, JournalRow, Line, Start
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import Processor
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.domain.signature import Signature
from fmha_cli.domain.verdict import Check, Comparison, Judging, Verdict
from fmha_cli.report.parts import Inputs, KernelRow, RunRow, SelectedBy, environment, stage_rows
from fmha_cli.report.record import Record
from tests.support.generators.journals import done_line

DIGEST = "0123456789abcdef" * 4
PROCESSOR = Processor(vendor="AuthenticAMD", family=25, model=17, name="AMD EPYC", microarchitecture="zen4")


@dataclass(frozen=True, kw_only=True)
class SampleAlgorithm(Algorithm):
    """The free choices of a fictitious backend."""

    tile: tuple[int, ...] = (64, 32)
    padded: bool = False


PROBLEM = Problem.of(batch=2, heads=8, kv_heads=2, causal=True, dtype="fp16")


def kernel(family: Family = Family.FWD) -> KernelSpec:
    return KernelSpec(
        backend="cpu",
        family=family,
        arch="x86_64_v4",
        signature=Signature.of(PROBLEM),
        algorithm=SampleAlgorithm(padded=True),
    )


PLAN = Plan(
    PROBLEM,
    (Stage(kernel(Family.FWD_SPLITKV), (("grid", "8x4"),)), Stage(kernel(Family.FWD_SPLITKV_COMBINE))),
    (Workspace("partial", 4096),),
    splits=4,
)
REASON = Reason("K012", "hdim 72 is not supported", "--hdim 80")
ARTIFACT = Artifact(Path("/cache/a"), DIGEST, DIGEST, Path("/cache/log"), False, 1.25)
BACKENDS = {
    "cpu": Availability(
        state=State.OK,
        version="1",
        devices=(DeviceFacts(id="cpu", archs=("x86_64_v4", "x86_64_v3"), name="A CPU", units=2, memory_bytes=2**34),),
    ),
    "ck_tile": Availability(state=State.MISSING, why="no ROCm", help="install it"),
}
ENVIRONMENT = environment(BACKENDS)


def check(row_l2: float, fill: str = "normal") -> Check:
    return Check(
        row_l2=row_l2, row_l2_budget=1e-3, max_abs=row_l2, max_abs_budget=1e-2, nonfinite=0, rows=64, fill=fill
    )


@functools.cache
def measurement() -> Measurement:
    return Measurement(
        launches=tuple((1_000_000 + i, 1000) for i in range(8)),
        flops=PROBLEM.flops(),
        bytes=PROBLEM.bytes(),
        cache=CacheState.COLD,
        threads=2,
        warmup=3,
        stop=StopReason.CONVERGED,
        floor=Floor(PeakKind.MEASURED, 500_000.0, 100.0),
        ceiling=Ceiling(bound=Bound.COMPUTE, before=2e11, after=1e11),
        conditions=ProcessorConditions(clock_mhz=2596.146, temp_c=61.5, throttled=False),
    )


@functools.cache
def baseline() -> Against:
    """How a row compares with an earlier run. Its interval comes from thousands of draws, so it is made once."""
    return Against.of([[9] * 10] * 5, [[8] * 10] * 5, against="old.json", rule=SureRule(interleaved=False))


@functools.cache
def other_side() -> Ratio:
    return Ratio.of([9] * 8, [8] * 8, against="other", paired=True)


def record(verdict: Verdict = Verdict.PASSED, **changes: Any) -> Record:
    """A complete row, with every optional member set."""
    fields: dict[str, Any] = {
        "problem": PROBLEM.to_dict(),
        "repro": f"fmha run {PROBLEM.repro()}",
        "verdict": verdict,
        "backend": "cpu",
        "device": "cpu",
        "arch": "x86_64_v4",
        "kernel": KernelRow.of(kernel(), "fmha_fwd_d128"),
        "stages": stage_rows(PLAN, (ARTIFACT, None), measurement().stage_medians_ns),
        "splits": 4,
        "workspace_bytes": PLAN.workspace_bytes,
        "comparisons": (
            Comparison(checks=(("o", replace(check(1e-4), rms=1e-5, rms_budget=1e-4)), ("lse", check(1e-6)))),
            Comparison(checks=(("o", check(5e-4, "ties")),), distrust="all rows are equal", notes=("n",)),
        ),
        "measurement": measurement(),
        "reasons": (REASON,),
        "inputs": Inputs(files={"q": "q.npy"}),
        "dropout_stream": "fmha",
        "default_choice": True,
        "regret": 0.25,
        "regret_ci95": (0.2, 0.3),
        "baseline": baseline(),
        "ab": other_side(),
        "notes": ("a note",),
        "log": "worker.log",
        "out": "o.npy",
        "saved": "failures/1",
        "judging": Judging(repeats=2, launches=4, guard_bytes=4096),
        "run": RunRow(
            id="0123456789abcdef" * 2,
            command="bench",
            started="2026-11-22T19:40:00Z",
            label="nightly",
            revision="1a2b3c4",
            dirty=True,
        ),
        "started": "2026-11-22T19:40:01Z",
        "host": DIGEST,
        "processor": PROCESSOR,
        "settings": Settings(values={"prefetch_near": 1024, "prefetch_far": 8192}, source=SettingsFrom.MEASURED),
        "selected_by": SelectedBy.KERNEL,
        "model": "a-model",
        "phase": LayerPhase.DECODE,
        "layer_kind": LayerKind.LOCAL,
        "weight": 52,
        "row": DIGEST[:24],
    }
    return Record(**{**fields, **changes})


FINDING = Finding(
    kind=FindingKind.LDS_RACE,
    kernel="_Z1k",
    instruction="ds_read_b32 v1, v2",
    address=64,
    text="word 3 was written by wave 1",
    wave=2,
    lane=5,
    group=(1, 0, 0),
    count=3,
)
EXECUTED = Executed(kernel="_Z1k", instructions=9, classes={"valu": 7, "matrix": 2}, matrix_flops=65536, barriers=4)


def emulated(verdict: Verdict = Verdict.HAZARD) -> Record:
    """A row from an emulated device."""
    return record(
        verdict,
        device="emu:gfx942",
        arch="gfx942",
        measurement=None,
        regret=None,
        regret_ci95=None,
        baseline=None,
        ab=None,
        findings=(FINDING,),
        executed=(EXECUTED, replace(EXECUTED, kernel="_Z2k")),
    )


def bare(verdict: Verdict = Verdict.UNSUPPORTED) -> Record:
    """A row with no information except that it was requested."""
    return Record(problem=PROBLEM.to_dict(), repro="fmha run", verdict=verdict, reasons=(REASON,))


def journal_lines() -> list[Line]:
    """A line of each kind, of one journal."""
    key = DIGEST[:24]
    start = Start(
        fmha="0.1.0",
        argv=("run",),
        run=DIGEST[:32],
        started="2026-11-22T19:40:00Z",
        parts={"--fill-seed": "0", "v.npy": f"sha256:{DIGEST}"},
        rows=(JournalRow(key=key, what="`-b 1` without a kernel"),),
    )
    done = done_line(start, {key: bare().to_dict()})
    return [start, JournalBuilt(kernels={DIGEST: DIGEST, DIGEST[::-1]: None}), JournalPlanned(key=key), done]

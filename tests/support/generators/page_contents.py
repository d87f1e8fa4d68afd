"""Runs with rows of every kind, and what pages show of them."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.difference import SureRule
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import CacheState, Floor, PeakKind
from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.pages.content import PageContent, gathered
from fmha_cli.report.documents.compare import Compare
from fmha_cli.report.parts import KernelRow, RunRow, SelectedBy
from fmha_cli.report.record import Record
from fmha_cli.results.comparison import compared
from fmha_cli.results.conditions import USUAL
from fmha_cli.results.documents import compare_document
from fmha_cli.results.run import KeptRun
from tests.support.generators.kept_runs import filled, run_row
from tests.support.generators.report.samples import ENVIRONMENT, record

PEAKS = {"fp32": 4e11, "bf16": 2.4e12, "fp16": 2.4e12}
BANDWIDTH = 4e10
SPEED = {"cpu": 0.5, "torch": 0.35, "openvino": 0.42}
"""Shares of the peak."""
HOSTILE = "</script><script>throw Error('planted')</script><img src=x onerror=alert(1)> <!-- ]]> \u2028\x1b[31m"
ABOUT = RunRow(id="0123456789abcdef" * 2, command="bench", started="2026-11-25T10:00:00Z", label="demo")


def kernel_row(backend: str, number: int = 0) -> KernelRow:
    row = record().kernel
    assert row is not None
    return replace(row, name=f"{row.name}-{backend}-{number}", digest=digest_of([backend, number]))


def timed(
    problem: Problem,
    backend: str = "cpu",
    *,
    number: int = 0,
    processes: int = 3,
    samples: int = 20,
    slow: float = 1.0,
    seed: int = 0,
    cache: CacheState = CacheState.HOT,
    **changes: Any,
) -> Record:
    """A good row whose times follow from a simple model of a machine."""
    draw = random.Random(f"{problem.repro()} {backend} {number} {seed}")
    dtype = problem.dtype.value
    ideal = problem.flops() / PEAKS[dtype] * 1e9
    shape = 0.3 + 0.7 * min(1.0, problem.seqlen_q / 2048)
    middle = ideal / SPEED.get(backend, 0.4) / shape * (1 + 0.15 * number) * slow + 4000
    times = [
        (max(1, round(level * draw.lognormvariate(0, 0.01))), process)
        for process in range(processes)
        for level in (middle * draw.lognormvariate(0, 0.004),)
        for _ in range(samples)
    ]
    cold = (
        (problem.bytes() - problem.heads * problem.batch * problem.seqlen_q * problem.hdim * problem.dtype.bits // 8)
        if cache is CacheState.COLD
        else 0
    )
    measured = Measurement(
        launches=tuple((ns,) for ns, _ in times),
        flops=problem.flops(),
        bytes=problem.bytes(),
        cache=cache,
        threads=2,
        stop=StopReason.CONVERGED,
        floor=Floor(PeakKind.MEASURED, ideal, cold / BANDWIDTH * 1e9),
        process_of_sample=tuple(process for _, process in times) if processes > 1 else None,
    )
    members: dict[str, Any] = {
        "problem": problem.to_dict(),
        "repro": f"fmha bench {problem.repro()} --backend {backend}",
        "backend": backend,
        "kernel": kernel_row(backend, number),
        "measurement": measured,
        **dict.fromkeys(
            ("baseline", "ab", "regret", "regret_ci95", "default_choice", "model", "phase", "layer_kind", "weight")
        ),
        "selected_by": SelectedBy.BACKEND,
        "reasons": (),
        "notes": (),
        "log": None,
        "saved": None,
        "comparisons": (),
        "judging": None,
        "run": ABOUT,
        "row": digest_of([problem.repro(), backend, number, cache.value])[:24],
    }
    return record(**{**members, **changes})


def failed(problem: Problem, verdict: Verdict = Verdict.UNSUPPORTED, *reasons: Reason, **changes: Any) -> Record:
    """A row without a time."""
    row = timed(problem, **changes)
    return replace(row, measurement=None, verdict=verdict, reasons=reasons, kernel=None, stages=())


@cache
def sweep(
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096), backends: tuple[str, ...] = tuple(SPEED)
) -> tuple[Record, ...]:
    """A sweep over lengths, head dims and types by several backends, the fastest of which leads."""
    rows = []
    for dtype in ("fp32", "bf16"):
        for hdim in (64, 128):
            for seqlen in lengths:
                problem = Problem.of(heads=8, seqlen=seqlen, hdim=hdim, dtype=dtype, causal=True)
                here = [timed(problem, name) for name in backends]
                here.sort(key=lambda row: -SPEED[row.backend or ""])
                lead = Ratio.of(
                    *(row.measurement.samples_ns for row in here[:2] if row.measurement), against="b", paired=False
                )
                rows += [replace(here[0], lead=lead), *here[1:]]
    return tuple(rows)


def kernels(seqlen: int = 1024, count: int = 5) -> list[Record]:
    """The kernels of one problem, the second of which is the default."""
    problem = Problem.of(heads=4, seqlen=seqlen, hdim=64, dtype="fp32")
    return [
        timed(problem, number=number, default_choice=number == 1, selected_by=SelectedBy.ALL_KERNELS)
        for number in range(count)
    ]


def odd() -> list[Record]:
    """Rows that are not good, have few samples, cold caches, or hostile texts."""
    problem = Problem.of(heads=2, seqlen=512, hdim=72, dtype="fp16")
    nan = replace(timed(problem), verdict=Verdict.WRONG, reasons=(Reason("R001", "the result is NaN", None),))
    return [
        timed(Problem.of(heads=8, seqlen=128, hdim=64, dtype="fp32", causal=True), processes=1, samples=3),
        timed(Problem.of(heads=8, seqlen=2048, hdim=64, dtype="fp32", causal=True), cache=CacheState.COLD),
        failed(problem, Verdict.UNSUPPORTED, Reason("K012", "hdim 72 is not supported", "--hdim 80")),
        failed(problem, Verdict.UNSUPPORTED, Reason("K012", "hdim 72 is not supported", "--hdim 80")),
        failed(problem, Verdict.CRASHED, Reason("X026", HOSTILE, HOSTILE), notes=(HOSTILE,)),
        replace(nan, measurement=None, regret=float("nan"), notes=(HOSTILE,)),
    ]


def history_store(path: Path, row: Record, runs: int = 14, step: int = 8, slow: float = 1.2) -> None:
    """Runs of one row, which becomes slower by a step."""
    rows = []
    problem = Problem.from_cli(row.repro.removeprefix("fmha bench ").partition(" --backend")[0])
    for number in range(runs):
        again = timed(problem, row.backend or "", seed=number, processes=6, slow=slow if number >= step else 1.0)
        rows.append(replace(again, run=run_row(number, label=f"n{number}" if number % 3 else None)))
    filled(path, *rows)


def run(*rows: Record, name: str = "demo") -> KeptRun:
    return KeptRun(name, rows, ENVIRONMENT)


def everything(folder: Path, title: str = "Attention, every plot") -> PageContent:
    """A page in which no plot lacks its data."""
    rows = [*sweep(), *kernels(), *odd()]
    store = folder / "history.sqlite"
    history_store(store, rows[0])
    before, after = compared_runs()
    return gathered(title, [run(*rows), before, after], store, comparison(before, after))


def compared_runs() -> tuple[KeptRun, KeptRun]:
    """Two runs with slower, faster, equal and unsure rows, and one that is WRONG in the second."""
    problems = [Problem.of(heads=8, seqlen=128 * n, hdim=64, dtype="bf16") for n in range(1, 9)]
    before = [timed(problem, processes=8) for problem in problems]
    slows = (1.15, 1.0, 0.9, 1.0, 1.3, 1.03, 1.0, 1.0)
    after = [timed(problem, processes=8, seed=1, slow=slow) for problem, slow in zip(problems, slows, strict=True)]
    after[3] = timed(problems[3], processes=2, seed=1)
    after[6] = replace(after[6], verdict=Verdict.WRONG)
    return run(*before, name="before"), run(*after, name="after")


def comparison(before: KeptRun, after: KeptRun) -> Compare:
    found = compared(before.records, after.records, SureRule(interleaved=False))
    return compare_document(found, before, after, USUAL)


def bare_content(*rows: Record) -> PageContent:
    """A page of some rows, without a store."""
    return PageContent(title="t", runs=[run(*rows)])

"""Records with the times of several processes, for tests of comparisons."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import CacheState
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.parts import KernelRow
from fmha_cli.report.record import Record
from tests.support.generators.report.samples import kernel as sample_kernel


def processes(middle: int, seed: int, count: int = 8, noise: float = 0.002, samples: int = 20) -> list[list[int]]:
    """Samples of so many processes, whose levels scatter by ``noise``."""
    draw = random.Random(seed)
    return [
        [round(level * draw.gauss(1, 0.001)) for _ in range(samples)]
        for level in (draw.gauss(middle, middle * noise) for _ in range(count))
    ]


def timed(of: Sequence[Sequence[int]], *, kernel: str = "a", seqlen: int = 64, **members: Any) -> Record:
    """A good row with the samples of these processes."""
    problem = Problem.of(seqlen=seqlen)
    cache = members.pop("cache", CacheState.HOT)
    threads = members.pop("threads", 1)
    measurement = Measurement(
        launches=tuple((ns,) for process in of for ns in process),
        flops=problem.flops(),
        bytes=problem.bytes(),
        cache=cache,
        threads=threads,
        process_of_sample=tuple(place for place, process in enumerate(of) for _ in process),
    )
    members = {"backend": "cpu", "device": "cpu", "arch": "x86_64_v4", "verdict": Verdict.PASSED, **members}
    row = KernelRow.of(sample_kernel())
    return Record(
        problem=problem.to_dict(),
        repro="fmha bench",
        kernel=replace(row, name=f"{row.name}-{kernel}"),
        measurement=measurement,
        **members,
    )


def failed(verdict: Verdict = Verdict.WRONG, **members: Any) -> Record:
    """The same row, not good, without times."""
    return replace(timed([[1]], verdict=verdict, **members), measurement=None)

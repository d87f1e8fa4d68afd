"""CK-Tile's kernels, compiled and executed on emulated devices: a seeded sample here, all of them in the slow suite."""

from __future__ import annotations

from functools import cache

import pytest
from emulator_check import ARCHS, BACKEND, Point, points, sampled
from harness import tool

from fmha_cli.api import Verdict, build_registry, run
from fmha_cli.problem import Problem

SAMPLE, SEED = 8, 5


@cache
def every() -> list[Point]:
    return points(ARCHS, None, build_registry())


def execute(point: Point, seed: int) -> None:
    arch, case = point
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    (record,) = run(Problem.from_cli(case.flags), backend=BACKEND, device=f"emu:{arch}", fill_seed=seed)
    assert record.verdict is Verdict.PASSED, (record.verdict, record.notes, record.findings)
    assert record.device == f"emu:{arch}"
    assert tuple(stage.family for stage in record.stages) == case.families
    assert record.measurement is None
    assert record.executed is not None


@pytest.mark.parametrize("number", range(SAMPLE))
def test_sampled_kernels(number: int) -> None:
    execute(sampled(every(), SAMPLE, SEED)[number], SEED)


def test_the_sample_has_every_architecture_and_kind() -> None:
    chosen = sampled(every(), SAMPLE, SEED)
    assert {arch for arch, _ in chosen} == set(ARCHS)
    assert len({case.families for _, case in chosen}) >= SAMPLE // 2
    assert any("bwd_dq_dk_dv" in case.families for _, case in chosen)
    assert any(case.families == ("fwd",) for _, case in chosen)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel(arch: str) -> None:
    for point in every():
        if point[0] == arch:
            execute(point, 0)

"""CK-Tile's kernels, compiled and executed on emulated devices: a seeded sample here, all of them in the slow suite."""

from __future__ import annotations

from functools import cache

import pytest
from emulator_check import ARCHS, Point, points, row_of, sampled, sound
from harness import tool

from fmha_cli.api import build_registry

SAMPLE, SEED = 8, 5


@cache
def every() -> list[Point]:
    return points(ARCHS, None, build_registry())


def execute(point: Point, seed: int) -> None:
    arch, case = point
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    row = row_of(point, build_registry(), seed)
    assert sound(row), (row["verdict"], row["notes"], row["findings"])
    assert row["device"] == f"emu:{arch}"
    assert sorted(row["kernels"].values()) == sorted(case.families)
    assert row["executed"]


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

"""CK-Tile's kernels, compiled and run on emulated devices: one kernel in CI, a seeded sample and all of them in the slow suite."""

from __future__ import annotations

import random
from functools import cache

import pytest

from fmha_amdgpu_emu_tests.support.harness import tool
from fmha_cli.api import build_registry
from tests.checks.emulator_check import ARCHS, CkPoint, exists, points, row_of, sound

COVER, SEED = 5, 2
"""Compiling kernels takes most of the time. With this seed, five points of few kernels cover every architecture and family."""
QUICK = ("fp16 d64", "one query", "one key", "GQA, bshd")
"""gfx942's problems that CI runs. All run the kernel that its other tests compile too."""


@cache
def cover() -> list[CkPoint]:
    """Points in a seeded order, each of which has most of what those before it lack of architectures and families."""
    every = list(points(ARCHS, SEED))
    random.Random(SEED).shuffle(every)
    missing = {*ARCHS} | {family for point in every for family in point.problem.families}
    out = []
    while missing:
        every.sort(key=lambda p: -len(missing & {p.arch, *p.problem.families}))
        best = next(point for point in every if exists(point))
        out.append(best)
        missing -= {best.arch, *best.problem.families}
    return out


def execute(point: CkPoint) -> None:
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    row = row_of(point, build_registry())
    assert sound(row), (row["verdict"], row["notes"], row["findings"])
    assert row["device"] == f"emu:{point.arch}"
    assert sorted(row["kernels"].values()) == sorted(point.problem.families)
    assert row["instructions"]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", QUICK)
def test_a_kernel_on_problems_of_many_shapes(name: str) -> None:
    (point,) = (point for point in points(["gfx942"], SEED) if point.problem.name == name)
    execute(point)


@pytest.mark.promise("Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers.")
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(COVER))
def test_sampled_kernels(number: int) -> None:
    execute(cover()[number])


def test_the_sample_has_every_architecture_and_family() -> None:
    assert len(cover()) == COVER
    assert {point.arch for point in cover()} == set(ARCHS)
    assert {family for point in cover() for family in point.problem.families} == {
        family for point in points() for family in point.problem.families
    }


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel(arch: str) -> None:
    for point in points([arch]):
        if exists(point):
            execute(point)

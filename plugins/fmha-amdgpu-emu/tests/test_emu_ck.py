"""CK-Tile's kernels, compiled and run on emulated devices: one kernel in CI, a seeded sample and all of them in the slow suite."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from emulator_check import ARCHS, Point, candidates, exists, in_turns, kept_rows, row_of, sound
from harness import tool

from fmha_cli.api import build_registry

COVER, SEED = 5, 2
"""Compiling kernels takes most of the time. With this seed, five points of nine kernels cover every architecture and
family.
"""
QUICK = ("fp16 d64", "one query", "one key", "GQA, bshd")
"""gfx942's problems that CI runs. All run the kernel that its other tests compile too."""


@cache
def cover() -> list[Point]:
    """Points in a seeded order, each of which adds a family or an architecture."""
    every = candidates(ARCHS)
    missing = {*ARCHS} | {family for _, case in every for family in case.families}
    out = []
    for arch, case in in_turns(every, SEED, build_registry()):
        if missing & {arch, *case.families}:
            out.append((arch, case))
            missing -= {arch, *case.families}
        if not missing:
            break
    return out


def execute(point: Point, seed: int) -> None:
    arch, case = point
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    row = row_of(point, build_registry(), seed)
    assert sound(row), (row["verdict"], row["notes"], row["findings"])
    assert row["device"] == f"emu:{arch}"
    assert sorted(row["kernels"].values()) == sorted(case.families)
    assert row["executed"]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", QUICK)
def test_a_kernel_on_problems_of_many_shapes(name: str) -> None:
    (point,) = (point for point in candidates(["gfx942"]) if point[1].name == name)
    execute(point, SEED)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(COVER))
def test_sampled_kernels(number: int) -> None:
    execute(cover()[number], SEED)


def test_the_sample_has_every_architecture_and_family() -> None:
    assert len(cover()) == COVER
    assert {arch for arch, _ in cover()} == set(ARCHS)
    assert {family for _, case in cover() for family in case.families} == {
        family for _, case in candidates(ARCHS) for family in case.families
    }


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel(arch: str) -> None:
    for point in candidates([arch]):
        if exists(point, build_registry()):
            execute(point, 0)


def test_a_resumed_check_keeps_only_sound_rows_of_the_same_problems_and_fills(tmp_path: Path) -> None:
    first, second, third, fourth = candidates(["gfx942"])[:4]
    rows = [
        {"arch": arch, "case": case.name, "flags": case.flags, "verdict": "PASSED", "seed": 0}
        for arch, case in (first, second, third, fourth)
    ]
    rows[1]["verdict"] = "FAILED"
    rows[2]["flags"] += " --lse"
    rows[3]["seed"] = 1
    path = tmp_path / "check.json"
    assert kept_rows(path, [first], 0) == {}
    path.write_text(json.dumps({"rows": rows}), "utf-8")
    assert kept_rows(path, [first, second, third, fourth], 0) == {first: rows[0]}

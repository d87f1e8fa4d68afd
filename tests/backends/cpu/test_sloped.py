"""ALiBi in matrix tiles, whose sums begin with the distances: each side of the diagonal, blocks across it, and what goes another way."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.support.fakes.software_tiles import AMX, software, tiles_kernel
from tests.support.generators.cpu.cases import AttentionCase, Load, complaints, make_data, run
from tests.support.generators.cpu.tile_cases import DISTANCE

Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
Breakable = Callable[[str | None], ctypes.CDLL]
LENGTHS: dict[str, Any] = {"q_len": (150,), "k_len": (517,), "capacity": 517}
SHORT: dict[str, Any] = {"q_len": (70,), "k_len": (45,), "capacity": 45, "top_left": True}
"""Rows behind the last key: there a block's copies of that key seem to be nearer than it is."""
CASES: dict[str, dict[str, Any]] = {
    "full": LENGTHS,
    "causal": {**LENGTHS, "right": 0},
    "window": {**LENGTHS, "left": 100, "right": 90, "sink": 4},
    "one side": {**LENGTHS, "right": -50},
    "other side": {**LENGTHS, "left": -50, "top_left": True},
    "behind": SHORT,
    "packed": {"packed": True, "q_len": (70, 3, 129), "k_len": (300, 40, 129)},
    "sink and dropout": {**LENGTHS, "sink_logits": True, "dropout": 0.2},
    "turned": {**LENGTHS, "scale": -0.2},
    "capped": {**LENGTHS, "softcap": 9.0},
}
LIMIT = "down >= -1 &&"
ACROSS, LEFT = "return {t.hill + from, -1, 1, j0};", "left = j1 - 1 <= diagonal"


def wrong_rows(library: ctypes.CDLL, slope: float, case: dict[str, Any]) -> list[str]:
    """What is wrong with two heads of the slope and of a third of it."""
    problem = AttentionCase("bf16", hdim=40, hdim_v=40, alibi=1, **{"scale": 40**-0.5, **case})
    make_data(problem, np.random.default_rng(7))
    problem.data["alibi_slopes"][...] = [[slope, slope / 3]]
    run(library, problem)
    return complaints(problem)


@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize("slope", [0.0, 2**-8, 0.5, 1.0, 40.0, -0.02])
@pytest.mark.parametrize("name", CASES)
def test_slopes(name: str, slope: float, load: Load) -> None:
    assert wrong_rows(load(AMX, "bf16", "prefill"), slope, CASES[name]) == []


@pytest.mark.slow
@pytest.mark.ci
def test_a_planted_distance(breakable_tiles: Breakable) -> None:
    assert wrong_rows(breakable_tiles(None), 0.02, CASES["other side"]) == []
    assert wrong_rows(breakable_tiles(DISTANCE), 0.02, CASES["other side"]) != []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("right", "wrong", "slope", "case"),
    [
        (ACROSS, "return {t.hill + from, 1, 1, j0};", 0.5, "causal"),
        (LEFT, "left = j0 <= diagonal", 0.5, "full"),
        (LIMIT, "", 40.0, "behind"),
    ],
)
def test_planted_distances(right: str, wrong: str, slope: float, case: str, build_text: Build) -> None:
    def planted(kernel: KernelSpec) -> str:
        text = software(kernel, emit(kernel))
        assert text.count(right) == 1
        return text.replace(right, wrong)

    assert wrong_rows(build_text(tiles_kernel(), planted), slope, CASES[case]) != []

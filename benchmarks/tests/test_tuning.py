"""The benchmark of tuning: shapes in a fixed order, and figures that follow from the rows; what was learned is judged on unseen shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tuning import gains as gains_of
from tuning import interval, read, regrets, shapes
from tuning_learned import algorithm, features, judged

from fmha_cli.domain.problem import Problem

RESULTS = Path(__file__).parents[2] / "results" / "data" / "tuning.json.xz"
KERNELS = [
    f"cpu:fwd:x86_64_v4:dtype=fp32:kind=prefill,simd=avx512,lanes_q={lanes},rows_s={rows},block_k={block}"
    for lanes, rows in ((2, 12), (1, 24), (3, 8), (4, 6))
    for block in (192, 384)
]


def row(number: int, best: int) -> dict[str, Any]:
    """A shape whose fastest kernel is known, where a default of 1,000 ns is the first."""
    levels = [1000 + 50 * abs(place - best) for place in range(len(KERNELS))]
    times = {"default": [levels[0]] * 20, "again": [levels[0]] * 20, "winner": [levels[best]] * 20}
    halving = {
        "order": [best, *(i for i in range(len(KERNELS)) if i != best)],
        "levels_ns": levels,
        "samples": [10] * 8,
    }
    return {
        "number": number,
        "problem": Problem.of(seqlen=64 * (number + 1), heads=1, hdim=64, dtype="fp32").to_dict(),
        "kernels": KERNELS,
        "halving": halving,
        "holdout": times,
        "exhaustive": {"levels_ns": levels},
    }


def test_shapes_come_in_one_order_and_each_once() -> None:
    first = [problem.digest for problem in shapes(40)]
    assert first == [problem.digest for problem in shapes(200)][:40]
    assert len(set(first)) == 40


def test_figures_follow_from_the_rows() -> None:
    won, noise = gains_of([row(0, 4)])
    assert won == [pytest.approx(0.2)]
    assert noise == [0.0]
    assert regrets(row(0, 4)) == {"default": pytest.approx(0.2), "halving": 0.0}
    low, high = interval([0.01] * 30)
    assert low == pytest.approx(high) == pytest.approx(0.01)


def test_features_read_the_kernels_name() -> None:
    assert algorithm(KERNELS[0])["rows_s"] == "12"
    first, other = (features(row(0, 0)["problem"], kernel) for kernel in KERNELS[:2])
    assert len(first) == len(other)
    assert first != other


def test_a_choice_is_learned_from_other_shapes() -> None:
    """One kernel is the best everywhere: every model finds it on a shape that it has not seen, the default does not."""
    pytest.importorskip("sklearn")
    found = judged([row(number, 5) for number in range(6)])
    assert found["default"] == [pytest.approx(0.25)] * 6
    assert max(found["best on average"]) == pytest.approx(0.0)
    assert max(found["boosted trees"]) <= 0.05
    assert max(found["least squares"]) <= 0.05


@pytest.mark.skipif(not RESULTS.exists(), reason="nothing was measured yet")
def test_the_published_rows_are_those_shapes() -> None:
    rows = read(RESULTS)["rows"]
    wanted = [problem.repro() for problem in shapes(200)]
    assert [one["flags"] for one in rows] == [wanted[one["number"]] for one in rows]

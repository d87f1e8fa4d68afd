"""Closed answers equal the float64 reference, keep little memory, and one wrong row among very many is found."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import problems

from fmha_cli.domain.features import CLOSED_FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.closed import ClosedAnswer, why_not
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import RowResult, forward

EVERYTHING = "-b 2 -H 6 --kv-heads 2 -d 40 --hdim-v 24 --dtype bf16 --lse "
LINES = [
    f"{EVERYTHING}-s 70 --seqlen-k 90 --causal",
    f"{EVERYTHING}-s 70 --seqlen-k 50 --causal --sink-logits filled",
    f"{EVERYTHING}-s 70 --mask window:9,3 --sink 4 --layout bshd:bhsd",
    f"{EVERYTHING}-s 70 --mask window-tl:0,5 --scale -0.3",
    f"{EVERYTHING}-s 70 --mask generic:5,-3 --layout bshd",
    f"{EVERYTHING}-s 9 --kv-cache paged:16 --cache-seqlens 100,31 --append 3 --rotary 16 --causal",
    f"{EVERYTHING}-s 9 --kv-cache linear --cache-seqlens 100,31 --cache-leftpad 0,7 --layout bshd",
    "--seqlens-q 3,0,40 --seqlens-k 9,5,70 -H 4 -d 24 --lse --layout bshd --mask causal-tl --dtype fp32",
    "-b 2 -H 2 -s 30 -d 32 --lse --dtype fp8_e4m3 --qscale head",
]


def agrees(problem: Problem, kind: str, seed: int = 0) -> None:
    """The closed answer of every row is that of the reference, and so is the error that it allows."""
    inputs = fill(problem, kind, seed)
    whole = forward(problem, inputs)
    pieces = list(ClosedAnswer(problem, kind, inputs, seed).pieces())
    for f in fields(RowResult):
        parts = [getattr(piece, f.name) for piece in pieces] or [getattr(whole, f.name)]
        found, expected = np.concatenate(parts), getattr(whole, f.name)
        assert found.shape == expected.shape
        if f.name not in ("reach", "width"):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=f.name)
        else:  # bounds by the longest K and V: of all keys here, of the keys that a block of rows sees there
            assert (found >= expected * (1 - 1e-9) - 1e-9).all(), f.name
            assert (found <= 16 * expected + 1e-9).all(), f.name
    for axis in ("b", "h", "i"):
        parts = [getattr(piece.rows, axis) for piece in pieces]
        np.testing.assert_array_equal(np.concatenate([*parts, np.zeros(0, np.int64)]), getattr(whole.rows, axis))


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", CLOSED_FILLS)
def test_every_storage_mask_and_layout_has_its_closed_answer(kind: str, line: str) -> None:
    problem = Problem.from_cli(line)
    assert why_not(problem, kind) is None
    agrees(problem, kind, seed=3)


@pytest.mark.parametrize(
    "line",
    [
        f"{EVERYTHING}-s 30 --seqlen-k 50 --causal --bias elementwise",
        f"{EVERYTHING}-s 30 --seqlen-k 50 --mask window:9,3 --bias elementwise:1hss --dtype fp16",
        "--seqlens-q 3,0,40 --seqlens-k 9,5,70 -H 4 -d 24 --lse --bias elementwise:bhss --sink-logits filled",
    ],
)
def test_a_pointer_adds_the_bias_of_its_key(line: str) -> None:
    problem = Problem.from_cli(line)
    assert why_not(problem, "pointer") is None
    assert "bias" in str(why_not(problem, "means"))
    agrees(problem, "pointer")


@settings(deadline=None, max_examples=60)
@given(problems(), st.sampled_from(CLOSED_FILLS), st.integers(0, 3))
def test_closed_answers_are_those_of_the_reference(problem: Problem, kind: str, seed: int) -> None:
    assume(problem.heads * problem.dense_pairs() < 500_000)
    assume(why_not(problem, kind) is None)
    agrees(problem, kind, seed)

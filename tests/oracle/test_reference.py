"""The blocked float64 forward pass agrees with the element-by-element formula for every feature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.domain.features import FILLS, Bias
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle import scores
from fmha_cli.oracle.dropout import fmha_stream
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.rows import all_rows
from tests.support.referees.brute import attention

SMALL = "-b 2 -H 4 --kv-heads 2 -s 7 --seqlen-k 9 -d 8 --hdim-v 5 --dtype fp32"

CASES = [
    SMALL,
    f"{SMALL} --layout bshd:bhsd --lse",
    f"{SMALL} --causal",
    f"{SMALL} --mask causal-tl",
    f"{SMALL} --mask window:2,1",
    f"{SMALL} --mask window:-1,3 --scale -0.4",
    f"{SMALL} --mask window-tl:3,-1 --sink 2",
    f"{SMALL} --mask window-tl:1,0 --sink 3",
    f"{SMALL} --mask window:1,0 --sink 1",
    f"{SMALL} --mask generic:3,2",
    f"{SMALL} --mask generic:-2,4",
    f"{SMALL} --mask generic:4,-2 --sink 2",
    f"{SMALL} --sink-logits filled --mask window:0,0",
    "-b 2 -H 2 -s 9 --seqlen-k 4 -d 8 --dtype fp32 --causal --sink-logits filled",
    "-b 2 -H 2 -s 9 --seqlen-k 4 -d 8 --dtype fp32 --causal",
    "-b 2 -H 2 -s 3 --seqlen-k 0 -d 8 --dtype fp32",
    f"{SMALL} --bias elementwise",
    f"{SMALL} --bias elementwise:1hss --causal",
    *(f"{SMALL} --bias elementwise:{rank}" for rank in ("b1ss", "111s", "b11s", "1h1s", "bh1s")),
    f"{SMALL} --bias elementwise:bhss",
    f"{SMALL} --alibi --causal",
    "-H 6 -s 5 --seqlen-k 8 -d 8 --dtype fp32 --alibi --mask causal-tl",
    f"{SMALL} --alibi-slopes filled:h",
    f"{SMALL} --alibi-slopes filled:bh",
    f"{SMALL} --softcap 1.5 --bias elementwise",
    f"{SMALL} --dropout 0.3 --seed 12345678901234 --offset 77",
    f"{SMALL} --dtype bf16 --causal",
    f"{SMALL} --dtype fp16",
    f"{SMALL} --dtype fp8_e4m3",
    "--seqlens-q 3,0,6 --seqlens-k 5,2,0 -H 4 --kv-heads 2 -d 8 --hdim-v 3 --dtype fp32 --bias elementwise:bhss",
    "--seqlens-q 3,4,6 --seqlens-k 5,2,7 -H 4 --kv-heads 2 -d 8 --dtype fp16 --layout bshd --causal --dropout 0.2",
    "--seqlens-q 3,4,6 -H 2 -d 8 --dtype fp32 --layout bshd:bhsd --bias elementwise --mask window:2,0 --sink 1",
    "-b 2 -H 4 --kv-heads 2 -s 2 -d 8 --kv-cache linear --cache-seqlens 5,9 --dtype fp32 --causal",
    "-b 2 -H 4 --kv-heads 2 -s 2 -d 8 --kv-cache paged:4 --cache-seqlens 5,9 --dtype bf16 --causal",
    "-b 3 -H 4 --kv-heads 2 -s 2 -d 8 --kv-cache paged:4 --cache-seqlens 0,9,3 --append 3 --rotary 6 --dtype fp32",
    "-b 2 -H 2 -s 4 -d 8 --kv-cache linear --cache-seqlens 1,9 --append 2 --rotary 8:interleaved --dtype fp16 --causal",
    "-b 2 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 7 --append 1 --layout bshd --dtype fp32",
    "-b 3 -H 4 --kv-heads 2 -s 2 -d 8 --kv-cache linear --cache-seqlens 5,0,9 --cache-leftpad 3,2,0 --dtype fp32 --causal",
    "-b 2 -H 2 -s 4 -d 8 --kv-cache linear --cache-seqlens 1,9 --cache-leftpad 4,1 --append 2 --rotary 8 --dtype fp32",
    "--seqlens-q 3,1 -H 2 -d 8 --kv-cache linear --cache-seqlens 4,6 --cache-leftpad 2 --layout bshd --dtype fp32 --alibi",
    "--seqlens-q 3,1 -H 2 -d 8 --kv-cache paged:2 --cache-seqlens 4,6 --append 1 --rotary 4 --dtype fp32 --alibi",
    "-b 2 -H 4 --kv-heads 1 -s 5 --seqlen-k 7 -d 9 --mla-rope 3 --dtype fp32 --causal",
    "--seqlens-q 3,0,6 --seqlens-k 5,2,0 -H 4 --kv-heads 2 -d 8 --mla-rope 7 --dtype bf16 --layout bshd --dropout 0.2",
    "-b 3 -H 4 --kv-heads 2 -s 2 -d 8 --mla-rope 2 --kv-cache paged:4 --cache-seqlens 0,9,3 --append 3 --rotary 6 --dtype fp32",
    "-b 2 -H 2 -s 4 -d 8 --mla-rope 1 --kv-cache linear --cache-seqlens 1,9 --cache-leftpad 4,1 --append 2 --dtype fp16",
]


def assert_matches_brute(problem: Problem, kind: str = "normal", seed: int = 3) -> None:
    """Assert that the oracle's rows equal the formula's to float64 accuracy."""
    inputs = fill(problem, kind, seed)
    reference = forward(problem, inputs)
    expected = attention(problem, inputs)
    o = np.array([row for row, _ in expected.values()]).reshape(-1, problem.hdim_v)
    lse = np.array([x for _, x in expected.values()])
    assert list(zip(reference.rows.b, reference.rows.h, reference.rows.i, strict=True)) == list(expected)
    np.testing.assert_allclose(reference.o, o, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(reference.lse, lse, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("line", CASES)
def test_formula(line: str) -> None:
    assert_matches_brute(Problem.from_cli(line))


@pytest.mark.parametrize("line", [CASES[6], CASES[8], CASES[17], CASES[24], CASES[29], CASES[32], CASES[33]])
def test_formula_across_blocks(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "KEY_BLOCK", 4)
    monkeypatch.setattr(scores, "ROW_BLOCK", 3)
    assert_matches_brute(Problem.from_cli(line))


@pytest.mark.parametrize("kind", FILLS)
def test_every_fill(kind: str) -> None:
    assert_matches_brute(Problem.from_cli(f"{SMALL} --causal --softcap 30 --dtype bf16"), kind)


@st.composite
def problems(draw: st.DrawFn) -> str:
    """The flags of a small random problem."""
    ratio, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    words = ["-H", ratio * kv_heads, "--kv-heads", kv_heads, "-d", draw(st.integers(1, 9)), "--dtype", "fp32"]
    words += ["--hdim-v", draw(st.integers(1, 9)), "--layout", draw(st.sampled_from(["bhsd", "bshd", "bhsd:bshd"]))]
    lengths = st.lists(st.integers(0, 9), min_size=1, max_size=3)
    if draw(st.booleans()):
        q = draw(lengths)
        k = draw(st.lists(st.integers(0, 9), min_size=len(q), max_size=len(q)))
        words += ["--seqlens-q", ",".join(map(str, q)), "--seqlens-k", ",".join(map(str, k))]
    else:
        words += ["-b", draw(st.integers(1, 2)), "-s", draw(st.integers(1, 9)), "--seqlen-k", draw(st.integers(0, 9))]
    bound = st.integers(-3, 6)
    name = draw(st.sampled_from(["none", "causal", "causal-tl", "window", "window-tl", "generic"]))
    with_sizes = name in ("window", "window-tl", "generic")
    words += [
        "--mask",
        f"{name}:{draw(bound)},{draw(bound)}" if with_sizes else name,
        "--sink",
        draw(st.integers(0, 4)),
    ]
    bias = draw(
        st.sampled_from(["none", "alibi", *(f"elementwise:{rank.value}" for rank in Bias if rank is not Bias.NONE)])
    )
    words += [
        "--bias",
        bias,
        "--softcap",
        draw(st.sampled_from([0.0, 2.5])),
        "--dropout",
        draw(st.sampled_from([0.0, 0.4])),
    ]
    words += ["--seed", draw(st.integers(0, 2**64 - 1)), "--offset", draw(st.integers(0, 2**32 - 1))]
    words += ["--sink-logits", "filled"] if draw(st.booleans()) else []
    return " ".join(map(str, words))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(problems(), st.sampled_from(FILLS), st.integers(1, 5), st.integers(1, 5))
def test_any_problem(line: str, kind: str, key_block: int, row_block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "KEY_BLOCK", key_block)
        patch.setattr(scores, "ROW_BLOCK", row_block)
        assert_matches_brute(Problem.from_cli(line), kind)


def test_the_reach_is_that_of_the_keys_that_dropout_leaves() -> None:
    problem = Problem.from_cli("-b 1 -H 64 -s 1 --seqlen-k 2 -d 4 --dtype fp32 --bias elementwise --dropout 0.5")
    inputs = dict(fill(problem))
    inputs["k"] = np.zeros_like(inputs["k"])
    inputs["bias"] = np.array([[[[0.0, -50.0]]]], np.float32)
    rows = all_rows(problem)
    kept = fmha_stream(problem, 0, rows.h, rows.i, 0, 2) > 0
    alone = kept[:, 1] & ~kept[:, 0]
    assert 0 < alone.sum() < len(alone)
    reach = forward(problem, inputs).reach
    np.testing.assert_allclose(reach[alone], 50.0)
    np.testing.assert_allclose(reach[~alone], 0.0, atol=1e-12)

"""Gradients agree with finite differences of the forward pass, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle import scores
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tolerance import compare_gradients
from tests.support.models.kernel_model_backward import model_backward

SMALL = "-b 2 -H 4 --kv-heads 2 -s 5 --seqlen-k 6 -d 4 --hdim-v 3 --dtype fp32 --direction bwd"
CASES = [
    SMALL,
    f"{SMALL} --layout bshd --causal",
    f"{SMALL} --mask window:2,1 --sink 1 --softcap 1.5",
    f"{SMALL} --mask generic:2,2 --sink-logits filled",
    f"{SMALL} --bias elementwise:11ss --dbias",
    f"{SMALL} --bias elementwise:1hss --dbias --softcap 2 --causal",
    f"{SMALL} --bias elementwise:bhss --dbias --dropout 0.3 --seed 9",
    *(f"{SMALL} --bias elementwise:{rank} --dbias --causal" for rank in ("b1ss", "111s", "b11s", "1h1s", "bh1s")),
    "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 4 --dtype fp32 --direction bwd --bias elementwise:111s --dbias",
    "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 4 --dtype fp32 --direction bwd --bias elementwise:b11s --dbias",
    f"{SMALL} --alibi --dropout 0.2",
    "-b 1 -H 2 -s 6 --seqlen-k 4 -d 4 --dtype fp32 --direction bwd --causal",
    "--seqlens-q 3,0,4 --seqlens-k 2,3,5 -H 2 -d 4 --dtype fp32 --direction bwd --layout bshd --causal",
    "--seqlens-q 3,2,4 --seqlens-k 2,0,5 -H 2 -d 4 --dtype fp32 --direction bwd",
    "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 4 --dtype fp32 --direction bwd --bias elementwise:1hss --dbias",
    "-b 2 -H 4 --kv-heads 2 -s 5 --seqlen-k 6 -d 7 --mla-rope 3 --dtype fp32 --direction bwd --causal --dropout 0.2",
    "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 8 --mla-rope 7 --dtype fp32 --direction bwd --layout bshd --softcap 2",
]


def doubles(problem: Problem, seed: int = 1) -> dict[str, Any]:
    """The problem's inputs as float64, so steps of 1e-6 are not rounded away."""
    return {
        name: x if x.dtype.kind == "i" else x.astype(np.float64) for name, x in fill(problem, "normal", seed).items()
    }


def loss(problem: Problem, inputs: dict[str, Any]) -> float:
    reference = forward(problem, inputs)
    do = reference.rows.take(problem, inputs["do"], problem.layout_out)
    return float((reference.o * do).sum())


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("line", CASES)
def test_finite_differences(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "KEY_BLOCK", 4)
    monkeypatch.setattr(scores, "ROW_BLOCK", 3)
    problem = Problem.from_cli(line)
    inputs = doubles(problem)
    gradients = backward(problem, inputs)
    rng = np.random.default_rng(0)
    for name in {"q", "k", "v", *(["bias"] if problem.dbias else [])} & set(inputs):
        gradient = getattr(gradients, f"d{name}")
        usable = np.isfinite(inputs[name])
        for _ in range(3):
            direction = np.where(usable, rng.standard_normal(gradient.shape), 0.0)
            step, moved = 1e-5, dict(inputs)
            losses = []
            for sign in (1, -1):
                moved[name] = inputs[name] + sign * step * direction
                losses.append(loss(problem, moved))
            slope = (losses[0] - losses[1]) / (2 * step)
            assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-6, abs=1e-8)


def test_masked_rows_may_hold_nan() -> None:
    problem = Problem.from_cli("-H 1 -s 4 --seqlen-k 6 -d 4 --dtype fp32 --direction bwd --mask causal-tl --softcap 3")
    inputs = doubles(problem)
    clean = backward(problem, inputs)
    for name in ("k", "v"):
        inputs[name][0, 0, 4:] = np.nan
    poisoned = backward(problem, inputs)
    for name in ("dq", "dk", "dv"):
        np.testing.assert_array_equal(getattr(poisoned, name), getattr(clean, name))


def test_a_cache_has_no_backward_pass() -> None:
    problem = Problem.from_cli("-s 2 -d 4 --kv-cache linear --cache-seqlens 3")
    with pytest.raises(ImpossibleProblem):
        backward(problem, fill(problem))


@pytest.mark.sampled(16, ci="all")
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("line", CASES)
def test_honest_backward_passes_and_a_wrong_one_fails(line: str, dtype: str) -> None:
    problem = Problem.from_cli(f"{line} --dtype {dtype}")
    inputs = fill(problem, seed=2)
    got = model_backward(problem, inputs)
    gradients = backward(problem, inputs)
    comparison = compare_gradients(problem, got, gradients)
    assert comparison.verdict is Verdict.PASSED, comparison
    for name in got:
        wrong = {**got, name: (got[name].astype(np.float64) * 1.25).astype(got[name].dtype)}
        comparison = compare_gradients(problem, wrong, gradients)
        assert [n for n, check in comparison.checks if not check.passed] == [name]


def test_improbable_keys_may_have_the_rounding_error_of_a_p_in_16_bits() -> None:
    """Some kernels take dS from a P in the inputs' type, in which exp(-20) of a second key is 0."""
    problem = Problem.from_cli("-b 1 -H 1 -s 1 --seqlen-k 2 -d 8 --scale 1 --direction bwd")
    inputs = {
        name: np.zeros((1, 1, n, 8), np.float16) for name, n in (("q", 1), ("k", 2), ("v", 2), ("do", 1), ("o", 1))
    }
    inputs["q"][..., 0], inputs["do"][..., 0] = 4, 1
    inputs["k"][0, 0, :, 0], inputs["v"][0, 0, :, 0] = (0, -5), (0, 100)
    gradients = backward(problem, inputs)
    lost = float(np.abs(gradients.dk[0, 0, 1, 0]))
    assert 0 < lost < 2**-24 * 100 * 4
    assert gradients.noise["dk"][0, 0, 1] > 2**-14 * 100 * 4


def test_a_capped_scores_slope_keeps_its_digits_where_tanh_is_near_one() -> None:
    problem = Problem.from_cli("-H 1 -s 2 --seqlen-k 3 -d 4 --dtype fp32 --softcap 0.5 --scale 1 --direction bwd")
    inputs = doubles(problem)
    inputs["q"] *= 10
    q, k, v, do = (inputs[name][0, 0] for name in ("q", "k", "v", "do"))
    x = q @ k.T / 0.5
    p = np.exp(0.5 * np.tanh(x))
    p /= p.sum(axis=1, keepdims=True)
    ds = p * (do @ v.T - ((p @ v) * do).sum(axis=1, keepdims=True)) / np.cosh(x) ** 2
    assert np.abs(x).min(axis=0).max() > 20  # 1 - tanh^2 is 0 there, in float64
    np.testing.assert_allclose(backward(problem, inputs).dk[0, 0], ds.T @ q, rtol=1e-9)


def test_the_sign_of_the_scale_does_not_move_a_budget() -> None:
    line = "-b 1 -H 2 --kv-heads 1 -s 3 --seqlen-k 5 -d 12 --mla-rope 4 --dtype fp32 --direction bwd --scale"
    noises = []
    for sign in (1, -1):
        problem = Problem.from_cli(f"{line} {sign * 0.1}")
        inputs = doubles(problem)
        inputs["q"] *= sign
        noises.append(backward(problem, inputs).noise)
    for name, noise in noises[0].items():
        assert (noise > 0).all()
        np.testing.assert_allclose(noises[1][name], noise, rtol=1e-12)


def test_dropout_multiplies_the_least_step_of_p_in_dv() -> None:
    line = "-H 1 -s 3 --seqlen-k 5 -d 4 --dtype bf16 --direction bwd"
    plain, dropped = (
        backward(p, fill(p, "normal", 1)).widths for p in map(Problem.from_cli, (line, f"{line} --dropout 0.9"))
    )
    assert dropped["dv"] == pytest.approx(10 * plain["dv"])
    np.testing.assert_array_equal(dropped["dk"], plain["dk"])


def test_an_improbable_weights_exponent_counts_in_its_own_row_of_dv() -> None:
    problem = Problem.from_cli("-H 1 -s 1 --seqlen-k 2 -d 4 --dtype fp32 --direction bwd --bias elementwise")
    inputs = doubles(problem)
    inputs["q"][...] = 0
    inputs["bias"][..., :] = [0, -80]
    noise = backward(problem, inputs).noise["dv"][0, 0] / np.linalg.norm(inputs["do"])
    assert noise[0] == pytest.approx(1)
    assert noise[1] / np.exp(-80) == pytest.approx(80 / (1 + 2**0.5))


def test_an_error_of_a_score_moves_a_low_caps_slope_more_than_p() -> None:
    for cap, factor in ((0.5, 4), (2, 1), (30, 1)):
        problem = Problem.from_cli(f"-H 2 -s 3 --seqlen-k 4 -d 4 --dtype fp32 --direction bwd --softcap {cap}")
        inputs = doubles(problem)
        assert backward(problem, inputs).reach == pytest.approx(factor * forward(problem, inputs).reach.max())

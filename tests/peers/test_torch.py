"""The oracle agrees with PyTorch on the CPU in float64: SDPA, its autograd, and FlexAttention's eager form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.features import FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.dropout import fmha_stream, keep_scale
from fmha_cli.oracle.fills import fill, standard_slopes
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tolerance import compare

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
sdpa = torch.nn.functional.scaled_dot_product_attention

BASE = "-b 2 -H 6 --kv-heads 2 -s 37 --seqlen-k 53 -d 32 --hdim-v 24 --dtype fp32"
SQUARE = "-b 2 -H 4 -s 41 -d 32 --dtype fp32"
TIGHT = {"rtol": 1e-11, "atol": 1e-12}

MASKS = [
    "none",
    "causal",
    "causal-tl",
    "window:5,3",
    "window:-1,4",
    "window-tl:7,0",
    "window-tl:6,-1",
    "generic:4,3",
    "xt:8",
    "xb:9",
]
FEATURES = [
    "",
    "--bias elementwise:11ss",
    "--bias elementwise:1hss",
    "--bias elementwise:bhss",
    "--bias elementwise:b11s",
    "--alibi",
    "--alibi-slopes filled:bh",
    "--softcap 2.5",
    "--dropout 0.3 --seed 11 --offset 5",
    "--scale 0.37",
]


def doubles(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(x.astype(np.float64)) for name, x in inputs.items()}


def visible(problem: Problem) -> Any:
    """(seqlen_q, seqlen_k) bool, from the contract's inequalities."""
    rows, keys = problem.seqlen_q, problem.seqlen_k
    i, j = torch.arange(rows)[:, None], torch.arange(keys)[None]
    delta = 0 if problem.mask.align.value == "top_left" else keys - rows
    sees = torch.ones(rows, keys, dtype=torch.bool)
    if problem.mask.right is not None:
        sees &= j <= i + delta + problem.mask.right
    if problem.mask.left is not None:
        sees &= (j >= i + delta - problem.mask.left) | (j < problem.sink)
    return sees


def additive(problem: Problem, t: dict[str, Any]) -> Any:
    """Bias, ALiBi and mask as one float mask (B, H, seqlen_q, seqlen_k)."""
    rows, keys = problem.seqlen_q, problem.seqlen_k
    out = torch.zeros(problem.batch, problem.heads, rows, keys, dtype=torch.float64)
    if "bias" in t:
        out = out + t["bias"]
    if problem.alibi.value != "none":
        delta = 0 if problem.mask.align.value == "top_left" else keys - rows
        distance = (torch.arange(rows)[:, None] + delta - torch.arange(keys)[None]).abs()
        slopes = t["alibi_slopes"]
        out = out - (slopes if slopes.ndim == 2 else slopes[None])[:, :, None, None] * distance
    return out.masked_fill(~visible(problem), float("-inf"))


def kept(problem: Problem) -> Any:
    """Dropout factors (B, H, seqlen_q, seqlen_k); other tests cover the stream itself."""
    rows = np.arange(problem.seqlen_q)
    planes = [
        [fmha_stream(problem, b, rows * 0 + h, rows, 0, problem.seqlen_k) for h in range(problem.heads)]
        for b in range(problem.batch)
    ]
    return torch.from_numpy(np.array(planes)).double() * keep_scale(problem.dropout)


def by_operations(problem: Problem, t: dict[str, Any]) -> Any:
    """O from elementary differentiable operations; this also covers what SDPA lacks."""
    ratio = problem.heads // problem.kv_heads
    k, v = (t[name].repeat_interleave(ratio, 1) for name in ("k", "v"))
    s = t["q"] @ k.transpose(-1, -2) * problem.scale
    if problem.softcap:
        s = problem.softcap * torch.tanh(s / problem.softcap)
    s = s + additive(problem, t)
    if "sink_logits" in t:
        sinks = t["sink_logits"][None, :, None, None].expand(*s.shape[:3], 1)
        p = torch.softmax(torch.cat([s, sinks], -1), -1)[..., :-1]
    else:
        p = torch.nan_to_num(torch.softmax(s, -1))
    if problem.dropout:
        p = p * kept(problem)
    return p @ v


@pytest.mark.parametrize("mask", MASKS)
def test_sdpa_masks(mask: str) -> None:
    problem = Problem.from_cli(f"{BASE} --mask {mask} --sink 2")
    inputs = fill(problem, "normal", 5)
    t = doubles(inputs)
    expected = sdpa(t["q"], t["k"], t["v"], attn_mask=visible(problem), scale=problem.scale, enable_gqa=True)
    got = forward(problem, inputs).o_tensor(problem)
    np.testing.assert_allclose(got, torch.nan_to_num(expected).numpy(), **TIGHT)


@pytest.mark.parametrize("flags", [f for f in FEATURES if "softcap" not in f and "dropout" not in f])
def test_sdpa_float_masks(flags: str) -> None:
    problem = Problem.from_cli(f"{BASE} --mask window:20,9 {flags}")
    inputs = fill(problem, "normal", 6)
    t = doubles(inputs)
    bias = additive(problem, t)
    expected = sdpa(t["q"], t["k"], t["v"], attn_mask=bias, scale=problem.scale, enable_gqa=True)
    np.testing.assert_allclose(forward(problem, inputs).o_tensor(problem), expected.numpy(), **TIGHT)


def test_sdpa_is_causal() -> None:
    problem = Problem.from_cli(f"{SQUARE} --causal")
    inputs = fill(problem)
    t = doubles(inputs)
    expected = sdpa(t["q"], t["k"], t["v"], is_causal=True)
    np.testing.assert_allclose(forward(problem, inputs).o_tensor(problem), expected.numpy(), **TIGHT)


def test_causal_bias_of_torch_has_the_same_corners() -> None:
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    for mask, make in (("causal", causal_lower_right), ("causal-tl", causal_upper_left)):
        problem = Problem.from_cli(f"-b 1 -H 2 -s 9 --seqlen-k 14 -d 16 --dtype fp32 --mask {mask}")
        inputs = fill(problem)
        t = doubles(inputs)
        expected = sdpa(t["q"], t["k"], t["v"], attn_mask=make(9, 14))
        np.testing.assert_allclose(forward(problem, inputs).o_tensor(problem), expected.numpy(), **TIGHT)


@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("flags", ["-s 700 -d 64", "-s 1024 -d 128 --mask causal-tl", "-s 1 --seqlen-k 3000 -d 64"])
def test_the_rules_accept_torch_kernels(flags: str, dtype: str, kind: str) -> None:
    """The budgets come from an emulation; real kernels by others must fit into them too."""
    problem = Problem.from_cli(f"-b 1 -H 2 --dtype {dtype} {flags}")
    inputs = fill(problem, kind, 2)
    storage = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    q, k, v = (torch.from_numpy(inputs[name].astype(np.float32)).to(storage) for name in ("q", "k", "v"))
    o = sdpa(q, k, v, is_causal=problem.mask.right == 0).float().numpy()
    comparison = compare(problem, o, None, forward(problem, inputs), fill=kind)
    assert comparison.verdict is Verdict.PASSED, comparison


@pytest.mark.parametrize("mask", ["none", "causal", "window:9,4", "window-tl:3,12", "generic:5,2"])
@pytest.mark.parametrize(
    "flags", [*FEATURES, "--sink-logits filled", "--softcap 3 --bias elementwise:1hss --dropout 0.2"]
)
def test_forward_and_gradients(mask: str, flags: str) -> None:
    bias = " --dbias" if "elementwise" in flags else ""
    problem = Problem.from_cli(f"{BASE} --mask {mask} --sink 1 {flags} --direction fwd+bwd{bias}")
    inputs = fill(problem, "normal", 8)
    t = doubles(inputs)
    wanted = ["q", "k", "v", *(["bias"] if bias else [])]
    for name in wanted:
        t[name].requires_grad_(True)
    o = by_operations(problem, t)
    np.testing.assert_allclose(forward(problem, inputs).o_tensor(problem), o.detach().numpy(), **TIGHT)
    o.backward(t["do"])
    gradients = backward(problem, inputs)
    for name in wanted:
        expected = torch.nan_to_num(t[name].grad).numpy()
        np.testing.assert_allclose(getattr(gradients, f"d{name}"), expected, rtol=1e-9, atol=1e-10, err_msg=name)


def test_sdpa_gradients() -> None:
    problem = Problem.from_cli(f"{BASE} --mask window:20,9 --direction bwd")
    inputs = fill(problem, "normal", 9)
    t = doubles(inputs)
    for name in ("q", "k", "v"):
        t[name].requires_grad_(True)
    sdpa(t["q"], t["k"], t["v"], attn_mask=visible(problem), scale=problem.scale, enable_gqa=True).backward(t["do"])
    gradients = backward(problem, inputs)
    for name in ("q", "k", "v"):
        np.testing.assert_allclose(getattr(gradients, f"d{name}"), t[name].grad.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flags", ["", "--softcap 2.5", "--alibi", "--mask window:6,2", "--causal --alibi --softcap 4"])
def test_flex_attention_with_lse(flags: str) -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention", reason="this PyTorch has no FlexAttention")
    problem = Problem.from_cli(f"-b 1 -H 4 --kv-heads 2 -s 24 --seqlen-k 40 -d 16 --dtype fp32 --lse {flags}")
    inputs = fill(problem, "normal", 3)
    t = doubles(inputs)
    slopes, sees = torch.from_numpy(standard_slopes(4).astype(np.float64)), visible(problem)

    def modify(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if problem.softcap:
            s = problem.softcap * torch.tanh(s / problem.softcap)
        if problem.alibi.value != "none":
            s = s - slopes[h] * (i + 16 - j).abs()
        return torch.where(sees[i, j], s, float("-inf"))

    o, lse = flex.flex_attention(
        t["q"], t["k"], t["v"], score_mod=modify, scale=problem.scale, enable_gqa=True, return_lse=True
    )
    reference = forward(problem, inputs)
    np.testing.assert_allclose(reference.o_tensor(problem), o.numpy(), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(reference.lse_tensor(problem), lse.numpy(), rtol=1e-6, atol=1e-7)


def test_lse_is_torch_logsumexp() -> None:
    problem = Problem.from_cli(f"{BASE} --causal --alibi --lse")
    inputs = fill(problem)
    t = doubles(inputs)
    s = t["q"] @ t["k"].repeat_interleave(3, 1).transpose(-1, -2) * problem.scale + additive(problem, t)
    np.testing.assert_allclose(forward(problem, inputs).lse_tensor(problem), torch.logsumexp(s, -1).numpy(), **TIGHT)


def test_packed_sequences_are_torch_sequences() -> None:
    problem = Problem.from_cli(
        "--seqlens-q 7,0,19 --seqlens-k 11,4,23 -H 4 --kv-heads 2 -d 16 --dtype fp32 --layout bshd --causal"
    )
    inputs = fill(problem)
    got = forward(problem, inputs).o_tensor(problem)
    t = doubles(inputs)
    starts_q, starts_k = (0, 7, 7, 26), (0, 11, 15, 38)
    for b in (0, 2):
        q = t["q"][starts_q[b] : starts_q[b + 1]].transpose(0, 1)
        k, v = (t[name][starts_k[b] : starts_k[b + 1]].transpose(0, 1) for name in ("k", "v"))
        rows, keys = q.shape[1], k.shape[1]
        sees = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
        expected = sdpa(q[None], k[None], v[None], attn_mask=sees, enable_gqa=True)[0].transpose(0, 1)
        np.testing.assert_allclose(got[starts_q[b] : starts_q[b + 1]], expected.numpy(), **TIGHT)

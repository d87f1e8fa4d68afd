"""KV caches against PyTorch in float64: the oracle, and the CPU's kernels without the oracle in between.

Each sequence's keys are gathered from pages by PyTorch's indexing, rotated as complex numbers, and given to SDPA.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.features import RotaryStyle
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from tests.support.builds.cpu_outputs import outputs, tensors

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
sdpa = torch.nn.functional.scaled_dot_product_attention

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
LARGEST = {"fp32": 2e-6, "fp16": 2e-3, "bf16": 2e-2}
"""The largest error of a kernel, as a share of the largest element of O."""

DECODE = "-b 3 -H 8 --kv-heads 2 -d 32 --hdim-v 24"
CACHES = {
    "linear": f"{DECODE} -s 1 --kv-cache linear --cache-seqlens 300,17,1",
    "padding": f"{DECODE} -s 2 --kv-cache linear --cache-seqlens 300,17,5 --cache-leftpad 4,0,9 --causal",
    "paged": f"{DECODE} -s 1 --kv-cache paged:16 --cache-seqlens 300,17,1",
    "odd-pages": f"{DECODE} -s 4 --kv-cache paged:7 --cache-seqlens 100,17,9 --causal",
    "window": f"{DECODE} -s 5 --kv-cache paged:16 --cache-seqlens 300,40,9 --mask window:70,0",
    "prefill": f"{DECODE} -s 150 --kv-cache paged:16 --cache-seqlens 300,200,150 --causal",
    "append": f"{DECODE} -s 3 --kv-cache paged:16 --cache-seqlens 61,17,0 --append 3 --causal",
    "rotary": f"{DECODE} -s 3 --kv-cache paged:16 --cache-seqlens 61,17,0 --append 3 --causal --rotary 16",
    "interleaved": f"{DECODE} -s 2 --kv-cache linear --cache-seqlens 61,17,2 --append 2 --causal --rotary 32:interleaved",
    "splits": f"{DECODE} -s 1 --kv-cache paged:16 --cache-seqlens 300,17,1 --splits 3",
    "one-head": "-b 2 -H 16 --kv-heads 1 -s 1 -d 64 --kv-cache paged:16 --cache-seqlens 500,31",
    "latent": "-b 2 -H 16 --kv-heads 1 -s 1 -d 72 --kv-cache paged:16 --cache-seqlens 200,31 --mla-rope 8",
    "softcap": f"{DECODE} -s 2 --kv-cache paged:16 --cache-seqlens 100,31,9 --causal --softcap 3 --alibi",
}


def rotated(x: Any, first: int, problem: Problem) -> Any:
    """Rows (..., n, d) at positions first, first + 1 ..., as complex numbers times exp(i angle)."""
    dim = problem.rotary.dim
    if not dim:
        return x
    turns = torch.arange(dim // 2, dtype=torch.float64)
    places = torch.arange(first, first + x.shape[-2], dtype=torch.float64)
    angles = torch.outer(places, 10000.0 ** (-2 * turns / dim))
    head, rest = x[..., :dim], x[..., dim:]
    halves = problem.rotary.style is RotaryStyle.HALF
    pairs = torch.stack(head.chunk(2, -1), -1) if halves else head.unflatten(-1, (-1, 2))
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    )
    head = torch.cat(turned.unbind(-1), -1) if halves else turned.flatten(-2)
    return torch.cat([head, rest], -1)


def keys_of(problem: Problem, t: dict[str, Any], name: str, b: int) -> Any:
    """(kv_heads, keys, columns) of sequence b, the appended ones last."""
    before = problem.key_lengths()[b] - problem.append
    if "block_table" in t:
        pages = t["block_table"][b].long().clamp(min=0)
        past = t[name][pages].flatten(0, 1)[:before].transpose(0, 1)
    else:
        pad = 0 if problem.cache_leftpad is None else problem.cache_leftpad[b]
        past = t[name][b, :, pad : pad + before]
    if not problem.append:
        return past
    new = t[f"{name}_new"][b]
    if name == "k":  # the cache keeps fp32 numbers; of narrower dtypes, the comparison allows the difference
        new = rotated(new, before, problem).float().double()
    return torch.cat([past, new], 1)


def expected(problem: Problem, inputs: dict[str, Any]) -> Any:
    """(batch, heads, seqlen_q, hdim_v) by PyTorch, sequence by sequence."""
    t = {name: torch.from_numpy(x if x.dtype.kind == "i" else x.astype(np.float64)) for name, x in inputs.items()}
    rows, out = problem.seqlen_q, []
    for b, keys in enumerate(problem.key_lengths()):
        k = keys_of(problem, t, "k", b)
        v = k[..., : problem.hdim_v] if problem.v_in_k else keys_of(problem, t, "v", b)
        q = rotated(t["q"][b], keys - rows, problem)
        i, j = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)[None]
        sees = torch.ones(rows, keys, dtype=torch.bool)
        if problem.mask.right is not None:
            sees &= j <= i + problem.mask.right
        if problem.mask.left is not None:
            sees &= j >= i - problem.mask.left
        if problem.softcap:
            s = q @ k.repeat_interleave(problem.heads // problem.kv_heads, 0).transpose(-1, -2) * problem.scale
            s = problem.softcap * torch.tanh(s / problem.softcap)
            s = s - t["alibi_slopes"].reshape(-1, problem.heads)[0][:, None, None] * (i - j).abs()
            p = torch.softmax(s.masked_fill(~sees, float("-inf")), -1)
            out.append(torch.nan_to_num(p) @ v.repeat_interleave(problem.heads // problem.kv_heads, 0))
            continue
        o = sdpa(q[None], k[None], v[None], attn_mask=sees, scale=problem.scale, enable_gqa=True)[0]
        out.append(torch.nan_to_num(o))
    return torch.stack(out).numpy()


@pytest.mark.parametrize("name", CACHES)
def test_the_oracle_reads_caches_as_torch_does(name: str) -> None:
    problem = Problem.from_cli(f"{CACHES[name]} --dtype fp32")
    inputs = fill(problem, "normal", 4)
    np.testing.assert_allclose(forward(problem, inputs).o_tensor(problem), expected(problem, inputs), **TIGHT)


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("name", CACHES)
def test_kernels_read_caches_as_torch_does(name: str, dtype: str, shared_cache: Path) -> None:
    problem = Problem.from_cli(f"{CACHES[name]} --dtype {dtype}")
    inputs = tensors(problem)
    wanted = expected(problem, inputs)
    (o,) = outputs(problem, inputs, shared_cache, "o")
    got = o.astype(np.float64).reshape(wanted.shape)
    assert np.abs(got - wanted).max() <= LARGEST[dtype] * np.abs(wanted).max()


@pytest.mark.parametrize("kv", ["int8", "fp8_e4m3", "fp8_e5m2"])
def test_kernels_read_narrow_caches_as_torch_does(kv: str, shared_cache: Path) -> None:
    problem = Problem.from_cli(f"{CACHES['paged']} --dtype bf16 --kv-dtype {kv} --qscale tensor")
    inputs = tensors(problem)
    wide = {name: x.astype(np.float64) for name, x in inputs.items() if x.dtype != np.int32}
    wide |= {name: wide[name] * float(wide[f"{name}_descale"][0]) for name in "kv"}
    wanted = expected(problem, {**wide, "block_table": inputs["block_table"]})
    (o,) = outputs(problem, inputs, shared_cache, "o")
    got = o.astype(np.float64).reshape(wanted.shape)
    assert np.abs(got - wanted).max() <= LARGEST["bf16"] * np.abs(wanted).max()


def test_a_page_of_another_sequence_is_seen(shared_cache: Path) -> None:
    """The comparison would notice a wrong entry of the table."""
    problem = Problem.from_cli(f"{CACHES['paged']} --dtype fp32")
    inputs = tensors(problem)
    table = inputs["block_table"].copy()
    table[1, 0] = table[0, 0]
    wanted = expected(problem, inputs)
    (o,) = outputs(problem, {**inputs, "block_table": table}, shared_cache, "o")
    got = o.astype(np.float64).reshape(wanted.shape)
    assert np.abs(got - wanted).max() > 0.01 * np.abs(wanted).max()

"""Storage forms (layouts, packing, pages, caches) do not change the result, and an append leaves the right state."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.features import Rotary, RotaryStyle
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import rotate


def test_layouts_agree() -> None:
    bhsd = Problem.from_cli("-b 2 -H 4 --kv-heads 2 -s 5 --seqlen-k 9 -d 8 --causal")
    bshd = Problem.from_cli("-b 2 -H 4 --kv-heads 2 -s 5 --seqlen-k 9 -d 8 --causal --layout bshd")
    inputs = fill(bhsd)
    swapped = {name: x.swapaxes(1, 2) for name, x in inputs.items()}
    first, second = forward(bhsd, inputs), forward(bshd, swapped)
    np.testing.assert_array_equal(first.o_tensor(bhsd), second.o_tensor(bshd).swapaxes(1, 2))
    np.testing.assert_array_equal(first.lse_tensor(bhsd), second.lse_tensor(bshd))


def test_packing_equals_one_sequence_at_a_time() -> None:
    lengths_q, lengths_k = (3, 0, 6), (5, 2, 4)
    packed = Problem.from_cli("--seqlens-q 3,0,6 --seqlens-k 5,2,4 -H 2 -d 8 --causal --bias elementwise:1hss")
    inputs = fill(packed)
    whole = forward(packed, inputs).o_tensor(packed)
    for b in (0, 2):
        alone = Problem.from_cli(
            f"-H 2 -s {lengths_q[b]} --seqlen-k {lengths_k[b]} -d 8 --causal --bias elementwise:1hss"
        )
        q, k = slice(sum(lengths_q[:b]), sum(lengths_q[: b + 1])), slice(sum(lengths_k[:b]), sum(lengths_k[: b + 1]))
        part = {"q": inputs["q"][None, :, q], "k": inputs["k"][None, :, k], "v": inputs["v"][None, :, k]}
        part["bias"] = inputs["bias"][:, :, : lengths_q[b], : lengths_k[b]]
        np.testing.assert_array_equal(forward(alone, part).o_tensor(alone)[0], whole[:, q])


def test_pages_equal_a_linear_cache() -> None:
    common = "-b 3 -H 4 --kv-heads 2 -s 2 -d 8 --cache-seqlens 9,0,4 --append 2 --rotary 8 --causal"
    paged = Problem.from_cli(f"{common} --kv-cache paged:4")
    linear = Problem.from_cli(f"{common} --kv-cache linear")
    inputs = fill(paged)
    flat = dict(inputs)
    for name in ("k", "v"):
        flat[name] = np.full((3, 2, 11, 8), np.nan, np.float16)
        for b in range(3):
            for j in range(11):
                page = inputs["block_table"][b, j // 4]
                if page >= 0:
                    flat[name][b, :, j] = inputs[name][page, j % 4]
    first, second = forward(paged, inputs), forward(linear, flat)
    np.testing.assert_array_equal(first.o, second.o)
    np.testing.assert_array_equal(first.lse, second.lse)
    assert set(first.cache) == set(second.cache) == {"k", "v"}
    for b, held in enumerate((9, 0, 4)):
        for j in range(held + 2):
            page = inputs["block_table"][b, j // 4]
            np.testing.assert_array_equal(first.cache["k"][page, j % 4], second.cache["k"][b, :, j])


@pytest.mark.parametrize(
    "rest", ["--causal", "--append 2 --mask window:3,0", "--alibi --layout bshd", "--softcap 9 --append 1"]
)
@pytest.mark.parametrize("padding", ["3,0,7", "5", "0,1,0"])
def test_left_padding_only_moves_the_keys(rest: str, padding: str) -> None:
    common = f"-b 3 -H 4 --kv-heads 2 -s 2 -d 8 --kv-cache linear --cache-seqlens 9,0,4 {rest}"
    plain, padded = Problem.from_cli(common), Problem.from_cli(f"{common} --cache-leftpad {padding}")
    inputs = fill(plain)
    moved, axis = dict(inputs), 2 if plain.layout.value == "bhsd" else 1
    for name in ("k", "v"):
        moved[name] = np.full(shapes_of(padded)[name].shape, np.nan, np.float16)
        for b, (first, keys) in enumerate(zip(padded.leftpads(), padded.key_lengths(), strict=True)):
            target = np.moveaxis(moved[name], axis, 1)[b]
            target[first : first + keys] = np.moveaxis(inputs[name], axis, 1)[b][:keys]
    first, second = forward(plain, inputs), forward(padded, moved)
    np.testing.assert_array_equal(first.o, second.o)
    np.testing.assert_array_equal(first.lse, second.lse)
    for name, cache in second.cache.items():
        for b, (pad, keys) in enumerate(zip(padded.leftpads(), padded.key_lengths(), strict=True)):
            kept = np.moveaxis(cache, axis, 1)[b]
            expected = np.moveaxis(first.cache[name], axis, 1)[b]
            np.testing.assert_array_equal(kept[pad : pad + keys], expected[:keys])
            assert np.isnan(kept[:pad]).all()
            assert np.isnan(kept[pad + keys :]).all()


def test_rotary_positions_count_the_padding() -> None:
    """Upstream rotates by the cache row, so a cache rotated by rows gives the same scores."""
    common = "-b 2 -H 2 -s 2 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 5,3 --append 2 --rotary 8 --causal"
    plain, padded = Problem.from_cli(common), Problem.from_cli(f"{common} --cache-leftpad 6,1")
    inputs = fill(plain)
    raw = inputs["k"].astype(np.float64)
    moved = {**inputs, **{n: np.full(shapes_of(padded)[n].shape, np.nan, np.float32) for n in ("k", "v")}}
    inputs["k"] = rotate(raw, np.arange(7), plain.rotary).astype(np.float32)
    for b, pad in enumerate(padded.leftpads()):
        moved["v"][b, :, pad : pad + 7] = inputs["v"][b]
        moved["k"][b, :, pad : pad + 7] = rotate(raw[b], pad + np.arange(7), plain.rotary)
    first, second = forward(plain, inputs), forward(padded, moved)
    np.testing.assert_allclose(first.o, second.o, rtol=1e-5, atol=1e-6)
    expected = rotate(inputs["k_new"][0], [11, 12], padded.rotary).astype(np.float32)
    np.testing.assert_array_equal(second.cache["k"][0, :, 11:13], expected)


@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_append_writes_the_rotated_key(style: str) -> None:
    line = f"-b 1 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 5 --append 2 --rotary 4:{style}"
    problem = Problem.from_cli(line)
    inputs = fill(problem)
    cache = forward(problem, inputs).cache
    expected = rotate(inputs["k_new"][0], [5, 6], problem.rotary).astype(np.float16)
    np.testing.assert_array_equal(cache["k"][0, :, 5:], expected)
    np.testing.assert_array_equal(cache["v"][0, :, 5:], inputs["v_new"][0])
    np.testing.assert_array_equal(cache["k"][0, :, :5], inputs["k"][0, :, :5])
    assert np.isnan(inputs["k"][0, :, 5:]).all()  # the inputs are unchanged


def test_rotation_keeps_lengths_and_depends_on_distance_only() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 1, 16))
    for style in RotaryStyle:
        rotary = Rotary(12, style)
        near = rotate(q, [7], rotary) @ rotate(k, [3], rotary).T
        far = rotate(q, [107], rotary) @ rotate(k, [103], rotary).T
        assert near == pytest.approx(far, rel=1e-12)
        turned = rotate(q, [50], rotary)
        assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(q))
        np.testing.assert_array_equal(turned[:, 12:], q[:, 12:])
        np.testing.assert_array_equal(rotate(q, [0], rotary), q)


def test_masked_and_unused_rows_may_hold_nan() -> None:
    problem = Problem.from_cli("-H 2 -s 4 --seqlen-k 9 -d 8 --mask causal-tl --softcap 5")
    inputs = fill(problem)
    clean = forward(problem, inputs)
    for name in ("k", "v"):
        inputs[name][:, :, 2] = np.nan  # rows 0 and 1 do not see key 2, rows 2 and 3 do
        inputs[name][:, :, 4:] = np.nan
    poisoned = forward(problem, inputs)
    np.testing.assert_array_equal(poisoned.o[poisoned.rows.i < 2], clean.o[clean.rows.i < 2])
    assert np.isnan(poisoned.o[poisoned.rows.i >= 2]).all()
    np.testing.assert_array_equal(poisoned.lse[poisoned.rows.i < 2], clean.lse[clean.rows.i < 2])


def test_descales_multiply() -> None:
    for qscale in ("tensor", "head", "block", "kv-block"):
        problem = Problem.from_cli(f"-b 2 -H 4 --kv-heads 2 -s 130 -d 8 --dtype fp8_e4m3 --qscale {qscale}")
        inputs = fill(problem)
        plain = Problem.from_cli("-b 2 -H 4 --kv-heads 2 -s 130 -d 8 --dtype fp32")
        scaled = {}
        for name in ("q", "k", "v"):
            scale = inputs[f"{name}_descale"]
            if qscale == "head":
                scale = np.repeat(scale, 2, axis=1)[..., None, None] if name == "q" else scale[..., None, None]
            elif scale.ndim == 3:
                scale = np.repeat(scale, 128, axis=2)[:, :, :130, None]
            scaled[name] = inputs[name].astype(np.float64) * scale
        np.testing.assert_allclose(forward(problem, inputs).o, forward(plain, scaled).o, rtol=1e-12)

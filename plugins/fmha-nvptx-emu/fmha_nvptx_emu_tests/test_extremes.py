"""Rows that NVIDIA's kernels lose where scores are extreme, by the value: ``arch_specs/_known_bad.json`` says so, and nothing else is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli import api
from tests.support.generators.extreme_rows import (
    ALL,
    EMPTY,
    HIDDEN,
    JOINED,
    LEAST,
    LIMIT,
    LOST,
    OVERFLOW,
    ROUGH,
    below,
    beyond,
    biased,
    drawn,
    error_of_dv,
    halves,
    lost,
    replayed,
    said,
)

pytestmark = pytest.mark.slow
"""NVRTC compiles a kernel for up to a minute."""


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_flash_attention_loses_rows_beyond_a_limit(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in lost(below(drawn(dtype), 0.99 * LIMIT[dtype]), "flash_attn", "emu:sm_80", monkeypatch):
        assert not wrong.any()
    large = beyond(drawn(dtype), 16 * LIMIT[dtype])
    assert lost(large, "flash_attn", "emu:sm_80", monkeypatch)[0].mean() > 0.5
    assert LOST in said("flash_attn", "sm_80", large)


def test_flash_attention_adds_parts_of_the_keys_where_the_lse_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight of a part is exp(its LSE - LSE): with an LSE of 1e8 that is 1 instead of 1/2."""
    assert not lost(below(halves("bf16"), 10), "flash_attn", "emu:sm_80", monkeypatch)[0].any()
    large = below(halves("bf16"), 1e8)
    wrong, lse = lost(large, "flash_attn", "emu:sm_80", monkeypatch)
    assert (wrong.mean() > 0.5, lse.any()) == (True, False)
    assert JOINED in said("flash_attn", "sm_80", large)


def test_two_instructions_hide_what_a_gpu_loses() -> None:
    """As the PTX stands, products are rounded before the maximum is subtracted: the same rows are right."""
    rows = beyond(drawn("fp16"), 16 * LIMIT["fp16"])
    got = api.attention(**rows.inputs, backend="flash_attn", device="emu:sm_80", scale=rows.scale)
    np.testing.assert_allclose(got.o.astype(np.float64), rows.right()[0], atol=2e-3)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_memory_efficient_kernels_keep_rows_of_any_finite_score(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1e9, 1e20, 1e38):
        for wrong in lost(beyond(drawn(dtype), size), "mem_efficient", "emu:sm_80", monkeypatch):
            assert not wrong.any()


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_memory_efficient_kernels_under_a_bias(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, large = ("mem_efficient", "emu:sm_80"), 6e4 if dtype == "fp16" else 1e20
    kept = biased(drawn(dtype), (0, 10, 3, large), (1, 7, ALL, LEAST[dtype] / 2), (ALL, ALL, 5, -np.inf))
    for wrong in lost(kept, *device, monkeypatch):
        assert not wrong.any()
    empty = biased(drawn(dtype), (0, 2, ALL, -np.inf))
    o, lse = lost(empty, *device, monkeypatch)
    assert np.argwhere(o).tolist() == [[0, 2]]
    assert not lse.any()
    least = biased(drawn(dtype), (1, 7, ALL, LEAST[dtype]))
    for wrong in lost(least, *device, monkeypatch):
        assert np.argwhere(wrong).tolist() == ([[1, 7]] if dtype == "fp32" else [])
    note = said("mem_efficient", "sm_80", least)
    assert [words in note for words in (EMPTY, HIDDEN, OVERFLOW)] == [True, True, dtype == "fp32"]


@pytest.mark.parametrize(("name", "lse_too"), [("k", True), ("v", False)])
def test_memory_efficient_kernels_read_what_a_bias_hides(
    name: str, lse_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = biased(drawn("fp32"), (ALL, ALL, 5, -np.inf))
    rows.inputs[name][:, :, 5] = np.nan
    o, lse = lost(rows, "mem_efficient", "emu:sm_80", monkeypatch)
    assert (o.all(), lse.all()) == (True, lse_too)


def test_cudnns_kernels_lose_rows_on_blackwell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper's kernel forbids the fma (``__fsub_rn``), Blackwell's asks for it (``ffma2``)."""
    hopper, blackwell = (drawn("bf16", length, length, causal=True) for length in (128, 256))
    for size in (16 * LIMIT["bf16"], 1e38):
        for wrong in lost(below(hopper, size), "cudnn_oss", "emu:sm_90a", monkeypatch):
            assert not wrong.any()
    for wrong in lost(below(blackwell, 0.99 * LIMIT["bf16"]), "cudnn_oss", "emu:sm_100a", monkeypatch):
        assert not wrong.any()
    large = beyond(blackwell, 16 * LIMIT["bf16"])
    assert lost(large, "cudnn_oss", "emu:sm_100a", monkeypatch)[0].mean() > 0.5
    assert LOST in said("cudnn_oss", "sm_100a", large)
    assert LOST not in said("cudnn_oss", "sm_90a", beyond(hopper, 16 * LIMIT["bf16"]))


def test_memory_efficient_kernels_lose_small_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """dS times the scale is rounded to fp16: at 1e-6 it is subnormal, although large K make dQ a usual number."""
    rows = replace(drawn("fp16"), scale=1e-6)
    inputs = rows.inputs | {"k": (rows.inputs["k"] * np.float16(1000)), "do": np.ones_like(rows.inputs["q"])}
    k, v, do = (inputs[name].astype(np.float64) for name in ("k", "v", "do"))
    s = inputs["q"].astype(np.float64) @ k.swapaxes(2, 3) * rows.scale
    p = np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)
    dp = do @ v.swapaxes(2, 3)
    right = rows.scale * (p * (dp - (p * dp).sum(axis=-1, keepdims=True))) @ k
    errors = []
    for backend in ("flash_attn", "mem_efficient"):
        got = api.attention(**inputs, direction="bwd", backend=backend, device="emu:sm_80", scale=rows.scale)
        errors.append(np.abs(got.outputs["dq"].astype(np.float64) - right).max() / np.abs(right).max())
    assert errors[0] < 2**-9
    assert errors[1] > 0.05
    note = said("mem_efficient", "sm_80", replace(rows, direction="bwd"))
    assert "multiplied by the scale before it is rounded" in note


@pytest.mark.parametrize("backend", ["flash_attn", "mem_efficient"])
def test_gradients_are_as_rough_as_the_lse(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P = exp(s - LSE), and an LSE of fp32 has lost digits."""
    some = partial(error_of_dv, backend=backend, device="emu:sm_80", monkeypatch=monkeypatch)
    assert some(below(drawn("fp16"), 10)) < 2**-9
    assert 2**-8 < some(below(drawn("fp16"), 1e5)) < 1e5 * 2**-22 + 2**-9
    assert some(below(drawn("fp16"), 1e7)) > 0.5
    large = replace(below(drawn("fp16"), 1e7), direction="bwd")
    assert ROUGH in said(backend, "sm_80", large)


@pytest.mark.parametrize(
    ("number", "family", "dtype", "backend", "outcome"),
    [
        (16, "prefill", "fp16", "flash_attn", "known hazard"),
        (17, "decode", "fp16", "flash_attn", "known hazard"),
        (31, "backward", "fp16", "flash_attn", "gradients as rough as the LSE"),
        (12, "prefill", "fp16", "mem_efficient", "known hazard"),
        (80, "backward", "fp16", "mem_efficient", "scaled dS in fp16"),
        (47, "backward", "fp32", "mem_efficient", "known hazard"),
    ],
)
def test_no_row_of_the_campaign_is_unexplained(
    number: int, family: str, dtype: str, backend: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replayed(number, family, dtype, backend, "emu:sm_80", monkeypatch)
    assert found.outcome == outcome, found.text


@pytest.mark.parametrize(
    ("device", "square", "number", "outcome"),
    [
        ("emu:sm_90a", 128, 8, "right"),
        ("emu:sm_100a", 256, 10, "known hazard"),
        ("emu:sm_100a", 256, 8, "known hazard"),
    ],
)
def test_no_row_of_cudnns_kernels_is_unexplained(
    device: str, square: int, number: int, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replayed(number, "prefill", "bf16", "cudnn_oss", device, monkeypatch, square=square)
    assert found.outcome == outcome, found.text

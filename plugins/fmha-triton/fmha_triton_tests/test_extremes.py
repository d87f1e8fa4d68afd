"""Rows whose scores are extreme, by the value: with an elementwise bias none is lost; without one, those beyond a limit (docs/explanation/backends/triton.md)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_triton import emit

from tests.support.generators.extreme_rows import (
    ALL,
    LEAST,
    LIMIT,
    LOST,
    below,
    beyond,
    biased,
    drawn,
    lost,
    replayed,
    said,
)

pytestmark = pytest.mark.slow
DEVICES = [("emu:gfx942", "bf16"), ("emu:sm_80", "fp16")]


@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_no_row_under_a_bias_is_lost(device: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key of 1e20, a row of the least number, one of -inf, and a key that -inf hides: its K may hold anything."""
    large = 6e4 if dtype == "fp16" else 1e20
    rows = biased(
        drawn(dtype), (0, 10, 3, large), (1, 7, ALL, LEAST[dtype]), (0, 2, ALL, -np.inf), (ALL, ALL, 5, -np.inf)
    )
    rows.inputs["k"][0, 0, 5], rows.inputs["k"][0, 1, 5] = np.nan, np.inf
    for wrong in lost(rows, "triton", device, monkeypatch):
        assert not wrong.any()


@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_rows_without_a_bias_are_right_below_a_limit(device: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in lost(below(drawn(dtype), 0.99 * LIMIT[dtype]), "triton", device, monkeypatch):
        assert not wrong.any()
    large = beyond(drawn(dtype), 16 * LIMIT[dtype])
    assert lost(large, "triton", device, monkeypatch)[0].any()
    assert LOST in said("triton", device.removeprefix("emu:"), large)


@pytest.mark.parametrize(
    ("number", "family", "dtype", "device", "outcome"),
    [
        (59, "packed sequences", "bf16", "emu:gfx942", "known hazard"),
        (18, "split-KV", "bf16", "emu:gfx942", "known hazard"),
        (47, "backward", "bf16", "emu:gfx942", "known hazard"),
        (2, "split-KV", "fp16", "emu:sm_80", "right"),
    ],
)
def test_no_row_of_the_campaign_is_unexplained(
    number: int, family: str, dtype: str, device: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink of 3.4e38, a bias of 3e38 with split keys, gradients from a large LSE, and none of them."""
    found = replayed(number, family, dtype, "triton", device, monkeypatch)
    assert found.outcome == outcome, found.text


@pytest.mark.parametrize("device", ["emu:gfx942", "emu:sm_80"])
def test_without_fusion_no_row_is_lost(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only whole blocks of keys are lost: a mask's select stands between the product and the subtraction elsewhere."""
    as_built = emit.options
    monkeypatch.setattr(emit, "options", lambda *of: as_built(*of) | {"enable_fp_fusion": False})
    for number in (10, 14):
        found = replayed(number, "prefill", "bf16", "triton", device, monkeypatch, square=256)
        assert found.outcome == "right", found.text
    monkeypatch.setattr(emit, "options", as_built)
    assert replayed(14, "prefill", "bf16", "triton", device, monkeypatch, square=256).wrong["o"] > 100

"""Rows that CK-Tile's kernels lose where scores are extreme, by the value: ``arch_specs/_known_bad.json`` says so, and nothing else is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import tool
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
    replayed,
    said,
)
from tests.support.generators.extreme_rows import lost as lost_by

pytestmark = pytest.mark.slow
lost = partial(lost_by, backend="ck_tile", device="emu:gfx942")


@pytest.fixture(autouse=True)
def _compiler() -> None:
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_rows_beyond_a_limit_are_lost(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in lost(below(drawn(dtype), 0.99 * LIMIT[dtype]), monkeypatch=monkeypatch):
        assert not wrong.any()
    large = beyond(drawn(dtype), 16 * LIMIT[dtype])
    assert lost(large, monkeypatch=monkeypatch)[0].mean() > 0.5
    assert LOST in said("ck_tile", "gfx942", large)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_rows_under_a_bias(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bias scores are scaled before the maximum is subtracted: those of 1e10 and more are right."""
    large = 6e4 if dtype == "fp16" else 1e20
    kept = biased(drawn(dtype), (0, 10, 3, large), (1, 7, ALL, LEAST[dtype] / 2), (ALL, ALL, 5, -np.inf))
    for rows in (kept, replace(kept, scale=1e10)):
        for wrong in lost(rows, monkeypatch=monkeypatch):
            assert not wrong.any()
    o, lse = lost(biased(drawn(dtype), (0, 2, ALL, -np.inf)), monkeypatch=monkeypatch)
    assert np.argwhere(o).tolist() == [[0, 2]]
    assert not lse.any()
    least = biased(drawn(dtype), (1, 7, ALL, LEAST[dtype]))
    for wrong in lost(least, monkeypatch=monkeypatch):
        assert np.argwhere(wrong).tolist() == ([[1, 7]] if dtype == "bf16" else [])
    note = said("ck_tile", "gfx942", least)
    assert [words in note for words in (EMPTY, HIDDEN, OVERFLOW)] == [True, True, dtype == "bf16"]


@pytest.mark.parametrize(("name", "lse_too"), [("k", True), ("v", False)])
def test_what_a_bias_hides_is_read(name: str, lse_too: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = biased(drawn("fp16"), (ALL, ALL, 5, -np.inf))
    rows.inputs[name][:, :, 5] = np.nan
    o, lse = lost(rows, monkeypatch=monkeypatch)
    assert (o.all(), lse.all()) == (True, lse_too)


def test_a_mask_makes_empty_rows_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels with a mask ask whether a row's sum is 0."""
    rows = biased(drawn("fp16", 64, 64, causal=True), (0, 2, ALL, -np.inf))
    for wrong in lost(rows, monkeypatch=monkeypatch):
        assert not wrong.any()
    assert EMPTY not in said("ck_tile", "gfx942", rows)


def test_gradients_are_as_rough_as_the_lse(monkeypatch: pytest.MonkeyPatch) -> None:
    """P = exp(s - LSE), and an LSE of fp32 has lost digits."""
    some = partial(error_of_dv, backend="ck_tile", device="emu:gfx942", monkeypatch=monkeypatch)
    assert some(below(drawn("fp16"), 10)) < 2**-9
    assert 2**-8 < some(below(drawn("fp16"), 1e5)) < 1e5 * 2**-22 + 2**-9
    assert some(below(drawn("fp16"), 1e7)) > 0.5
    large = replace(below(drawn("fp16"), 1e7), direction="bwd")
    assert ROUGH in said("ck_tile", "gfx942", large)


def test_parts_of_the_keys_are_added_where_the_lse_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight of a part is exp(its LSE - LSE): with an LSE of 1e8 that is 1 instead of 1/2."""
    assert not lost(below(halves("bf16"), 10), monkeypatch=monkeypatch)[0].any()
    large = below(halves("bf16"), 1e8)
    wrong, lse = lost(large, monkeypatch=monkeypatch)
    assert (wrong.mean() > 0.5, lse.any()) == (True, False)
    assert JOINED in said("ck_tile", "gfx942", large)


@pytest.mark.parametrize(
    ("number", "family", "dtype", "outcome"),
    [
        (16, "prefill", "bf16", "known hazard"),
        (162, "split-KV", "bf16", "known hazard"),
        (12, "linear cache", "bf16", "known hazard"),
        (8, "backward", "fp16", "gradients as rough as the LSE"),
    ],
)
def test_no_row_of_the_campaign_is_unexplained(
    number: int, family: str, dtype: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replayed(number, family, dtype, "ck_tile", "emu:gfx942", monkeypatch)
    assert found.outcome == outcome, found.text

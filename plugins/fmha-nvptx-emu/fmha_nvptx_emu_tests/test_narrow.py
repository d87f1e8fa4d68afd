"""Conversions to and from pairs of 8-bit floats (PTX ISA 9.1, 9.7.9.21) against ``ml_dtypes``, every code and value that differs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, evaluate, launch, module

FORMATS = {"e4m3x2": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2x2": (ml_dtypes.float8_e5m2, 57344.0)}
SPECIAL = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-30,
    2.0**-9,
    2.0**-10,
    2.0**-16,
    2.0**-17,
    1.5 * 2.0**-17,
    448,
    464,
    465,
    -500,
    57344,
    61439,
    61440,
    -65504,
)


def pairs(values: Array) -> Array:
    """The values two by two, the first in the lower half."""
    return values.reshape(-1, 2)


def saturated(values: Array, format_: str) -> Array:
    """The bytes of the values: to nearest even, no infinity, one NaN."""
    dtype, largest = FORMATS[format_]
    wide = values.astype(np.float32)
    found = np.clip(wide, -largest, largest).astype(dtype).view(np.uint8)
    return np.where(np.isnan(wide), np.uint8(0x7F), found)


def same(got: Array, wanted: Array) -> bool:
    """Whether halves are equal bit by bit, all NaNs as the canonical one."""
    bits = np.where(np.isnan(wanted), np.uint16(0x7FFF), wanted.astype(np.float16).view(np.uint16))
    return bool((got.view(np.uint16) == bits).all())


@pytest.mark.parametrize("format_", FORMATS)
def test_every_code_becomes_its_half(format_: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    codes = np.concatenate([codes, codes[::-1]])
    wanted = codes.view(FORMATS[format_][0]).astype(np.float32)
    words = codes.view(np.uint16)
    for start in range(0, len(words), 32):
        got = evaluate(f"cvt.rn.f16x2.{format_} D, A", [words[start : start + 32]], "r", np.float16)
        assert same(got, wanted[2 * start : 2 * start + 64])


def drawn(seed: int, dtype: Any) -> Array:
    """64 values: special ones, large ones, and ones around the formats' least."""
    random = np.random.default_rng(seed)
    values = np.concatenate([SPECIAL, random.normal(0, 300, 25), random.normal(0, 0.01, 20)])
    with np.errstate(over="ignore"):
        return random.permutation(values.astype(dtype))


@pytest.mark.promise("An undefined value is found where it decides something, and nowhere else.")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize("format_", FORMATS)
def test_pairs_are_rounded_and_saturate(format_: str, relu: bool, seed: int) -> None:
    way = f"cvt.rn.satfinite{'.relu' * relu}.{format_}"
    floats, halves = drawn(seed, np.float32), drawn(seed, np.float16)
    positive = (lambda v: np.where(v < 0, 0, np.abs(v)).astype(v.dtype)) if relu else (lambda v: v)
    low, high = np.ascontiguousarray(pairs(floats)[:, 0]), np.ascontiguousarray(pairs(floats)[:, 1])
    got = evaluate(f"{way}.f32 D, A, B", [high, low], "h", np.uint16)
    assert (got.view(np.uint8) == saturated(positive(floats), format_)).all()
    got = evaluate(f"{way}.f16x2 D, A", [halves.view(np.uint32)], "h", np.uint16)
    assert (got.view(np.uint8) == saturated(positive(halves), format_)).all()


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
        "cvt.rz.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
        "cvt.rn.satfinite.f16x2.e4m3x2 %r1, %h1;",
    ],
)
def test_what_the_document_does_not_have_is_refused(text: str) -> None:
    assert "cvt" in (launch(module(text), np.zeros(1, np.uint32)).fault or "")

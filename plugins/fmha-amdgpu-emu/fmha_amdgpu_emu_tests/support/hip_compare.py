"""The common parts of the plain HIP cases: their register, comparisons, random and special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fmha_amdgpu_emu_tests.support.hip_device import Device

Array = np.ndarray[Any, Any]
Case = Callable[[Device, np.random.Generator], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case under its name."""
    CASES[function.__name__] = function
    return function


def same(got: Array, want: Array, what: str = "") -> None:
    """Equal bit for bit, except that any two NaNs are equal."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
    bits = f"u{got.dtype.itemsize}"
    wrong = got.view(bits) != want.view(bits)
    if got.dtype.kind not in "iu":
        wrong &= ~(np.isnan(got) & np.isnan(want))
    where = np.flatnonzero(wrong)
    assert not where.size, (
        f"{what}: {where.size} of {got.size} differ, first at {where[0]}: {got.flat[where[0]]!r}, not {want.flat[where[0]]!r}"
    )


def near(got: Array, want: Array, ulps: float, what: str) -> None:
    """Within units in the last place of the exact result (given in float64 or longer)."""
    kind = got.dtype.type
    exact = want.astype(kind)
    with np.errstate(all="ignore"):
        step = np.maximum(np.spacing(np.abs(exact)), np.finfo(kind).tiny).astype(np.float64)
        off = np.abs(got.astype(np.longdouble) - want) / step
    fine = (off <= ulps) | (np.isnan(exact) & np.isnan(got)) | (got == exact)
    where = np.flatnonzero(~fine)
    assert not where.size, (
        f"{what}: {where.size} of {got.size} off, first at {where[0]}: {got[where[0]]!r}, not {want[where[0]]!r}"
    )


def words(rng: np.random.Generator, n: int, bits: int = 32) -> Array:
    """Random words, including small and large ones and single bits."""
    kind = np.dtype(f"u{bits // 8}").type
    x = rng.integers(0, 2**bits, n, dtype=kind)
    shift = rng.integers(0, bits, n, dtype=kind)
    x = np.where(rng.random(n) < 0.5, x >> shift, x).astype(kind)
    special = np.array([0, 1, 2, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 3, 5], dtype=kind)
    x[: special.size] = special
    x[special.size : 2 * special.size] = special[::-1]
    return x


FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, math.inf, -math.inf, math.nan, 65504.0, 65519.9, 65520.0, 2.0**-24, 2.0**-25,
          1.0009765625, 1.00048828125, 1.00146484375, 3.4e38, -3.4e38, 1e-38, 1e-40, 448.0, 449.0, 480.0, 240.0, 57344.0]  # fmt: skip


def floats(rng: np.random.Generator, n: int, scale: float = 8.0) -> Array:
    """Finite numbers of moderate size."""
    return (rng.standard_normal(n) * scale).astype(np.float32)


def any_floats(rng: np.random.Generator, n: int) -> Array:
    """Random bit patterns, numbers of every size, special values."""
    x = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32).copy()
    x[: n // 2] = floats(rng, n // 2, 300.0)
    x[: len(FLOATS)] = FLOATS
    return x


# ---- Reductions ----

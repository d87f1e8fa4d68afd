"""``--emu-arith hardware``: the sums of tensor cores, bit for bit those of MMA-Sim."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support import mma_sums
from fmha_nvptx_emu_tests.support.mma_sums import Shape
from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, library, module
from fmha_nvptx_emu_tests.test_matrix import multiply

SHAPES = tuple(mma_sums.shapes())
VECTORS = mma_sums.vectors(100000)
"""Of each shape and architecture, 128 of them a tile."""


@pytest.fixture(autouse=True)
def _hardware() -> Iterator[None]:
    with mma_sums.hardware():
        yield


def summed(shape: Shape, seed: int) -> Array:
    """The emulator's D of a tile, as bits."""
    assert library().emu_device(shape.arch.encode()) == 0
    d = multiply(shape.kinds, shape.k, shape.sums, *mma_sums.tile(shape, seed))
    return d.view(f"u{d.dtype.itemsize}")


@pytest.mark.parametrize("shape", [s for s in SHAPES if str(s) in mma_sums.recorded()["answers"]], ids=str)
def test_sums_are_the_recorded_ones(shape: Shape) -> None:
    wanted = np.array([int(word, 16) for word in mma_sums.recorded()["answers"][str(shape)].split()]).reshape(16, 8)
    np.testing.assert_array_equal(summed(shape, 0), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_those_of_mma_sim(shape: Shape, tmp_path: Path) -> None:
    """Minutes for each shape: MMA-Sim is Python for each element."""
    seeds, qualifier = range(1, 1 + -(-VECTORS // 128)), f"m16n8k{shape.k}.{shape.sums}.{shape.kinds}.{shape.sums}"
    generation = mma_sums.GENERATIONS[shape.arch]
    mma_sums.compare(generation, qualifier, seeds, partial(mma_sums.tile, shape), partial(summed, shape), tmp_path)


def one_sum(arch: str, k: int, low: float, high: float, c: float) -> float:
    """f16 products ``low`` at k = 0 and ``high`` at the last k, plus c."""
    assert library().emu_device(arch.encode()) == 0
    a, b = np.zeros((16, k), np.float16), np.ones((k, 8), np.float16)
    a[:, 0], a[:, -1] = low, high
    return float(multiply("f16", k, "f32", a, b, np.full((16, 8), c, np.float32))[0, 0])


def test_architectures_keep_different_bits() -> None:
    """2^-25 beside -1 survives alignment to 25 bits, and truncation then shows it; 24 bits lose it."""
    assert one_sum("sm_75", 8, 0.0, -1.0, 2.0**-25) == -1.0
    assert one_sum("sm_80", 8, 0.0, -1.0, 2.0**-25) == -1.0
    assert one_sum("sm_90", 8, 0.0, -1.0, 2.0**-25) == -1 + 2.0**-24


def test_ampere_sums_two_halves_of_k16() -> None:
    """The first half loses C, 2^-25, beside its 1; Hopper sums all 16 at once and keeps it."""
    assert one_sum("sm_80", 16, 1.0, -1.0, 2.0**-25) == 0.0
    assert one_sum("sm_90", 16, 1.0, -1.0, 2.0**-25) == 2.0**-25


def test_a_half_that_overflows_stays_infinite() -> None:
    """The first half of k16 rounds up to 65536, which binary16 lacks; the second half cannot bring it back."""
    library().emu_device(b"sm_80")
    a, b = np.zeros((16, 16), np.float16), np.ones((16, 8), np.float16)
    a[:, 0], a[:, 15] = 20.0, -100.0
    d = multiply("f16", 16, "f16", a, b, np.full((16, 8), 65504.0, np.float16))
    assert np.isposinf(d).all()


def test_sums_that_nobody_measured_stop_the_launch() -> None:
    body = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f4,%f4,%f4,%f4};"
    library().emu_device(b"sm_90")
    seen = launch(module(body), np.zeros(1, np.uint32))
    assert seen.fault is not None
    assert "nobody has measured" in seen.fault

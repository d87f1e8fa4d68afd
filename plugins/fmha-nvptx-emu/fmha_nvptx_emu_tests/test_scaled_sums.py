"""``--emu-arith hardware`` of tcgen05.mma with block scales: bit for bit the sums of MMA-Sim."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support import mma_sums
from fmha_nvptx_emu_tests.support.block_scales import SCALES, ProductCodes, case
from fmha_nvptx_emu_tests.support.ptx_machine import Array

ANSWERS = Path(__file__).with_name("support") / "mma_sim_tcgen05.json"
VECTORS = mma_sums.vectors(10000)
N = 8


@dataclass(frozen=True)
class Scaled:
    """m128n8 of two types and one kind of block scales."""

    name: str
    a: str = "e2m1"
    b: str = "e2m1"

    def __str__(self) -> str:
        kind, size, scales = SCALES[self.name]
        block = 16 if size.endswith("4X") else 32
        return f"m128n{N}k{32 if kind == 'mxf8f6f4' else 64}.block{block}.f32.{self.a}.{self.b}.{scales}"

    def case(self, seed: int) -> ProductCodes:
        """Any bits, but for infinite C where elements have 4 bits, which MMA-Sim does not take."""
        it = case(self.name, 128, N, (self.a, self.b))
        random = np.random.default_rng([seed, *str(self).encode()])
        rows, columns = random.integers(0, 4, (128, 1)), random.integers(0, 4, (1, N))
        shape = it.a.shape[1]
        a, b = it.a, it.b
        if self.a != "e2m1":
            a = mma_sums.numbers(random, self.a, (128, shape), np.broadcast_to(rows, (128, shape))).view(np.uint8)
            b = mma_sums.numbers(random, self.b, (N, shape), np.broadcast_to(columns.T, (N, shape))).view(np.uint8)
        else:
            a, b = (random.integers(0, 16, x.shape).astype(np.uint8) for x in (a, b))
        c = mma_sums.numbers(random, "f32", (128, N), random.integers(0, 3 if self.a == "e2m1" else 4, (128, N)))
        return ProductCodes(it.name, self.a, self.b, a, b, self.scales(random, it.scales_a.shape), self.scales(random, it.scales_b.shape), c)  # fmt: skip

    def scales(self, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Most near one, some of any size, and a few NaNs."""
        powers = SCALES[self.name][2] == "ue8m0"
        near = random.integers(123, 132, shape) if powers else random.integers(0x28, 0x50, shape)
        wide = random.integers(0, 255 if powers else 0x7F, shape)
        chosen = np.where(random.random(shape) < 0.2, wide, near)
        return np.where(random.random(shape) < 0.01, 0xFF if powers else 0x7F, chosen).astype(np.uint8)

    def tile(self, seed: int) -> tuple[Array, ...]:
        """As MMA-Sim takes them: two elements of 4 bits in a byte, B and its scales by columns."""
        it = self.case(seed)
        a, b = ((x[:, ::2] | x[:, 1::2] << 4) if self.a == "e2m1" else x for x in (it.a, it.b))
        return tuple(np.ascontiguousarray(x) for x in (a, b.T, it.c, it.scales_a, it.scales_b.T))


EVERY = [
    *(Scaled("mxf8f6f4", a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(Scaled(name) for name in SCALES if name not in ("mxf8f6f4", "mxf4nvf4 of 32")),
]  # fmt: skip
"""mxf4 and mxf4nvf4 with one scale for 32 elements are one to MMA-Sim."""


@pytest.fixture(autouse=True)
def _hardware() -> Iterator[None]:
    with mma_sums.hardware():
        yield


def summed(it: Scaled, seed: int) -> Array:
    """The emulator's D, as bits."""
    d, seen = it.case(seed).product().run()
    assert (seen.fault, seen.findings) == (None, [])
    return d.view(np.uint32)


@pytest.mark.promise("With `--emu-arith hardware`, sums are bit for bit those of MMA-Sim.")
@pytest.mark.parametrize("it", EVERY, ids=str)
def test_sums_are_the_recorded_ones(it: Scaled) -> None:
    words = base64.b64decode(json.loads(ANSWERS.read_text("utf-8"))["answers"][str(it)])
    np.testing.assert_array_equal(summed(it, 0), np.frombuffer(words, np.uint32).reshape(128, N))


@pytest.mark.slow
@pytest.mark.parametrize("it", EVERY, ids=str)
def test_sums_are_those_of_mma_sim(it: Scaled, tmp_path: Path) -> None:
    seeds = range(1, 1 + -(-VECTORS // (128 * N)))
    mma_sums.compare("Blackwell", str(it), seeds, it.tile, partial(summed, it), tmp_path)


def test_both_kinds_with_one_scale_for_32_elements_sum_alike() -> None:
    it = Scaled("mxf4").case(7)
    (d, _), (other, _) = it.product().run(), replace(it, name="mxf4nvf4 of 32").product().run()
    np.testing.assert_array_equal(d.view(np.uint32), other.view(np.uint32))

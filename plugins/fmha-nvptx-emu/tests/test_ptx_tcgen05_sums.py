"""``--emu-arith hardware`` of tcgen05.mma: the sums of each pair of types, bit for bit those of MMA-Sim."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

import mma_sums
from ptx_machine import Array, library
from tensor_core import TensorProduct
from warpgroup import Layout

ANSWERS = Path(__file__).with_name("mma_sim_tcgen05.json")
"""MMA-Sim's answers to the first tile of each pair: 512 sums."""
VECTORS = int(os.environ.get("FMHA_MMA_SIM_VECTORS", "10000"))
"""Sums of each pair that a checkout of MMA-Sim answers, 512 of them a tile."""
PLAIN = Layout(128)


@dataclass(frozen=True)
class Pair:
    """m64n8 of two types. ``sums``: the type of C and D."""

    a: str
    b: str
    sums: str

    @property
    def k(self) -> int:
        return 32 // np.dtype(mma_sums.FORMATS[self.a][0]).itemsize

    def __str__(self) -> str:
        return f"m64n8k{self.k}.{self.sums}.{self.a}.{self.b}"

    def tile(self, first: int) -> tuple[Array, Array, Array]:
        """A (64, k), B (k, 8) and C (64, 8): four tiles of mma that share B."""
        shape = mma_sums.Shape("sm_100a", f"{self.a}.{self.b}", self.k, self.sums)
        parts = [mma_sums.tile(shape, seed) for seed in range(first, first + 4)]
        return np.concatenate([a for a, _, _ in parts]), parts[0][1], np.concatenate([c for _, _, c in parts])


PAIRS = [
    Pair("tf32", "tf32", "f32"), Pair("bf16", "bf16", "f32"), *(Pair("f16", "f16", sums) for sums in ("f32", "f16")),
    *(Pair(a, b, sums) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for sums in ("f32", "f16")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _hardware() -> Iterator[None]:
    library().emu_hardware(1)
    yield
    library().emu_hardware(0)


def summed(pair: Pair, first: int) -> Array:
    """The emulator's D, as bits."""
    a, b, c = pair.tile(first)
    d, seen = TensorProduct(pair.a, pair.b, a, np.ascontiguousarray(b.T), c, PLAIN, PLAIN, sums=pair.sums).run()
    assert (seen.fault, seen.findings) == (None, [])
    return d.view(f"u{d.dtype.itemsize}")


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text("utf-8"))
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_the_recorded_ones(pair: Pair) -> None:
    words = base64.b64decode(recorded()["answers"][str(pair)])
    wanted = np.frombuffer(words, np.uint16 if pair.sums == "f16" else np.uint32).reshape(64, 8)
    np.testing.assert_array_equal(summed(pair, 0), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_those_of_mma_sim(pair: Pair, tmp_path: Path) -> None:
    checkout = os.environ.get(mma_sums.CHECKOUT)
    if not checkout:
        pytest.skip(f"{mma_sums.CHECKOUT} names no checkout of MMA-Sim")
    firsts = range(4, 4 + 4 * -(-VECTORS // 512), 4)
    tiles = [pair.tile(first) for first in firsts]
    for first, wanted in zip(firsts, mma_sums.answered("Blackwell", str(pair), tiles, Path(checkout), tmp_path), strict=True):  # fmt: skip
        np.testing.assert_array_equal(summed(pair, first), wanted, err_msg=f"tile {first}")

"""``--emu-arith hardware`` of wgmma: the sums of each pair of types, bit for bit those of MMA-Sim."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

import mma_sums
from ptx_machine import Array, library
from test_ptx_tcgen05_sums import PAIRS, Pair
from warpgroup import Layout, Product

ANSWERS = Path(__file__).with_name("mma_sim_wgmma.json")
"""MMA-Sim's answers to the first tile of each pair: 512 sums."""
VECTORS = int(os.environ.get("FMHA_MMA_SIM_VECTORS", "100000"))
"""Sums of each pair that a checkout of MMA-Sim answers, 512 of them a tile."""


@pytest.fixture(autouse=True)
def _hardware() -> Iterator[None]:
    library().emu_hardware(1)
    assert library().emu_device(b"sm_90a") == 0
    yield
    library().emu_hardware(0)
    library().emu_device(b"sm_80")


def summed(pair: Pair, first: int) -> Array:
    """The emulator's D, as bits."""
    a, b, c = pair.tile(first)
    d, seen = Product(pair.a, a, np.ascontiguousarray(b.T), c, Layout(128), Layout(128), sums=pair.sums, kind_b=pair.b).run()  # fmt: skip
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
    for first, wanted in zip(firsts, mma_sums.answered("Hopper", str(pair), tiles, Path(checkout), tmp_path), strict=True):  # fmt: skip
        np.testing.assert_array_equal(summed(pair, first), wanted, err_msg=f"tile {first}")

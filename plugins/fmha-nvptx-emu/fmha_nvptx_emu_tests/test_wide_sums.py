"""``--emu-arith hardware`` of wgmma and tcgen05.mma: the sums of each pair of types, bit for bit those of MMA-Sim."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support import mma_sums
from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, library
from fmha_nvptx_emu_tests.support.tensor_core import TensorProduct
from fmha_nvptx_emu_tests.support.warpgroup import Layout, Product

VECTORS = mma_sums.vectors(10000)
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


def _tcgen05(pair: Pair, a: Array, b: Array, c: Array) -> tuple[Array, Seen]:
    return TensorProduct(pair.a, pair.b, a, b, c, PLAIN, PLAIN, sums=pair.sums).run()


def _wgmma(pair: Pair, a: Array, b: Array, c: Array) -> tuple[Array, Seen]:
    assert library().emu_device(b"sm_90a") == 0
    return Product(pair.a, a, b, c, PLAIN, PLAIN, sums=pair.sums, kind_b=pair.b).run()


@dataclass(frozen=True)
class Machine:
    """An instruction, MMA-Sim's name of its architecture, and the file with MMA-Sim's answers to the first tile of each pair."""

    generation: str
    run: Callable[[Pair, Array, Array, Array], tuple[Array, Seen]]
    answers: str

    def __str__(self) -> str:
        return self.generation


MACHINES = (Machine("Blackwell", _tcgen05, "mma_sim_tcgen05.json"), Machine("Hopper", _wgmma, "mma_sim_wgmma.json"))


@pytest.fixture(autouse=True)
def _hardware() -> Iterator[None]:
    with mma_sums.hardware():
        yield


def summed(machine: Machine, pair: Pair, first: int) -> Array:
    """The emulator's D, as bits."""
    a, b, c = pair.tile(first)
    d, seen = machine.run(pair, a, np.ascontiguousarray(b.T), c)
    assert (seen.fault, seen.findings) == (None, [])
    return d.view(f"u{d.dtype.itemsize}")


@pytest.mark.promise("With `--emu-arith hardware`, sums are bit for bit those of MMA-Sim.")
@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_the_recorded_ones(pair: Pair, machine: Machine) -> None:
    answers = json.loads((Path(__file__).with_name("support") / machine.answers).read_text("utf-8"))["answers"]
    wanted = np.frombuffer(base64.b64decode(answers[str(pair)]), np.uint16 if pair.sums == "f16" else np.uint32)
    np.testing.assert_array_equal(summed(machine, pair, 0), wanted.reshape(64, 8))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_those_of_mma_sim(pair: Pair, machine: Machine, tmp_path: Path) -> None:
    firsts = range(4, 4 + 4 * -(-VECTORS // 512), 4)
    mma_sums.compare(machine.generation, str(pair), firsts, pair.tile, partial(summed, machine, pair), tmp_path)

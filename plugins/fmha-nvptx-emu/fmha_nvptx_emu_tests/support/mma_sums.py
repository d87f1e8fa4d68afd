"""Tiles of numbers for the sums of tensor cores, and MMA-Sim's answers to them.

MMA-Sim (github.com/microsoft/MMA-Sim, MIT) states those sums as Python. Nothing of it is part of this repository: a test
runs it from a checkout in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_nvptx_emu_tests.support.ptx_machine import Array, library

CHECKOUT = "FMHA_MMA_SIM"
"""A checkout of MMA-Sim."""
GENERATIONS = {
    "sm_75": "Turing", "sm_80": "Ampere", "sm_86": "Ampere", "sm_89": "Ada Lovelace", "sm_90": "Hopper", "sm_120": "RTX Blackwell",
}  # fmt: skip
FORMATS: dict[str, tuple[Any, int, int]] = {
    "f16": (np.float16, 5, 10), "bf16": (ml_dtypes.bfloat16, 8, 7), "tf32": (np.float32, 8, 23), "f32": (np.float32, 8, 23),
    "e4m3": (ml_dtypes.float8_e4m3fn, 4, 3), "e5m2": (ml_dtypes.float8_e5m2, 5, 2),
}  # fmt: skip
"""Format -> numpy's type, bits of the exponent, bits of the fraction."""

_TURING = (("f16.f16", 8, "f32"), ("f16.f16", 8, "f16"))
_AMPERE = (
    *_TURING, ("f16.f16", 16, "f32"), ("f16.f16", 16, "f16"), ("bf16.bf16", 8, "f32"), ("bf16.bf16", 16, "f32"),
    ("tf32.tf32", 4, "f32"), ("tf32.tf32", 8, "f32"),
)  # fmt: skip
_BYTES = tuple(
    (f"{a}.{b}", k, sums)
    for a in ("e4m3", "e5m2")
    for b in ("e4m3", "e5m2")
    for k in (16, 32)
    for sums in ("f32", "f16")
)


@dataclass(frozen=True)
class Shape:
    """One mma.sync of one architecture. ``kinds`` names the formats of A and B: ``f16.f16``."""

    arch: str
    kinds: str
    k: int
    sums: str

    def __str__(self) -> str:
        return f"{self.arch} m16n8k{self.k}.{self.sums}.{self.kinds}.{self.sums}"


def shapes() -> Iterator[Shape]:
    """Every shape that both the emulator and MMA-Sim have."""
    for arch in GENERATIONS:
        own = _TURING if arch == "sm_75" else _AMPERE + (_BYTES if arch in ("sm_89", "sm_120") else ())
        for kinds, k, sums in own:
            yield Shape(arch, kinds, k, sums)


def numbers(random: np.random.Generator, name: str, size: tuple[int, int], kinds: Array) -> Array:
    """Bit patterns, by kind: 0 near one, 1 any finite exponent, 2 subnormal and next to it, 3 special values among
    numbers near one."""
    dtype, exponent_bits, fraction_bits = FORMATS[name]
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]
    top, bias = 2**exponent_bits - 1, 2 ** (exponent_bits - 1) - 1
    field = np.choose(
        kinds,
        [
            bias + random.integers(-4, 4, size),
            random.integers(1, top, size),
            random.integers(0, 3, size),
            bias + random.integers(-4, 4, size),
        ],
    )
    fraction = random.integers(0, 2**fraction_bits, size)
    edges = [(0, 0), (0, 1), (0, 2**fraction_bits - 1), (1, 0), (top - 1, 2**fraction_bits - 1), (bias, 0), (top, 0), (top, 2**fraction_bits - 1)]  # fmt: skip
    chosen = np.array(edges)[random.choice(8, size, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.26, 0.03, 0.01])]
    edge = (kinds == 3) & (random.integers(0, 3, size) == 0)
    field, fraction = np.where(edge, chosen[..., 0], field), np.where(edge, chosen[..., 1], fraction)
    sign = random.integers(0, 2, size)
    return (sign << (exponent_bits + fraction_bits) | field << fraction_bits | fraction).astype(unsigned).view(dtype)


def tile(shape: Shape, seed: int) -> tuple[Array, Array, Array]:
    """A (16, k), B (k, 8) and C (16, 8)."""
    random = np.random.default_rng([seed, shape.k, *str(shape).encode()])
    a, b = shape.kinds.split(".")
    rows, columns = random.integers(0, 4, (16, 1)), random.integers(0, 4, (1, 8))
    return (
        numbers(random, a, (16, shape.k), np.broadcast_to(rows, (16, shape.k))),
        numbers(random, b, (shape.k, 8), np.broadcast_to(columns, (shape.k, 8))),
        numbers(random, shape.sums, (16, 8), random.integers(0, 4, (16, 8))),
    )


def answered(
    generation: str, qualifier: str, tiles: Sequence[tuple[Array, ...]], checkout: Path, folder: Path
) -> list[Array]:
    """MMA-Sim's D of each (A, B, C) or (A, B, C, scales of A, scales of B), as bits. A
    qualifier of three types is one of tcgen05.mma, or of Hopper's wgmma."""
    asked, answers = folder / "asked.npz", folder / "answered.npz"
    words = {f"{n}{name}": part.view(f"u{part.dtype.itemsize}") for n, parts in enumerate(tiles) for name, part in zip("abcst", parts, strict=False)}  # fmt: skip
    np.savez(asked, **words)
    child = Path(__file__).with_name("mma_sim_child.py")
    command = [sys.executable, str(child), generation, qualifier, str(asked), str(answers)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(checkout)})
    with np.load(answers) as found:
        return [found[str(n)] for n in range(len(tiles))]


def vectors(default: int) -> int:
    """How many sums of each pair of types a checkout answers."""
    return int(os.environ.get("FMHA_MMA_SIM_VECTORS", default))


def compare(
    generation: str, qualifier: str, seeds: Sequence[int], tile: Callable[[int], tuple[Array, ...]],
    summed: Callable[[int], Array], folder: Path,
) -> None:  # fmt: skip
    """Check the sums of every tile against MMA-Sim's, bit for bit; skips the test without a checkout."""
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        pytest.skip(f"{CHECKOUT} names no checkout of MMA-Sim")
    tiles = [tile(seed) for seed in seeds]
    for seed, wanted in zip(seeds, answered(generation, qualifier, tiles, Path(checkout), folder), strict=True):
        np.testing.assert_array_equal(summed(seed), wanted, err_msg=f"tile {seed}")


@contextmanager
def hardware() -> Iterator[None]:
    """Sums as tensor cores make them; afterwards those of the document, on sm_80."""
    library().emu_hardware(1)
    yield
    library().emu_hardware(0)
    library().emu_device(b"sm_80")


def recorded() -> dict[str, Any]:
    """MMA-Sim's answers to the tile of seed 0 of some shapes, with the commit that gave them."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("mma_sim_answers.json").read_text("utf-8"))
    return found

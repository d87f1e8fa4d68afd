"""Launches of ``plain_kernels.cu``: arguments, and what numpy says that each leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Random = np.random.Generator
I32, U32, U64, F16, F32, F64 = np.int32, np.uint32, np.uint64, np.float16, np.float32, np.float64
BLOCKS, THREADS = 3, 256


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        arguments: inputs, then outputs, which the kernel writes.
        wanted: what the outputs hold afterwards, bit for bit.
    """

    arguments: tuple[Array, ...]
    wanted: tuple[Array, ...]
    blocks: int = BLOCKS
    threads: int = THREADS


def _numbers(random: Random, dtype: Any, count: int = BLOCKS * THREADS) -> Array:
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype, endpoint=True)


def _launch(inputs: tuple[Array, ...], wanted: tuple[Array, ...], **shape: int) -> Launch:
    return Launch((*inputs, *(np.zeros_like(a) for a in wanted)), wanted, **shape)


def reduce_shared(random: Random) -> Launch:
    x = random.integers(-1000, 1000, BLOCKS * THREADS, I32)
    return _launch((x,), (x.reshape(BLOCKS, -1).sum(1, dtype=I32),))


def warp_lanes(random: Random) -> Launch:
    x = random.integers(-1000, 1000, BLOCKS * THREADS, I32)
    lanes = x.reshape(-1, 32)
    sums = np.repeat(lanes.sum(1, dtype=I32), 32)
    before = (np.cumsum(lanes, 1, dtype=I32) - lanes).reshape(-1)
    bits = ((lanes & 1).astype(U64) << np.arange(32, dtype=U64)).sum(1, dtype=U64).astype(U32)
    return _launch((x,), (sums, before, np.repeat(bits, 32)))


def atomics(random: Random) -> Launch:
    x = random.integers(0, 1 << 20, BLOCKS * THREADS, I32)
    classes = np.bincount(x & 15, minlength=16).astype(I32)
    return _launch((x,), (classes, x.max(keepdims=True), (x & 255).sum(dtype=I32, keepdims=True)))


def integers(random: Random) -> Launch:
    x, y = _numbers(random, U32), _numbers(random, U32)
    a, b = x.astype(U64), (y | 1).astype(U64)
    top, divisor = x.view(I32).astype(np.int64), ((y | 1) >> 1 | 1).view(I32).astype(np.int64)
    signed = np.sign(top) * (np.abs(top) // divisor)
    rows = [
        a // b, a % b, signed, a * b >> U64(32), [int(v).bit_count() for v in x], [32 - int(v).bit_length() for v in x],
        [int(f"{int(v):032b}"[::-1], 2) for v in x], (a << U64(7) & U64(0xFFFFFFFF)) | b >> U64(25),
    ]  # fmt: skip
    return _launch((x, y), (np.stack([np.asarray(r).astype(U32) for r in rows], 1).reshape(-1),))


def wide_integers(random: Random) -> Launch:
    x, y = _numbers(random, U64), _numbers(random, U64)
    b = y | U64(1)
    return _launch((x, y), (np.stack([x * b, x // b, x % b, (x.view(np.int64) >> 9).view(U64)], 1).reshape(-1),))


def floats(random: Random) -> Launch:
    x, y = (random.normal(0, 50, BLOCKS * THREADS).astype(F32) for _ in range(2))
    exact = (x.astype(np.longdouble) * y + x).astype(F32)
    rows = [x + y, x * y, x / y, np.sqrt(np.abs(x)), exact, np.minimum(x, y)]
    return _launch((x, y), (np.stack(rows, 1).reshape(-1), np.trunc(x * F32(100)).astype(I32)))


def doubles(random: Random) -> Launch:
    """The product may be fused with the sum, as both compilers do by default."""
    x, y = random.normal(0, 5, (2, BLOCKS * THREADS))
    fused = [float(Fraction(a) * Fraction(b) + Fraction(a / b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return _launch((x, y), (np.array(fused),))


def steps(random: Random) -> Launch:
    x = random.integers(1, 1000, BLOCKS * THREADS, U32)

    def count(n: int) -> int:
        found = 0
        while n != 1:
            n, found = (3 * n + 1 if n & 1 else n // 2), found + 1
        return found

    return _launch((x,), (np.array([count(int(n)) for n in x], U32),))


def choices(random: Random) -> Launch:
    x = _numbers(random, U32)
    ways: tuple[Callable[[Array], Array], ...] = (
        lambda a: a * U32(3), lambda a: a ^ U32(0x5A5A), lambda a: a >> U32(3), lambda a: a + U32(17), lambda a: ~a,
        lambda a: a * a, lambda a: a - U32(99), lambda a: a | U32(0xFF), lambda a: a * U32(0),
    )  # fmt: skip
    return _launch((x,), (np.select([x % 9 == k for k in range(9)], [way(x) for way in ways]).astype(U32),))


def local_array(random: Random) -> Launch:
    x = _numbers(random, U32, 64)
    out = np.zeros(BLOCKS * THREADS, U32)
    for n in range(len(out)):
        kept = [int(x[(n + k) % 64]) * (k + 1) % 2**32 for k in range(32)]
        at = int(x[n % 64]) & 31
        for _ in range(8):
            out[n] = (int(out[n]) + kept[at]) % 2**32
            at = at + kept[at] & 31
    return _launch((np.tile(x, BLOCKS * THREADS // 64),), (out,))


def transpose(random: Random) -> Launch:
    x = random.normal(0, 1, (BLOCKS, 32, 32)).astype(F32)
    return _launch((x,), (np.ascontiguousarray(x.transpose(0, 2, 1)),))


def tensor_core(random: Random) -> Launch:
    """Small whole numbers, whose products and sums are exact. Fragments: PTX ISA 9.1, 9.7.14.5.8."""
    a = random.integers(-8, 9, (16, 16)).astype(F16)
    b = random.integers(-8, 9, (16, 8)).astype(F16)
    group, at = np.arange(32) // 4, np.arange(32) % 4 * 2
    pairs = np.stack(
        [a[group + 8 * (k % 2)[..., None], at + 8 * (k // 2) + j] for k in np.arange(4)[:, None] for j in (0, 1)], -1
    )
    columns = np.stack([b[at + 8 * k + j, group] for k in (0, 1) for j in (0, 1)], -1)
    d = a.astype(F32) @ b.astype(F32)
    wanted = np.stack([d[group + 8 * k, at + j] for k in (0, 1) for j in (0, 1)], -1)
    inputs = tuple(np.ascontiguousarray(x.reshape(32, -1)).view(U32) for x in (pairs, columns))
    return _launch(inputs, (np.ascontiguousarray(wanted),), blocks=1, threads=32)


LAUNCHES: dict[str, Callable[[Random], Launch]] = {
    made.__name__: made
    for made in (
        reduce_shared, warp_lanes, atomics, integers, wide_integers, floats, doubles, steps, choices, local_array, transpose, tensor_core,
    )
}  # fmt: skip

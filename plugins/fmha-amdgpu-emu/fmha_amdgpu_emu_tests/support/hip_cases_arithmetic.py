"""Kernels that compute: math functions, integers, control flow, arguments, wide and narrow loads."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import ml_dtypes
import numpy as np

from fmha_amdgpu_emu_tests.support.hip_compare import Array, any_floats, case, floats, near, same, words
from fmha_amdgpu_emu_tests.support.hip_device import U32, Device

EXACT = 14
"""The first outputs of the math kernels are correctly rounded operations; the others may be off by some ulps."""


def _exact(a: Array, b: Array) -> list[Array]:
    kind = a.dtype.type
    t = np.arange(a.size)
    fused = (a.astype(np.longdouble) * b + a).astype(kind)
    return [
        a + b, a * b, a / b, np.sqrt(np.abs(a)), fused, np.floor(a), np.trunc(a), np.rint(a), np.fmin(a, b), np.fmax(a, b),
        np.fmod(a, b), np.ldexp(a, t % 9 - 4), np.copysign(a, b), np.ceil(b),
    ]  # fmt: skip


@case
def math_f32(device: Device, rng: np.random.Generator) -> None:
    n = 1024
    a, b = floats(rng, n), floats(rng, n)
    out = np.zeros((26, n), np.float32)
    device.launch("math_f32", 4, 256, a, b, out, U32(n))
    for k, want in enumerate(_exact(a, b)):
        same(out[k], want.astype(np.float32), f"row {k}")
    p, q = a.astype(np.float64), b.astype(np.float64)
    error = np.array([math.erf(v) for v in p])
    loose = [
        (np.exp(p * 0.125), 2), (np.log(np.abs(p)), 3), (np.sin(p), 4), (np.cos(q), 4), (np.tanh(p * 0.25), 5), (error, 4),
        (np.abs(p) ** (q * np.float64(np.float32(0.05))), 4), (1 / np.sqrt(np.abs(p)), 2), (np.exp2(q), 2),
        (np.log2(np.abs(q)), 3), (np.arctan2(p, q), 4), (np.cbrt(p), 3),
    ]  # fmt: skip
    loose[6] = (np.abs(p) ** (b * np.float32(0.05)).astype(np.float64), 4)
    for k, (want, ulps) in enumerate(loose):
        near(out[EXACT + k], want, ulps, f"row {EXACT + k}")


@case
def math_f64(device: Device, rng: np.random.Generator) -> None:
    n = 512
    a, b = rng.standard_normal(n) * 8, rng.standard_normal(n) * 8
    out = np.zeros((20, n))
    device.launch("math_f64", 2, 256, a, b, out, U32(n))
    exact = _exact(a, b)
    for k, want in enumerate(exact):
        if k != 4:  # x87's long double cannot represent a fused product
            same(out[k], want, f"row {k}")
    from fractions import Fraction

    fused = [float(Fraction(float(u)) * Fraction(float(v)) + Fraction(float(u))) for u, v in zip(a, b, strict=True)]
    same(out[4], np.array(fused), "fma")
    p, q = a.astype(np.longdouble), b.astype(np.longdouble)
    loose = [np.exp(p * 0.125), np.log(np.abs(p)), np.sin(p), np.cos(q), np.tanh(p * 0.25), 1 / np.sqrt(np.abs(p))]
    for k, want in enumerate(loose):
        near(out[EXACT + k], want, 3, f"row {EXACT + k}")


@case
def math_f16(device: Device, rng: np.random.Generator) -> None:
    n = 2048
    a = rng.integers(0, 2**16, n, dtype=np.uint16).view(np.float16).copy()
    b = rng.integers(0, 2**16, n, dtype=np.uint16).view(np.float16).copy()
    a[::3], b[::3] = (rng.standard_normal((2, len(a[::3]))) * 3).astype(np.float16)
    out = np.zeros((11, n), np.float16)
    device.launch("math_f16", 8, 256, a, b, out, U32(n))
    p, q = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        want = [p + q, p - q, p * q, p / q, p * q + p, np.fmin(p, q), np.fmax(p, q), np.abs(p), np.floor(p), np.rint(q),
                np.where(p < q, 1, np.where(p == q, 2, 3))]  # fmt: skip
        for k, expected in enumerate(want):
            got, right = out[k], expected.astype(np.float16)
            if k in (5, 6):  # with two zeros, either one is the minimum
                got, right = got + np.float16(0), right + np.float16(0)
            same(got, right, f"row {k}")


@case
def math_f16x2(device: Device, rng: np.random.Generator) -> None:
    n = 500
    a, b = ((rng.standard_normal((n, 2)) * 5).astype(np.float16) for _ in range(2))
    out = np.zeros((5, n, 2), np.float16)
    device.launch("math_f16x2", 2, 256, a, b, out, U32(n))
    p, q = a.astype(np.float64), b.astype(np.float64)
    want = [p + q, p * q, p * q + p, np.maximum(p, q[:, ::-1]), -p[:, ::-1] - q]
    for k, expected in enumerate(want):
        right = expected.astype(np.float16)
        if k == 2:  # one rounding if the compiler contracts, two if it does not
            twice = (p * q).astype(np.float16) + a
            right = np.where(out[k] == twice, twice, right)
        same(out[k], right, f"row {k}")


@case
def math_bf16(device: Device, rng: np.random.Generator) -> None:
    n = 700
    a, b = (floats(rng, n).astype(ml_dtypes.bfloat16) for _ in range(2))
    out, dot = np.zeros((3, n), np.uint16), np.zeros(n, np.float32)
    device.launch("math_bf16", 3, 256, a.view(np.uint16), b.view(np.uint16), out, dot, U32(n))
    p, q = a.astype(np.float32), b.astype(np.float32)
    for k, want in enumerate((p + q, p * q, p - q)):
        same(out[k].view(ml_dtypes.bfloat16), want.astype(ml_dtypes.bfloat16), f"row {k}")
    fused = (p.astype(np.float64) * q + q).astype(np.float32)  # the product of two bf16 numbers is exact in f32
    same(dot, fused)


@case
def math_classes(device: Device, rng: np.random.Generator) -> None:
    x = any_floats(rng, 1024)
    n = x.size
    out, exponents, fractions = np.zeros(n, np.uint32), np.zeros(n, np.int32), np.zeros(n, np.float32)
    device.launch("math_classes", 4, 256, x, out, exponents, fractions, U32(n))
    normal = np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).tiny)
    want = np.isnan(x) | np.isinf(x) << 1 | np.isfinite(x) << 2 | np.signbit(x) << 3 | normal << 4
    same(out, want.astype(np.uint32))
    fraction, exponent = np.frexp(x)
    same(fractions, fraction, "fractions")
    same(exponents[np.isfinite(x)], exponent[np.isfinite(x)], "exponents")


# ---- Integers ----


def _signed_division(a: Array, c: Array, kind: Any) -> tuple[Array, Array]:
    sa, sc = a.view(kind).astype(object), c.view(kind).astype(object)
    sc = np.where(sc == -1, 3, sc)
    quotient = np.array(
        [abs(u) // abs(v) * (1 if (u < 0) == (v < 0) else -1) for u, v in zip(sa, sc, strict=True)], dtype=object
    )
    return quotient, sa - quotient * sc


def _wrap(values: Any, bits: int) -> Array:
    return np.array([int(v) % 2**bits for v in values], dtype=f"u{bits // 8}")


@case
def integers_32(device: Device, rng: np.random.Generator) -> None:
    n = 600
    a, b = words(rng, n), words(rng, n)[::-1].copy()
    out = np.zeros((32, n), np.uint32)
    device.launch("integers_32", 3, 256, a, b, out, U32(n))
    c = b | 1
    A, B, SA, SB = (v.astype(object) for v in (a, b, a.view(np.int32), b.view(np.int32)))
    shift = b & 31
    quotient, rest = _signed_division(a, c, np.int32)
    both = (A << 32) | B
    bytes_of = [[(int(u) << 32 | int(v)) >> 8 * k & 0xFF for k in range(8)] for u, v in zip(a, b, strict=True)]
    ffs = [(int(v) & -int(v)).bit_length() for v in a]
    want = [
        A + B, A - B, A * B, A * B // 2**32, SA * SB // 2**32, a // c, a % c, quotient, rest, a << shift, a >> shift,
        a.view(np.int32) >> shift.view(np.int32), [bin(v).count("1") for v in a], [32 - int(v).bit_length() for v in a], ffs,
        [int(f"{v:032b}"[::-1], 2) for v in a], np.minimum(a, b), np.maximum(a, b), np.minimum(SA, SB), np.maximum(SA, SB),
        (both >> 11) % 2**32, [v[0] | v[5] << 8 | v[2] << 16 | v[7] << 24 for v in bytes_of], a >> 5 & 0x1FF,
        [(int(v) >> 5 & 0x1FF) - (0x200 if int(v) >> 5 & 0x100 else 0) for v in a],
        [9 + sum(abs(v[k + 4] - v[k]) for k in range(4)) for v in bytes_of], (a & b) | (~a & c), a ^ b ^ c,
        np.minimum(A + B, 2**32 - 1), np.maximum(A - B, 0), np.clip(SA + SB, -(2**31), 2**31 - 1), np.abs(SA),
        [(int(u) << int(s) | int(u) >> (32 - int(s)) % 32) if s else int(u) for u, s in zip(a, shift, strict=True)],
    ]  # fmt: skip
    for k, expected in enumerate(want):
        same(out[k], _wrap(expected, 32), f"row {k}")


@case
def integers_64(device: Device, rng: np.random.Generator) -> None:
    n = 400
    a, b = words(rng, n, 64), words(rng, n, 64)[::-1].copy()
    out = np.zeros((19, n), np.uint64)
    device.launch("integers_64", 2, 256, a, b, out, U32(n))
    c = b | np.uint64(1)
    A, B, SA, SB = (v.astype(object) for v in (a, b, a.view(np.int64), b.view(np.int64)))
    shift = b & np.uint64(63)
    quotient, rest = _signed_division(a, c, np.int64)
    want = [
        A + B, A - B, A * B, A * B // 2**64, SA * SB // 2**64, a // c, a % c, quotient, rest, a << shift, a >> shift,
        a.view(np.int64) >> shift.view(np.int64), [bin(v).count("1") for v in a], [64 - int(v).bit_length() for v in a],
        [(int(v) & -int(v)).bit_length() for v in a], [int(f"{v:064b}"[::-1], 2) for v in a], np.minimum(a, b),
        np.maximum(SA, SB), (a & b) ^ ~c,
    ]  # fmt: skip
    for k, expected in enumerate(want):
        same(out[k], _wrap(expected, 64), f"row {k}")


@case
def integers_16(device: Device, rng: np.random.Generator) -> None:
    n = 500
    a, b = words(rng, n, 16).view(np.int16), words(rng, n, 16).view(np.int16)[::-1].copy()
    out, pairs = np.zeros((9, n), np.int16), np.zeros((4, n, 2), np.int16)
    device.launch("integers_16", 2, 256, a, b, out, pairs, U32(n))
    A, B = a.astype(np.int64), b.astype(np.int64)
    shift = B & 15
    want = [
        A + B,
        A - B,
        A * B,
        A << shift,
        A >> shift,
        np.minimum(A, B),
        np.maximum(A, B),
        (A & 0xFFFF) >> shift,
        np.clip(A + B, -32768, 32767),
    ]
    for k, expected in enumerate(want):
        same(out[k], expected.astype(np.int16), f"row {k}")
    p = np.stack([A, B], 1)
    q = np.stack([B, (A + 1).astype(np.int16).astype(np.int64)], 1)
    for k, expected in enumerate([p + q, p * q, np.maximum(p, q), p << (q & 15)]):
        same(pairs[k], expected.astype(np.int16), f"pair {k}")


# ---- Control flow ----


@case
def collatz(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(1, 10**5, 700, dtype=np.uint32)
    steps = np.zeros_like(x)
    device.launch("collatz", 3, 256, x, steps, U32(x.size))

    def length(v: int) -> int:
        count = 0
        while v != 1 and count < 500:
            v, count = (3 * v + 1) % 2**32 if v & 1 else v // 2, count + 1
        return count

    same(steps, np.array([length(int(v)) for v in x], np.uint32))


TABLE = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def _switches(v: int) -> int:
    r = k = 0
    while k < 6:
        kind = v >> 28
        if kind == 0:
            r += TABLE[v & 15]
        elif kind == 1:
            r ^= v
        elif kind in (2, 3):
            r = (r * 3 + 1 if kind == 2 else r) - 7
        elif kind == 5:
            r = r if r & 1 else r << 1
        elif kind == 8:
            r += (10, 20, 30, 40)[v & 3]
        elif kind == 11:
            r = ~r
        elif kind == 13:
            k += 1
        else:
            r += k
        r %= 2**32
        k, v = k + 1, (v * 1664525 + 1013904223) % 2**32
    return r


@case
def switches(device: Device, rng: np.random.Generator) -> None:
    x = words(rng, 1000)
    out = np.zeros_like(x)
    device.launch("switches", 4, 256, x, out, U32(x.size))
    same(out, np.array([_switches(int(v)) for v in x], np.uint32))


def _nested(t: int) -> int:
    r = 0
    for a in range(t % 5 + 1):
        if a == 3 and t & 1:
            return 0
        for b in range(t % 3, 4):
            if b == 2 and a == 1:
                continue
            r = (r * 7 + a * 5 + b) % 2**32
            if r % 11 == 3:
                break
        else:
            r ^= 0x100
    return r


@case
def nested_divergence(device: Device, rng: np.random.Generator) -> None:
    out = np.zeros(192, np.uint32)
    device.launch("nested_divergence", 1, 192, out)
    same(out, np.array([_nested(t) for t in range(192)], np.uint32))


@case
def uniform_branches(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 5000, 60, dtype=np.uint32)
    out = np.zeros(128, np.uint32)
    device.launch("uniform_branches", 2, 64, x, out, U32(x.size))
    r = 0
    for v in map(int, x):
        r = (r + v * 5 if v % 3 == 0 else r ^ v >> 3 if v > 1000 else r << 1 | v & 1) % 2**32
    same(out, (r + np.tile(np.arange(64), 2)).astype(np.uint32))


# ---- Arguments and memory ----


class Mixed(ctypes.Structure):
    _fields_ = (
        ("a", ctypes.c_int8),
        ("b", ctypes.c_int16),
        ("c", ctypes.c_double),
        ("d", ctypes.c_uint32 * 5),
        ("e", ctypes.c_uint8),
    )


@case
def arguments(device: Device, rng: np.random.Generator) -> None:
    out = np.zeros(15, np.float32)
    mixed = Mixed(-5, -300, 2.5, (1, 2, 3, 4, 5), 250)
    device.launch(
        "arguments", 1, 1, ctypes.c_int8(-7), ctypes.c_int16(-999), mixed, ctypes.c_double(0.125), ctypes.c_uint8(200),
        ctypes.c_int64(-(1 << 40)), out, ctypes.c_bool(True),
    )  # fmt: skip
    same(out, np.array([-7, -999, -5, -300, 2.5, 1, 2, 3, 4, 5, 250, 0.125, 200, -(2.0**40), 1], np.float32))


@case
def vector_loads(device: Device, rng: np.random.Generator) -> None:
    n = 128
    a, b, c = floats(rng, 4 * n), floats(rng, 2 * n), floats(rng, 3 * n)
    out, out3 = np.zeros_like(a), np.zeros_like(c)
    device.launch("vector_loads", 2, 64, a, b, c, out, out3)
    v, w = a.reshape(n, 4), b.reshape(n, 2)
    same(out, np.stack([v[:, 3] + w[:, 0], v[:, 2] - w[:, 1], v[:, 1] * w[:, 0], v[:, 0] * w[:, 1]], 1).ravel())
    same(out3, c.reshape(n, 3)[:, [2, 0, 1]].ravel())


@case
def narrow_memory(device: Device, rng: np.random.Generator) -> None:
    n = 128
    a, b = rng.integers(-128, 128, n).astype(np.int8), rng.integers(0, 2**16, n).astype(np.uint16)
    c, d, sums = np.zeros(n, np.int8), np.zeros(n, np.uint16), np.zeros(n, np.int32)
    device.launch("narrow_memory", 2, 64, a, b, c, d, sums)
    want = a.astype(np.int32) * 3 + b
    same(sums, want)
    same(c, (want >> 2).astype(np.int8))
    same(d, (want * 5).astype(np.uint16))


@case
def global_variables(device: Device, rng: np.random.Generator) -> None:
    out = np.zeros(20, np.uint32)
    device.launch("read_globals", 1, 64, out)
    same(out, np.array([10, 20, 30, 40, *TABLE], np.uint32))
    place, size = device.call("hipModuleGetGlobal", device.module, b"changeable")
    held = np.zeros(4, np.uint32)
    assert size == held.nbytes
    device.call("hipMemcpy", held, place, size, device.hip.hipMemcpyKind.hipMemcpyDeviceToHost)
    same(held, np.array([11, 21, 31, 41], np.uint32))
    held[:] = [10, 20, 30, 40]
    device.call("hipMemcpy", place, held, size, device.hip.hipMemcpyKind.hipMemcpyHostToDevice)

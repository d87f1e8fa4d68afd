"""What each kernel of hip_kernels.hip must compute: numpy's answer beside the device's."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from hip_device import U32, Device

Array = np.ndarray[Any, Any]
Case = Callable[[Device, np.random.Generator], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case under its name."""
    CASES[function.__name__] = function
    return function


def same(got: Array, want: Array, what: str = "") -> None:
    """Bit for bit, but any NaN is as good as another."""
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
    """Within units in the last place of the exact answer (given in float64 or longer)."""
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
    """Random words; small, large, and with single bits among them."""
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
    """Finite numbers of some size."""
    return (rng.standard_normal(n) * scale).astype(np.float32)


def any_floats(rng: np.random.Generator, n: int) -> Array:
    """Random bit patterns, numbers of every size, special values."""
    x = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32).copy()
    x[: n // 2] = floats(rng, n // 2, 300.0)
    x[: len(FLOATS)] = FLOATS
    return x


# ---- Reductions ----


@case
def reduce_lds(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(-(2**31), 2**31, 3333, dtype=np.int32)
    out = np.zeros(1, np.uint64)
    device.launch("reduce_lds", 3, 256, x, out, U32(x.size))
    assert int(out[0]) == int(x.astype(np.int64).sum()) % 2**64


@case
def reduce_shuffle(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(-1000, 1000, 600).astype(np.float32)
    waves = 768 // device.wave
    total, most = np.zeros(waves, np.float32), np.zeros(waves, np.float32)
    device.launch("reduce_shuffle", 3, 256, x, total, most, U32(x.size))
    padded = np.concatenate([x, np.zeros(168, np.float32)]).reshape(waves, device.wave)
    same(total, padded.sum(1, dtype=np.float32), "sum")
    padded.flat[600:] = -1e30
    same(most, padded.max(1), "maximum")


@case
def reduce_last_block(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**20, 1500, dtype=np.uint32)
    parts, arrived, out = np.zeros(6, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    device.launch("reduce_last_block", 6, 256, x, parts, arrived, out, U32(x.size))
    assert (int(out[0]), int(arrived[0])) == (int(x.sum()), 0)


@case
def scan_block(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**32, 1024, dtype=np.uint32)
    out = np.zeros_like(x)
    device.launch("scan_block", 1, 1024, x, out)
    same(out, np.cumsum(x, dtype=np.uint32))


# ---- Transposes and grids ----


@case
def transpose_f32(device: Device, rng: np.random.Generator) -> None:
    rows, columns = 37, 53
    x = floats(rng, rows * columns)
    y = np.zeros_like(x)
    device.launch("transpose_f32", (4, 3), (16, 16), x, y, U32(rows), U32(columns))
    same(y, x.reshape(rows, columns).T.ravel())


@case
def transpose_elements(device: Device, rng: np.random.Generator) -> None:
    for name, kind, lanes, n in (
        ("u8", np.uint8, 1, 64),
        ("u16", np.uint16, 1, 64),
        ("f64", np.float64, 1, 48),
        ("f32x4", np.float32, 4, 40),
    ):
        x = rng.integers(0, 200, n * n * lanes).astype(kind)
        y = np.zeros_like(x)
        device.launch(f"transpose_{name}", 1, n, x, y, lds=x.nbytes)
        same(y, x.reshape(n, n, lanes).transpose(1, 0, 2).ravel(), name)


@case
def grid_3d(device: Device, rng: np.random.Generator) -> None:
    grid, block = (3, 4, 2), (5, 6, 7)
    out = np.zeros(math.prod(grid) * math.prod(block), np.uint32)
    device.launch("grid_3d", grid, block, out)
    bz, by, bx, tz, ty, tx = np.meshgrid(
        *(np.arange(k, dtype=np.uint32) for k in (*grid[::-1], *block[::-1])), indexing="ij"
    )
    same(out, (bx | by << 4 | bz << 8 | tx << 12 | ty << 18 | tz << 24).ravel())


# ---- Atomics ----


@case
def atomics_u32(device: Device, rng: np.random.Generator) -> None:
    n = 1024
    a = np.array([7, 10000, 2**32 - 1, 0, 2**32 - 1, 0, 0, 5, 3, 0, 0, 0, 0, 0, 0, 1], np.uint32)
    old, t = np.zeros(n, np.uint32), np.arange(n, dtype=np.uint32)
    device.launch("atomics_u32", 4, 256, a, old)
    same(np.sort(old), 7 + 3 * t, "values returned")
    want = [7 + 3 * n, 10000 - 2 * n, 0, 1023]
    want.append(int(np.bitwise_and.reduce(~(np.uint32(1) << (t % 31)))))
    want.append((1 << 29) - 1)
    want.append(int(np.bitwise_xor.reduce(t * np.uint32(2654435761))))
    up, down, chain = 5, 3, 1
    for _ in range(n):
        up = 0 if up >= 100 else up + 1
        down = 90 if down == 0 or down > 90 else down - 1
        chain = (chain * 5 + 1) % 2**32
    want += [up, down, 2**32 - 500, n - 1 - 500]
    same(a[:11], np.array(want, np.uint32), "results")
    assert all(int(a[11 + k]) % 4 == k for k in range(4))
    assert int(a[15]) == chain


@case
def atomics_u64(device: Device, rng: np.random.Generator) -> None:
    n = 512
    a = np.array([1, 2**64 - 1, 0, 2**64 - 1, 0, 0, 9, 0, 0], np.uint64)
    old, t = np.zeros(n, np.uint64), np.arange(n, dtype=np.uint64)
    device.launch("atomics_u64", 2, 256, a, old)
    one = np.uint64(1)
    # Who came first is not known; what each saw differs by what one thread added.
    steps = np.diff(np.sort(np.concatenate([old, a[:1]])).astype(np.uint64))
    same(np.sort(steps), t << np.uint64(33) | one, "values returned")
    want = [1 + int((t << np.uint64(33) | one).sum()), 0, 511 << 40]
    want.append(int(np.bitwise_and.reduce(~(one << t % np.uint64(63)))))
    want.append((1 << 61) - 1)
    want.append(int(np.bitwise_xor.reduce(t * np.uint64(0x9E3779B97F4A7C15))))
    want.append(9 + n * (2**32 + 1))
    same(a[:7], np.array(want, np.uint64), "results")
    assert all(int(a[7 + k]) >> 35 in range(k, n, 2) for k in range(2))


@case
def atomics_float(device: Device, rng: np.random.Generator) -> None:
    n = 512
    a, b, t = np.zeros(18, np.float32), np.zeros(16), np.arange(n)
    device.launch("atomics_float", 2, 256, a, b)
    for k in range(8):
        mine = t % 8 == k
        assert a[k] == (t[mine] % 17).sum()
        assert a[8 + k] == (t[mine] % 13).sum()
        assert b[k] == (t[mine] * 0.25).sum()
        assert b[8 + k] == (t[mine] * 0.5).sum()
    assert (a[16], a[17]) == (150.0, -150.0)


@case
def histogram_lds(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, 5000, dtype=np.uint8)
    bins = np.zeros(256, np.uint32)
    device.launch("histogram_lds", 4, 192, x, bins, U32(x.size))
    same(bins, np.bincount(x, minlength=256).astype(np.uint32))


@case
def atomics_lds(device: Device, rng: np.random.Generator) -> None:
    n = 256
    out, wide, real = np.zeros(16 + n, np.uint32), np.zeros(3, np.uint64), np.zeros(2, np.float32)
    device.launch("atomics_lds", 1, n, out, wide, real)
    t = np.arange(n, dtype=np.uint64)
    up, chain = 0, 0
    for _ in range(n):
        up = 0 if up >= 40 else up + 1
        chain = (chain * 3 + 1) % 2**32
    want = [int(t.sum()), 1000 - n + 1, 100, 0, 0xFFFF, int(np.bitwise_xor.reduce(t << np.uint64(3))), up, 0, chain, n]
    same(out[:10], np.array(want, np.uint32))
    same(np.sort(out[16:]), np.arange(n, dtype=np.uint32), "values returned")
    xor = int(np.bitwise_xor.reduce(t * np.uint64(0x100000001)))
    same(wide, np.array([int(t.sum()) << 31, (n - 1) << 40, xor], np.uint64))
    same(real, np.array([t.sum(), t.sum() * 0.5], np.float32))


# ---- Conversions ----


@case
def convert_f32(device: Device, rng: np.random.Generator) -> None:
    x = any_floats(rng, 1500)
    n = x.size
    h, b, d = np.zeros(n, np.float16), np.zeros(n, np.uint16), np.zeros(n)
    i, u = np.zeros(n, np.int32), np.zeros(n, np.uint32)
    device.launch("convert_f32", 6, 256, x, h, b, d, i, u, U32(n))
    with np.errstate(all="ignore"):
        same(h, x.astype(np.float16), "f16")
        same(b.view(ml_dtypes.bfloat16), x.astype(ml_dtypes.bfloat16), "bf16")
        same(d, x.astype(np.float64), "f64")
        number = ~np.isnan(x)
        clamped = np.clip(x, np.float32(-2e9), np.float32(2e9))
        want = np.where(x >= 2147483648.0, 7, clamped[...].astype(np.float64).astype(np.int64))
        same(i[number], want[number].astype(np.int32), "int")
        same(
            u[number],
            np.clip(x, 0, np.float32(4e9))[number].astype(np.float64).astype(np.int64).astype(np.uint32),
            "unsigned",
        )


@case
def convert_f16(device: Device, rng: np.random.Generator) -> None:
    n = 2**16
    h = np.arange(n, dtype=np.uint16)
    f, g, i, back = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32), np.zeros(n, np.float16)
    device.launch("convert_f16", 256, 256, h, h.copy(), f, g, i, back, U32(n))
    same(f, h.view(np.float16).astype(np.float32), "f16")
    same(g, (h.astype(np.uint32) << 16).view(np.float32), "bf16")
    finite = np.isfinite(h.view(np.float16))
    same(i[finite], h.view(np.float16)[finite].astype(np.int32), "int")
    same(back, (np.arange(n) * 37).astype(np.int16).astype(np.float16), "int to f16")


@case
def convert_int(device: Device, rng: np.random.Generator) -> None:
    x = words(rng, 800)
    n = x.size
    f, uf, d, ud = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n), np.zeros(n)
    device.launch("convert_int", 4, 256, x, f, d, uf, ud, U32(n))
    same(f, x.view(np.int32).astype(np.float32), "f32")
    same(d, x.view(np.int32).astype(np.float64), "f64")
    same(uf, x.astype(np.float32), "f32 of unsigned")
    same(ud, x.astype(np.float64), "f64 of unsigned")


@case
def convert_64(device: Device, rng: np.random.Generator) -> None:
    x = words(rng, 700, 64)
    n = x.size
    f, uf, d, ud = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n), np.zeros(n)
    back, uback = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    device.launch("convert_64", 3, 256, x, f, d, uf, ud, back, uback, U32(n))
    signed = x.view(np.int64)
    same(f, signed.astype(np.float32), "f32")
    same(d, signed.astype(np.float64), "f64")
    same(uf, x.astype(np.float32), "f32 of unsigned")
    same(ud, x.astype(np.float64), "f64 of unsigned")
    same(back, (signed.astype(np.float64) * 0.5).astype(np.int64), "to signed")
    same(uback, (x.astype(np.float64) * 0.5).astype(np.uint64), "to unsigned")


@case
def convert_f64(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(900) * 10.0 ** rng.integers(-50, 50, 900)
    x[: len(FLOATS)] = FLOATS
    n = x.size
    f, i, down, even = np.zeros(n, np.float32), np.zeros(n, np.int32), np.zeros(n), np.zeros(n)
    device.launch("convert_f64", 4, 256, x, f, i, down, even, U32(n))
    with np.errstate(all="ignore"):
        same(f, x.astype(np.float32), "f32")
        number = ~np.isnan(x)
        same(i[number], np.clip(x, -2e9, 2e9)[number].astype(np.int32), "int")
        same(down, np.floor(x), "floor")
        same(even, np.rint(x), "rint")


@case
def convert_bytes(device: Device, rng: np.random.Generator) -> None:
    x = words(rng, 500)
    out, packed = np.zeros(4 * x.size, np.float32), np.zeros_like(x)
    device.launch("convert_bytes", 2, 256, x, out, packed, U32(x.size))
    same(out, x.view(np.uint8).astype(np.float32) * 0.5)
    halves = np.trunc(x.view(np.int8) / 2).astype(np.int8)
    same(packed, halves.view(np.uint32))


@case
def convert_fp8(device: Device, rng: np.random.Generator) -> None:
    if not device.has("convert_fp8"):
        return
    ocp = b"gfx942" not in device.properties().gcnArchName
    fp8, bf8, most = (
        (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, 448.0) if ocp
        else (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, 240.0)
    )  # fmt: skip
    x = (rng.standard_normal(1024) * 2.0 ** rng.integers(-14, 7, 1024)).astype(np.float32).clip(-most, most)
    x[:10] = [0, -0.0, 1, -1, most, -most, 0.0625, 1.0625, 1.1875, 2.0**-9]
    p, q = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    back, bback = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    device.launch("convert_fp8", 1, 256, x, p, q, back, bback, U32(256))
    want, bwant = x.astype(fp8), x.astype(bf8)
    same(p.view(np.uint8), want.view(np.uint8), "fp8")
    same(q.view(np.uint8), bwant.view(np.uint8), "bf8")
    same(back, want.astype(np.float32), "from fp8")
    same(bback, bwant.astype(np.float32), "from bf8")


# ---- Lanes ----


@case
def lanes(device: Device, rng: np.random.Generator) -> None:
    n, w = 128, device.wave
    x = rng.integers(0, 2**32 - 1, n, dtype=np.uint32)
    out = np.zeros((22, n), np.uint32)
    device.launch("lanes", 1, n, x, out, U32(n))
    lane, base = np.arange(n) % w, np.arange(n) // w * w
    votes = [sum(int(x[b + k] & 1) << k for k in range(w)) for b in range(0, n, w)]
    ballot = np.array([votes[t // w] for t in range(n)], dtype=object)

    def at(source: Array) -> Array:
        return x[base + source]

    def dpp(source: Array, valid: Array, otherwise: Array | int) -> Array:
        return np.where(valid, x[base + np.where(valid, source, 0)], otherwise).astype(np.uint32)

    row, place, old = lane // 16 * 16, lane % 16, np.uint32(77)
    want = [
        at((lane * 7 + 3) % w),
        at(np.where(lane >= 3, lane - 3, lane)),
        at(np.where(lane + 5 < w, lane + 5, lane)),
        at(lane ^ 9),
        at(lane // 8 * 8 + 1),
        np.array([v & 0xFFFFFFFF for v in ballot], np.uint32),
        np.array([v >> 32 for v in ballot], np.uint32),
        np.full(n, 1, np.uint32),
        np.array([bin(v & ((1 << int(k)) - 1)).count("1") for v, k in zip(ballot, lane, strict=True)], np.uint32),
        at(lane * 0),
        at(lane * 0 + 5),
        np.array([100 + bin(0x0F0F0F0F & ((1 << min(int(k), 32)) - 1)).count("1") for k in lane], np.uint32),
        at(w - 1 - lane),
        at(w - 1 - lane),
        at(lane ^ 1),
        at(lane ^ 3),
        dpp(lane - 1, place >= 1, old),
        dpp(lane + 2, place < 14, 0),
        at(row + (place - 4) % 16),
        at(row + 15 - place),
        at(lane // 8 * 8 + 7 - lane % 8),
        dpp(lane ^ 3, ((lane // 16) % 4 % 2 == 0) & (place < 8), old),
    ]
    for k, expected in enumerate(want):
        same(out[k], expected, f"row {k}")


@case
def lanes_64(device: Device, rng: np.random.Generator) -> None:
    n, w = 64, device.wave
    x, d = words(rng, n, 64), rng.standard_normal(n)
    out, dout = np.zeros_like(x), np.zeros_like(d)
    device.launch("lanes_64", 1, n, x, out, d, dout)
    t = np.arange(n)
    same(out, x[t // w * w + (t % w ^ 5)])
    same(dout, d[np.where(t % w + 2 < w, t + 2, t)])


# ---- Scratch, calls, flat pointers ----


@case
def scratch_sort(device: Device, rng: np.random.Generator) -> None:
    x = words(rng, 96 * 24)
    out = np.zeros_like(x)
    device.launch("scratch_sort", 3, 32, x, out)
    rows = np.sort(x.reshape(96, 24), axis=1)
    same(out, np.stack([np.roll(row, -t) for t, row in enumerate(rows)]).ravel())


@case
def scratch_bytes(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, 128 * 32, dtype=np.uint8)
    out, sums = np.zeros_like(x), np.zeros(128, np.uint64)
    device.launch("scratch_bytes", 2, 64, x, out, sums)
    for t in range(128):
        own = [(k * 3 + t) % 256 for k in range(32)]
        for v in x[t * 32 : t * 32 + 32]:
            own[v % 32] ^= int(v)
        total = 0
        for v in own:
            total = (total * 31 + v) % 2**64
        assert list(out[t * 32 : t * 32 + 32]) == [own[k * 5 % 32] for k in range(32)], t
        assert int(sums[t]) == total, t


@case
def function_calls(device: Device, rng: np.random.Generator) -> None:
    x, table = np.arange(128) * 0.25 - 9, np.arange(8) * 1.5
    out = np.zeros(128)
    device.launch("function_calls", 2, 64, x, out, table)

    def called(v: float, depth: int) -> float:
        for k in range(depth):
            v = v * 0.5 + float(table[(k + depth) % 8])
        return v

    want = [called(v, t % 7) - called(v * 2, t % 7 // 2 + 1) + called(v, 3) for t, v in enumerate(x)]
    same(out, np.array(want))


@case
def flat_pointers(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**31, 256, dtype=np.uint32)
    out, t = np.zeros_like(x), np.arange(256)
    device.launch("flat_pointers", 1, 256, x, out)
    own = np.select([t % 4 == k for k in range(4)], [t * f for f in (1, 3, 5, 7)])
    same(out, np.select([t % 3 == 0, t % 3 == 1], [x[t ^ 1], x[t ^ 2] + 1], own).astype(np.uint32))


# ---- Mathematics ----

EXACT = 14
"""The first outputs of the mathematics kernels are correctly rounded operations; the others have errors of some ulps."""


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
        if k != 4:  # x87's long double does not hold a fused product
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
            if k in (5, 6):  # either zero is a minimum of both
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
        if k == 2:  # one rounding where the compiler contracts, two where it does not
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
    fused = (p.astype(np.float64) * q + q).astype(np.float32)  # a product of two bf16 is exact in f32
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

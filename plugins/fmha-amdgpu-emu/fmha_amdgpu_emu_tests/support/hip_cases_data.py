"""Kernels that move and convert data: reductions, transposes, atomics, conversions, lanes, scratch."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from fmha_amdgpu_emu_tests.support.hip_compare import FLOATS, Array, any_floats, case, floats, same, words
from fmha_amdgpu_emu_tests.support.hip_device import U32, Device


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
    # The order of the threads is unknown; the values that they saw differ by one thread's increment.
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

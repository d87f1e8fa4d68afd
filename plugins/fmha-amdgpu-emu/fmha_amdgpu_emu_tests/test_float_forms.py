"""Forms that compilers give float instructions: SDWA, DPP, scalar and constant sources, dual issue, FP16_OVFL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.float_cases import ALL, CDNA, RDNA
from fmha_amdgpu_emu_tests.support.float_reference import (
    F16,
    F32,
    F64,
    add,
    decode,
    encode,
    integer,
    is_nan,
    multiply,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import draw
from fmha_amdgpu_emu_tests.support.harness import Snippets

OVERFLOW = 1 << 23
MODE = 0x3F0


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and high binary16 numbers of words."""
    return (x & 0xFFFF).astype(np.uint16).view(np.float16), (x >> 16).astype(np.uint16).view(np.float16)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_sdwa(arch: str, tmp_path: Path) -> None:
    """Source selections, partial destinations, and modifiers after the selection."""
    snippets = Snippets(arch, tmp_path, {
        "widen": "v_cvt_f32_f16_sdwa v2, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
        "unsigned": "v_cvt_f32_u32_sdwa v2, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0",
        "narrow": "v_cvt_f16_f32_sdwa v2, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
        "add": "v_add_f16_sdwa v2, -v0, |v0| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0",
    })  # fmt: skip
    rng = np.random.default_rng(3)
    x = rng.normal(0, 3, (2, 64)).astype(np.float16).view(np.uint16).astype(np.uint32)
    word, old = x[0] | x[1] << np.uint32(16), rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    single = rng.normal(0, 100, 64).astype(np.float32)
    v = {0: word, 1: single.view(np.uint32), 2: old}
    low, high = halves(word)

    def run(name: str) -> np.ndarray:
        return snippets.run(name, v=v, exec=(1 << 64) - 1, mode=MODE).v[2]

    assert np.array_equal(run("widen").view(np.float32), high.astype(np.float32))
    assert np.array_equal(run("unsigned").view(np.float32), (word & 0xFFFF).astype(np.float32))
    narrow = single.astype(np.float16).view(np.uint16).astype(np.uint32)
    assert np.array_equal(run("narrow"), old & 0xFFFF | narrow << np.uint32(16))
    total = (-high + np.abs(low)).view(np.uint16).astype(np.uint32)
    assert np.array_equal(run("add"), old & 0xFFFF | total << np.uint32(16))


@pytest.mark.parametrize("arch", ALL)
def test_dpp(arch: str, tmp_path: Path) -> None:
    """The lanes of a row are shifted; a lane without a source keeps its value, or reads zero with bound_ctrl."""
    snippets = Snippets(arch, tmp_path, {
        "keep": "v_add_f32_dpp v2, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
        "zero": "v_add_f32_dpp v2, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
        "fmac": "v_fmac_f32_dpp v2, v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    })  # fmt: skip
    rng = np.random.default_rng(4)
    a, b, c = rng.normal(0, 3, (3, 64)).astype(np.float32)
    lanes, v = snippets.lanes, {k: x.view(np.uint32) for k, x in enumerate((a, b, c))}
    exec_ = (1 << lanes) - 1
    for name in ("keep", "zero"):
        got = snippets.run(name, v=v, exec=exec_, mode=MODE).v[2].view(np.float32)
        for lane in range(lanes):
            outside = lane % 16 == 0
            want = a[lane - 1] + b[lane] if not outside else (b[lane] if name == "zero" else c[lane])
            assert got[lane] == want, (name, lane)
    got = snippets.run("fmac", v=v, exec=exec_, mode=MODE).v[2]
    for lane in range(lanes):
        exact = add(multiply(*(decode(F32, int(x.view(np.uint32)[k])) for x, k in ((a, lane ^ 1), (b, lane)))),
                    decode(F32, int(c.view(np.uint32)[lane])))  # fmt: skip
        assert int(got[lane]) == encode(F32, exact)


@pytest.mark.parametrize("arch", ALL)
def test_scalars_and_constants(arch: str, tmp_path: Path) -> None:
    """An SGPR with a sign, inline constants (16-bit instructions encode 1.0 differently) and a literal."""
    half = ".l" if arch in RDNA else ""
    snippets = Snippets(arch, tmp_path, {
        "sgpr": "v_fma_f32 v2, v0, s4, -v1", "inline": "v_fma_f32 v2, -v0, v1, 1.0", "literal": "v_add_f32 v2, 0x40490fdb, v0",
        "integer": "v_mul_f32 v2, 4, v0", "inverse": "v_mul_f32 v2, 0.15915494, v0",
        "half": f"v_add_f16 v2{half}, 1.0, v0{half}", "double": "v_mul_f64 v[2:3], v[0:1], -4.0",
    })  # fmt: skip
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 3, (2, 64)).astype(np.float32)
    v, lanes = {0: a.view(np.uint32), 1: b.view(np.uint32)}, snippets.lanes
    scalar = np.float32(1.7)

    def run(name: str) -> np.ndarray:
        after = snippets.run(name, v=v, s={4: int(scalar.view(np.uint32))}, exec=(1 << lanes) - 1, mode=MODE)
        return after.v[2:4, :lanes]

    x, y = a[:lanes], b[:lanes]
    fused = (x.astype(np.float64) * scalar - y).astype(np.float32)
    assert np.allclose(run("sgpr")[0].view(np.float32), fused, rtol=1e-6, atol=1e-6)
    fused = (1.0 - x.astype(np.float64) * y).astype(np.float32)
    assert np.allclose(run("inline")[0].view(np.float32), fused, rtol=1e-6, atol=1e-6)
    assert np.array_equal(run("literal")[0].view(np.float32), x + np.uint32(0x40490FDB).view(np.float32))
    assert np.array_equal(run("integer")[0].view(np.float32), np.float32(np.uint32(4).view(np.float32)) * x)
    assert np.array_equal(run("inverse")[0].view(np.float32), np.uint32(0x3E22F983).view(np.float32) * x)
    low = halves(a.view(np.uint32))[0][:lanes]
    with np.errstate(all="ignore"):
        want = (np.float16(1) + low).view(np.uint16)
    got = (run("half")[0] & 0xFFFF).astype(np.uint16)
    assert np.array_equal(np.where(np.isnan(low), 0, got), np.where(np.isnan(low), 0, want))
    pairs = np.stack([a.view(np.uint32), b.view(np.uint32)], axis=-1).copy().view(np.float64)[:lanes, 0]
    product = run("double").T.copy().view(np.float64)[:, 0]
    assert np.array_equal(product, pairs * -4.0)


@pytest.mark.parametrize("arch", RDNA)
def test_dual_issue(arch: str, tmp_path: Path) -> None:
    """Both halves read their sources before either writes."""
    snippets = Snippets(arch, tmp_path, {"f": "v_dual_mul_f32 v0, v1, v2 :: v_dual_add_f32 v1, v0, v3",
                                         "g": "v_dual_fmac_f32 v0, v1, v2 :: v_dual_mul_dx9_zero_f32 v3, v0, v4"})  # fmt: skip
    x = np.random.default_rng(6).normal(0, 2, (5, 64)).astype(np.float32)
    v, n = {k: row.view(np.uint32) for k, row in enumerate(x)}, snippets.lanes
    after = snippets.run("f", v=v, exec=(1 << n) - 1, mode=MODE).v.view(np.float32)
    assert np.array_equal(after[0, :n], (x[1] * x[2])[:n])
    assert np.array_equal(after[1, :n], (x[0] + x[3])[:n])
    after = snippets.run("g", v=v, exec=(1 << n) - 1, mode=MODE).v.view(np.float32)
    assert np.array_equal(after[3, :n], (x[0] * x[4])[:n])
    assert np.allclose(after[0, :n], (x[0] + x[1] * x[2])[:n], rtol=1e-5, atol=1e-5)


def test_dual_dot(tmp_path: Path) -> None:
    """v_dual_dot2acc of gfx11, in both formats, with exact small numbers."""
    texts = {name: f"v_dual_dot2acc_f32_{name} v0, v1, v2 :: v_dual_mul_f32 v3, v4, v5" for name in ("f16", "bf16")}
    snippets = Snippets("gfx1100", tmp_path, texts)
    x = np.random.default_rng(8).integers(-9, 10, (2, 2, 64)).astype(np.float32)
    start = np.random.default_rng(9).integers(-99, 99, 64).astype(np.float32)
    want = (start + (x[0] * x[1]).sum(axis=0))[:32]
    for name in texts:
        codes = x.astype(np.float16).view(np.uint16) if name == "f16" else (x.view(np.uint32) >> 16).astype(np.uint16)
        words = codes[:, 0].astype(np.uint32) | codes[:, 1].astype(np.uint32) << np.uint32(16)
        v = {0: start.view(np.uint32), 1: words[0], 2: words[1], 4: start.view(np.uint32), 5: start.view(np.uint32)}
        after = snippets.run(name, v=v, exec=(1 << 32) - 1, mode=MODE).v.view(np.float32)
        assert np.array_equal(after[0, :32], want)
        assert np.array_equal(after[3, :32], (start * start)[:32])


def two_over_pi(bits: int) -> int:
    """floor(2 / pi x 2^bits), by Machin's formula."""
    one = 1 << (bits + 64)

    def arctangent(inverse: int) -> int:
        power, total, k = one // inverse, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power, k = power // (inverse * inverse), k + 1
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (2 * one << bits) // pi


@pytest.mark.parametrize("arch", ALL)
def test_segments_of_two_over_pi(arch: str, tmp_path: Path) -> None:
    """v_trig_preop_f64 gives 53 bits of 2/pi from a segment on, shifted by the exponent of the argument."""
    snippets = Snippets(arch, tmp_path, {"f": "v_trig_preop_f64 v[2:3], v[0:1], v4"})
    lanes = snippets.lanes
    exponents = np.random.default_rng(10).integers(1, 2047, 64).astype(np.uint64)
    exponents[:5] = 1022, 1077, 1078, 1967, 1968
    segment = np.arange(64, dtype=np.uint32) % np.uint32(20)
    v = {0: np.zeros(64, np.uint32), 1: (exponents << np.uint64(20)).astype(np.uint32), 4: segment}
    after = snippets.run("f", v=v, exec=(1 << lanes) - 1, mode=MODE).v
    digits = two_over_pi(1201)
    for lane in range(lanes):
        exponent, shift = int(exponents[lane]), int(segment[lane]) * 53
        shift += max(0, exponent - 1077)
        part = (digits << shift) >> (1201 - 53) & ((1 << 53) - 1)
        want = scale(integer(part), -53 - shift + (128 if exponent >= 1968 else 0))
        got = int(after[2, lane]) | int(after[3, lane]) << 32
        assert got == encode(F64, want), (lane, exponent, hex(got))


@pytest.mark.parametrize("arch", ALL)
def test_fp16_overflow(arch: str, tmp_path: Path) -> None:
    """With MODE.FP16_OVFL, a finite result beyond the range becomes the largest number; infinities stay."""
    half = ".l" if arch in RDNA else ""
    snippets = Snippets(arch, tmp_path, {"add": f"v_add_f16 v2{half}, v0{half}, v1{half}",
                                         "fma": f"v_fma_f16 v2{half}, v0{half}, v1{half}, v1{half}",
                                         "pk": "v_pk_mul_f16 v2, v0, v1", "cvt": f"v_cvt_f16_f32 v2{half}, v3"})  # fmt: skip
    a, b = (draw(F16, seed, 64).astype(np.uint32) for seed in (7, 8))
    a[:6], b[:6] = 0x7BFF, (0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x3C00, 0x4000)
    wide = draw(F32, 9, 64).astype(np.uint32)
    wide[:4] = (0x477FF000, 0xC77FF000, 0x7F7FFFFF, 0x7F800000)
    v, lanes = {0: a, 1: b, 3: wide}, snippets.lanes
    for name in ("add", "fma", "pk", "cvt"):
        got = snippets.run(name, v=v, exec=(1 << lanes) - 1, mode=MODE | OVERFLOW).v[2]
        for lane in range(lanes):
            x, y = decode(F16, int(a[lane])), decode(F16, int(b[lane]))
            if name == "add":
                exact = add(x, y)
            elif name == "cvt":
                exact = decode(F32, int(wide[lane]))
            else:
                product = multiply(x, y)
                exact = add(product, y) if name == "fma" else product
            if exact.special == "nan":
                assert is_nan(F16, int(got[lane]) & 0xFFFF)
                continue
            assert int(got[lane]) & 0xFFFF == encode(F16, exact, saturate=not exact.special), (name, lane)


def test_unfused_is_not_fused(tmp_path: Path) -> None:
    """v_mad_f32 rounds its product and v_fma_f32 does not, in a case where the results differ."""
    snippets = Snippets("gfx90a", tmp_path, {"mad": "v_mad_f32 v3, v0, v1, v2", "fma": "v_fma_f32 v3, v0, v1, v2"})
    x = np.float32(1 + 2**-12)
    v = {0: np.full(64, x), 1: np.full(64, x), 2: np.full(64, -np.float32(x * x))}
    raw = {k: row.view(np.uint32) for k, row in v.items()}
    after = {
        name: snippets.run(name, v=raw, exec=(1 << 64) - 1, mode=MODE).v[3].view(np.float32) for name in ("mad", "fma")
    }
    assert not after["mad"].any()
    assert np.all(after["fma"] == np.float32(2**-24))
    assert set(CDNA) == {"gfx90a", "gfx942", "gfx950"}

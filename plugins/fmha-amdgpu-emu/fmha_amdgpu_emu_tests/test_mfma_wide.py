"""v_mfma_f64_* and v_mfma_*_f8f6f4, with and without scales, agree with matrix products."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import NUMBERS, Array, Shape, pack, places, unpack

A, B, C, D = 0, 32, 64, 128

# ---- f64 ----

BIG, SMALL = "v[128:135], v[0:1], v[32:33], v[64:71]", "v[128:129], v[0:1], v[32:33], v[64:65]"
NAMES = {
    "gfx90a": ("v_mfma_f64_16x16x4f64", "v_mfma_f64_4x4x4f64"),
    "gfx942": ("v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"),
    "gfx950": ("v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"),
}


def f64_snippets(arch: str, folder: Path) -> Snippets:
    big, small = NAMES[arch]
    texts = {"big": f"{big} {BIG}", "small": f"{small} {SMALL}"}
    texts["constant"] = f"{big} v[128:135], a[0:1], v[32:33], 2.0"
    if arch != "gfx90a":
        for signs in itertools.product((0, 1), repeat=3):
            words = ",".join(map(str, signs))
            texts[f"neg{''.join(map(str, signs))}"] = f"{big} {BIG} neg:[{words}]"
    return Snippets(arch, folder, texts)


def f64_rows(values: Array, lane: Array, element: Array, count: int) -> Array:
    return pack(values.view(np.uint64), lane, element, 64, count)


@pytest.mark.parametrize("arch", NAMES)
def test_f64(arch: str, tmp_path: Path) -> None:
    """16x16x4, and 4x4x4 in four blocks; AGPRs, a constant as C, negation. Denormals are kept."""
    snippets = f64_snippets(arch, tmp_path)
    rng = np.random.default_rng(1)
    a, b, c = rng.standard_normal((16, 4)), rng.standard_normal((4, 16)), rng.standard_normal((16, 16))
    a[0], b[:, 0], c[0, 0] = 2.0**-1040, 1.0, 0
    i, k = np.indices((16, 4))
    left, right = (f64_rows(x, 16 * k + i, 0 * i, 1) for x in (a, b.T.copy()))
    row, j = np.indices((16, 16))
    lane, element = 16 * (row % 4) + j, row // 4
    registers = {A: left, B: right, C: f64_rows(c, lane, element, 4)}
    want = a @ b + c

    def result(name: str, v: dict[int, Array]) -> Array:
        return unpack(snippets.run(name, v, exec=5).v[D : D + 8], lane, element, 64).view(np.float64)

    assert np.allclose(result("big", registers), want, rtol=1e-13, atol=0)
    assert result("big", registers)[0, 0] == 4 * 2.0**-1040
    assert np.allclose(result("constant", {256: left, B: right}), a @ b + 2, rtol=1e-13)
    if arch != "gfx90a":
        for na, nb, nc in itertools.product((0, 1), repeat=3):
            signed = (-1) ** (na + nb) * (a @ b) + (-1) ** nc * c
            assert np.allclose(result(f"neg{na}{nb}{nc}", registers), signed, rtol=1e-13, atol=0)


@pytest.mark.parametrize("arch", NAMES)
def test_f64_blocks(arch: str, tmp_path: Path) -> None:
    """A is in lane 16 k + 4 block + i, B in lane 16 k + 4 block + j, D in lane 16 i + 4 block + j."""
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal((4, 4, 4)) for _ in range(3))
    block, i, k = np.indices((4, 4, 4))
    left, right = (f64_rows(x, 16 * k + 4 * block + i, 0 * i, 1) for x in (a, b.swapaxes(1, 2).copy()))
    lane = 16 * i + 4 * block + k
    after = f64_snippets(arch, tmp_path).run("small", {A: left, B: right, C: f64_rows(c, lane, 0 * i, 1)})
    got = unpack(after.v[D : D + 2], lane, 0 * i, 64).view(np.float64)
    assert np.allclose(got, a @ b + c, rtol=1e-13, atol=1e-15)


def test_f64_modifiers_of_gfx90a(tmp_path: Path) -> None:
    """gfx90a's f64 products have no blgp, so the emulator refuses it instead of guessing."""
    with pytest.raises(Fault, match="blgp"):
        Snippets("gfx90a", tmp_path, {"bad": f"v_mfma_f64_4x4x4f64 {SMALL} blgp:1"}).run("bad")


# ---- f8f6f4 ----

FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
SHAPES = {"16x16x128": Shape(16, 128), "32x32x64": Shape(32, 64)}
PAIRS = list(itertools.product(range(5), repeat=2))


def f8f6f4_text(size: str, a: int, b: int, scaled: str = "") -> str:
    d = 4 if size.startswith("16") else 16
    words = [NUMBERS[FORMATS[x]].bits for x in (a, b)]
    sources = f"v[{A}:{A + words[0] - 1}], v[{B}:{B + words[1] - 1}]"
    kind = "scale_" if scaled else ""
    extra = f", v200, v201 {scaled}" if scaled else ""
    return f"v_mfma_{kind}f32_{size}_f8f6f4 v[{D}:{D + d - 1}], {sources}, v[{C}:{C + d - 1}]{extra} cbsz:{a} blgp:{b}"


def place(shape: Shape, bits: int) -> tuple[Array, Array]:
    """The lane and element of A[i][k]: 8-bit formats have two runs of 16, the others one of 32."""
    i, k = np.indices((shape.n, shape.k))
    groups = 64 // shape.n
    if bits == 8:
        return shape.n * (k // 16 % groups) + i, k % 16 + 16 * (k // (16 * groups))
    return shape.n * (k // 32) + i, k % 32


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Snippets:
    texts = {f"s{size}_{a}_{b}": f8f6f4_text(size, a, b) for size in SHAPES for a, b in PAIRS}
    selects = (
        "op_sel:[0,0,0] op_sel_hi:[0,0,0]",
        "op_sel:[1,0,0] op_sel_hi:[0,1,0]",
        "op_sel:[1,1,0] op_sel_hi:[1,1,0]",
    )
    for size, k in itertools.product(SHAPES, range(3)):
        texts[f"s{size}_scale{k}"] = f8f6f4_text(size, k, 4 - k, selects[k])
    return Snippets("gfx950", tmp_path_factory.mktemp("narrow"), texts)


def narrow_data(shape: Shape, a: int, b: int, rng: np.random.Generator) -> tuple[Array, Array, Array, dict[int, Array]]:
    kinds = [NUMBERS[FORMATS[x]] for x in (a, b)]
    codes = [rng.integers(0, 1 << kind.bits, (shape.n, shape.k)).astype(np.uint64) for kind in kinds]
    for kind, code in zip(kinds, codes, strict=True):
        code[~np.isfinite(kind.decode(code))] = 1
    rows = [pack(code, *place(shape, kind.bits), kind.bits, 32) for kind, code in zip(kinds, codes, strict=True)]
    c = rng.standard_normal((1, shape.n, shape.n)).astype(np.float32)
    held = pack(c.view(np.uint32).astype(np.uint64), *places(shape, shape.n, shape.n, shape.result), 32, shape.results)
    return kinds[0].decode(codes[0]), kinds[1].decode(codes[1]).T, c[0], {A: rows[0], B: rows[1], C: held}


def narrow_result(shape: Shape, v: Array) -> Array:
    lane, element = places(shape, shape.n, shape.n, shape.result)
    return unpack(v[D : D + shape.results], lane, element, 32).astype(np.uint32).view(np.float32)[0]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{FORMATS[a]}-{FORMATS[b]}" for a, b in PAIRS])
@pytest.mark.parametrize("size", SHAPES)
def test_formats(size: str, a: int, b: int, narrow: Snippets) -> None:
    """All pairs of formats are covered; 8-bit and narrower formats hold different k in a lane."""
    shape = SHAPES[size]
    left, right, c, registers = narrow_data(shape, a, b, np.random.default_rng(a * 5 + b))
    got = narrow_result(shape, narrow.run(f"s{size}_{a}_{b}", registers, exec=0).v)
    near = (np.abs(left) @ np.abs(right) + np.abs(c)) * shape.k * 2.0**-24
    assert np.all(np.abs(got - (left @ right + c)) <= near)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("size", SHAPES)
def test_scales(size: str, which: int, narrow: Snippets) -> None:
    """A power of two for every 32 elements in a row of A or a column of B; OP_SEL selects the byte; 255 is NaN."""
    shape = SHAPES[size]
    rng = np.random.default_rng(which)
    left, right, c, registers = narrow_data(shape, which, 4 - which, rng)
    byte = ((0, 0), (1, 2), (3, 3))[which]
    scales = rng.integers(110, 140, (2, shape.k // 32, shape.n))
    # Factors beyond float's range whose product is back inside it.
    scales[0, 0, 1], scales[1, 0, :] = 254, 1
    scales[0, 1, 5] = 255
    words = rng.integers(0, 2**32, (2, 64)).astype(np.uint64)
    for operand in range(2):
        mask = ~np.uint64(0xFF << 8 * byte[operand])
        codes = scales[operand].reshape(-1).astype(np.uint64) << np.uint64(8 * byte[operand])
        words[operand] = (words[operand] & mask) | codes
    registers |= {200: words[0].astype(np.uint32), 201: words[1].astype(np.uint32)}
    got = narrow_result(shape, narrow.run(f"s{size}_scale{which}", registers).v)
    factors = np.where(scales == 255, np.nan, 2.0 ** (scales - 127.0))
    left = left * np.repeat(factors[0], 32, axis=0).T
    right = right * np.repeat(factors[1], 32, axis=0)
    want, total = left @ right + c, np.abs(left) @ np.abs(right) + np.abs(c)
    assert np.isnan(got[5]).all()
    rest = np.arange(shape.n) != 5
    assert np.all(np.abs(got - want)[rest] <= (total * shape.k * 2.0**-24)[rest])

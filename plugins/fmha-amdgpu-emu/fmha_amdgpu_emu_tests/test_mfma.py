"""Every shape and format of v_mfma_* agrees with a matrix product, in the published layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault, WaveState

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import NUMBERS, Array, Shape, number, pack, places, unpack

A, B, C, D = 0, 32, 64, 128
"""First registers of the operands."""


@dataclass(frozen=True)
class MfmaInstruction:
    """An instruction: name, shape, formats of A and B and of the result."""

    name: str
    shape: Shape
    a: str
    b: str
    out: str = "f32"
    archs: tuple[str, ...] = field(default=("gfx942", "gfx950"))

    @property
    def text(self) -> str:
        """Assembly text, with the operands in the registers above."""
        return self.at(f"v[{C}:{C + self.words(self.out, self.shape.results) - 1}]")

    def words(self, kind: str, count: int) -> int:
        """Registers of ``count`` elements."""
        return count * NUMBERS[kind].bits // 32

    def at(self, c: str, kind: str = "v", more: str = "") -> str:
        """Assembly text with another C, in AGPRs (``kind`` a) or with modifiers."""
        shape = self.shape

        def reg(first: int, of: str, count: int) -> str:
            words = self.words(of, count)
            return f"{kind}[{first}:{first + words - 1}]" if words > 1 else f"{kind}{first}"

        sources = f"{reg(A, self.a, shape.held)}, {reg(B, self.b, shape.held)}"
        return f"{self.name} {reg(D, self.out, shape.results)}, {sources}, {c} {more}"


ALL = ("gfx90a", "gfx942", "gfx950")
OLD, NEW, LAST = ("gfx90a",), ("gfx942", "gfx950"), ("gfx950",)


def f8(shape: Shape, size: str) -> list[MfmaInstruction]:
    return [
        MfmaInstruction(f"v_mfma_f32_{size}_{a}_{b}", shape, a, b, archs=NEW)
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ]


CASES = [
    MfmaInstruction("v_mfma_f32_32x32x1f32", Shape(32, 1, 2), "f32", "f32", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x1f32", Shape(16, 1, 4), "f32", "f32", archs=ALL),
    MfmaInstruction("v_mfma_f32_4x4x1f32", Shape(4, 1, 16), "f32", "f32", archs=ALL),
    MfmaInstruction("v_mfma_f32_32x32x2f32", Shape(32, 2), "f32", "f32", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x4f32", Shape(16, 4), "f32", "f32", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x8_xf32", Shape(16, 8), "f32", "f32", archs=("gfx942",)),
    MfmaInstruction("v_mfma_f32_32x32x4_xf32", Shape(32, 4), "f32", "f32", archs=("gfx942",)),
    MfmaInstruction("v_mfma_f32_32x32x4f16", Shape(32, 4, 2), "f16", "f16", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x4f16", Shape(16, 4, 4), "f16", "f16", archs=ALL),
    MfmaInstruction("v_mfma_f32_4x4x4f16", Shape(4, 4, 16), "f16", "f16", archs=ALL),
    MfmaInstruction("v_mfma_f32_32x32x8f16", Shape(32, 8), "f16", "f16", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x16f16", Shape(16, 16), "f16", "f16", archs=ALL),
    MfmaInstruction("v_mfma_f32_32x32x16_f16", Shape(32, 16), "f16", "f16", archs=LAST),
    MfmaInstruction("v_mfma_f32_16x16x32_f16", Shape(16, 32), "f16", "f16", archs=LAST),
    MfmaInstruction("v_mfma_f32_32x32x2bf16", Shape(32, 2, 2), "bf16", "bf16", archs=OLD),
    MfmaInstruction("v_mfma_f32_16x16x2bf16", Shape(16, 2, 4), "bf16", "bf16", archs=OLD),
    MfmaInstruction("v_mfma_f32_4x4x2bf16", Shape(4, 2, 16), "bf16", "bf16", archs=OLD),
    MfmaInstruction("v_mfma_f32_32x32x4bf16", Shape(32, 4), "bf16", "bf16", archs=OLD),
    MfmaInstruction("v_mfma_f32_16x16x8bf16", Shape(16, 8), "bf16", "bf16", archs=OLD),
    MfmaInstruction("v_mfma_f32_32x32x4bf16_1k", Shape(32, 4, 2), "bf16", "bf16", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x4bf16_1k", Shape(16, 4, 4), "bf16", "bf16", archs=ALL),
    MfmaInstruction("v_mfma_f32_4x4x4bf16_1k", Shape(4, 4, 16), "bf16", "bf16", archs=ALL),
    MfmaInstruction("v_mfma_f32_32x32x8bf16_1k", Shape(32, 8), "bf16", "bf16", archs=ALL),
    MfmaInstruction("v_mfma_f32_16x16x16bf16_1k", Shape(16, 16), "bf16", "bf16", archs=ALL),
    MfmaInstruction("v_mfma_f32_32x32x16_bf16", Shape(32, 16), "bf16", "bf16", archs=LAST),
    MfmaInstruction("v_mfma_f32_16x16x32_bf16", Shape(16, 32), "bf16", "bf16", archs=LAST),
    *f8(Shape(16, 32), "16x16x32"),
    *f8(Shape(32, 16), "32x32x16"),
    MfmaInstruction("v_mfma_i32_32x32x4i8", Shape(32, 4, 2), "i8", "i8", "i32", ALL),
    MfmaInstruction("v_mfma_i32_16x16x4i8", Shape(16, 4, 4), "i8", "i8", "i32", ALL),
    MfmaInstruction("v_mfma_i32_4x4x4i8", Shape(4, 4, 16), "i8", "i8", "i32", ALL),
    MfmaInstruction("v_mfma_i32_32x32x8i8", Shape(32, 8), "i8", "i8", "i32", OLD),
    MfmaInstruction("v_mfma_i32_16x16x16i8", Shape(16, 16), "i8", "i8", "i32", OLD),
    MfmaInstruction("v_mfma_i32_32x32x16_i8", Shape(32, 16), "i8", "i8", "i32", NEW),
    MfmaInstruction("v_mfma_i32_16x16x32_i8", Shape(16, 32), "i8", "i8", "i32", NEW),
    MfmaInstruction("v_mfma_i32_32x32x32_i8", Shape(32, 32), "i8", "i8", "i32", LAST),
    MfmaInstruction("v_mfma_i32_16x16x64_i8", Shape(16, 64), "i8", "i8", "i32", LAST),
]
BY_NAME = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Special:
    """A case with special operands: AGPRs, another C (text), modifiers."""

    name: str
    kind: str = "v"
    c: str = ""
    more: str = ""

    @property
    def case(self) -> MfmaInstruction:
        return BY_NAME[self.name]

    @property
    def text(self) -> str:
        return self.case.at(self.c or self.case.text.rsplit(", ", 1)[1], self.kind, self.more)


SPECIAL = {
    "agpr": Special("v_mfma_f32_32x32x8f16", "a", f"a[{C}:{C + 15}]"),
    "agpr_bf16": Special("v_mfma_f32_16x16x16bf16_1k", "a", f"a[{C}:{C + 3}]"),
    "constant": Special("v_mfma_f32_32x32x8f16", c="1.0"),
    "constant_int": Special("v_mfma_i32_4x4x4i8", c="-3"),
    "in_place": Special("v_mfma_f32_16x16x16f16", c=f"v[{D}:{D + 3}]"),
    "overlap": Special("v_mfma_f32_16x16x16f16", c=f"v[{D + 2}:{D + 5}]"),
    **{
        f"broadcast_{name[11:]}_{size}_{which}": Special(name, more=f"cbsz:{size} abid:{which}")
        for name, size, which in (
            ("v_mfma_f32_4x4x4f16", 2, 3), ("v_mfma_f32_4x4x4f16", 4, 13), ("v_mfma_f32_16x16x4f16", 1, 1),
            ("v_mfma_f32_32x32x1f32", 1, 1), ("v_mfma_i32_16x16x4i8", 2, 2),
        )
    },
    **{
        f"permute_{name[11:]}_{pattern}": Special(name, more=f"blgp:{pattern}")
        for name in ("v_mfma_f32_32x32x2f32", "v_mfma_f32_16x16x4f16") for pattern in range(1, 8)
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    """All cases of each architecture."""
    return {arch: all_of(arch, tmp_path_factory.mktemp(arch)) for arch in ALL}


def all_of(arch: str, folder: Path) -> Snippets:
    texts = {case.name: case.text for case in CASES if arch in case.archs}
    texts |= {key: special.text for key, special in SPECIAL.items()}
    return Snippets(arch, folder, texts)


@dataclass(frozen=True)
class Data:
    """Operands as numbers (blocks, rows, columns) and as codes in registers."""

    a: Array
    b: Array
    c: Array
    registers: dict[int, Any]


def operands(case: MfmaInstruction, arch: str, codes: tuple[Array, Array], c: Array) -> Data:
    """Registers that hold the codes and C."""
    shape = case.shape
    kinds = number(case.a, arch), number(case.b, arch)
    lane, element = places(shape, shape.n, shape.k, shape.source)
    codes_a, codes_b = codes
    a = pack(codes_a, lane, element, kinds[0].bits, shape.held)
    b = pack(codes_b.swapaxes(1, 2), lane, element, kinds[1].bits, shape.held)
    lane, element = places(shape, shape.n, shape.n, shape.result)
    held = pack(c.view(np.uint32).astype(np.uint64), lane, element, 32, shape.results)
    return Data(kinds[0].decode(codes_a), kinds[1].decode(codes_b), c, {A: a, B: b, C: held})


def random_data(case: MfmaInstruction, arch: str, rng: np.random.Generator, whole: bool) -> Data:
    """Small whole numbers, whose sums are exact, or numbers of all sizes near one."""
    shape = case.shape
    shape_a, shape_b = (shape.blocks, shape.n, shape.k), (shape.blocks, shape.k, shape.n)
    shape_c = (shape.blocks, shape.n, shape.n)
    if case.out == "i32":
        draw = [rng.integers(0, 256, size).astype(np.uint64) for size in (shape_a, shape_b)]
        return operands(case, arch, (draw[0], draw[1]), rng.integers(-(2**31), 2**31, shape_c).astype(np.int32))
    values = [rng.integers(-4, 5, s) if whole else rng.standard_normal(s) for s in (shape_a, shape_b)]
    codes = [number(k, arch).encode(x) for k, x in zip((case.a, case.b), values, strict=True)]
    c = rng.integers(-9, 9, shape_c) if whole else rng.standard_normal(shape_c)
    return operands(case, arch, (codes[0], codes[1]), c.astype(np.float32))


def result(case: MfmaInstruction, after: WaveState, base: int = 0) -> Array:
    """D (blocks, n, n)."""
    lane, element = places(case.shape, case.shape.n, case.shape.n, case.shape.result)
    codes = unpack(after.v[base + D : base + D + case.shape.results], lane, element, 32).astype(np.uint32)
    return codes.view(np.int32 if case.out == "i32" else np.float32)


def check(case: MfmaInstruction, data: Data, got: Array) -> None:
    """Compare D with the float64 product: integers wrap; floats may differ by the roundings of the sum."""
    want = data.a @ data.b + data.c
    if case.out == "i32":
        assert np.array_equal(got, want.astype(np.int64).astype(np.int32))
        return
    size = np.abs(data.a) @ np.abs(data.b) + np.abs(data.c)
    assert np.all(np.abs(got - want) <= size * (case.shape.k + 1) * 2.0**-24)


PAIRS = [(arch, case) for case in CASES for arch in case.archs]


@pytest.mark.parametrize(("arch", "case"), PAIRS, ids=[f"{arch}-{case.name[7:]}" for arch, case in PAIRS])
def test_product(arch: str, case: MfmaInstruction, snippets: dict[str, Snippets]) -> None:
    """The product is exact on whole numbers and within its roundings on others; EXEC has no effect."""
    rng = np.random.default_rng(len(case.name) * 7 + case.shape.k)
    for whole, mask in ((True, None), (False, 0), (False, 0x00FF00FF12345678)):
        data = random_data(case, arch, rng, whole)
        after = snippets[arch].run(case.name, data.registers, exec=mask)
        got = result(case, after)
        if "xf32" in case.name and not whole:
            continue
        check(case, data, got)
        if whole:
            assert case.out == "i32" or np.array_equal(got, data.a @ data.b + data.c)
        rest = np.delete(after.v, np.s_[D : D + case.shape.results], axis=0)
        assert not rest[C + case.shape.results :].any(), "something else was written"


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("name", ["agpr", "agpr_bf16", "constant", "constant_int", "in_place", "overlap"])
def test_operand_kinds(arch: str, name: str, snippets: dict[str, Snippets]) -> None:
    """AGPRs for all operands, inline constants as C, and D in place of C or overlapping it."""
    case = SPECIAL[name].case
    data = random_data(case, arch, np.random.default_rng(3), True)
    base = 256 if name.startswith("agpr") else 0
    registers = {base + key: rows for key, rows in data.registers.items()}
    if name in ("in_place", "overlap"):
        registers[D + (2 if name == "overlap" else 0)] = registers.pop(C)
    c = {"constant": np.float32(1), "constant_int": np.int32(-3)}.get(name)
    if c is not None:
        data = Data(data.a, data.b, np.full_like(data.c, c), {})
    check(case, data, result(case, snippets[arch].run(name, registers), base))


@pytest.mark.parametrize("name", [key for key in SPECIAL if key.startswith("broadcast")])
@pytest.mark.parametrize("arch", ALL)
def test_broadcast(arch: str, name: str, snippets: dict[str, Snippets]) -> None:
    """CBSZ and ABID: groups of 2^CBSZ blocks use the A of one block."""
    case = SPECIAL[name].case
    size, which = (int(word) for word in name.split("_")[-2:])
    data = random_data(case, arch, np.random.default_rng(4), True)
    block = np.arange(case.shape.blocks)
    used = (block >> size << size) + which
    broadcast = Data(data.a[used], data.b, data.c, {})
    check(case, broadcast, result(case, snippets[arch].run(name, data.registers)))


@pytest.mark.parametrize("name", [key for key in SPECIAL if key.startswith("permute")])
@pytest.mark.parametrize("arch", ALL)
def test_lane_patterns(arch: str, name: str, snippets: dict[str, Snippets]) -> None:
    """BLGP: B's lanes broadcast by halves and quarters, or rotated by a quarter."""
    case = SPECIAL[name].case
    data = random_data(case, arch, np.random.default_rng(5), True)
    lane = np.arange(64)
    quarter = [lane % 16 + 16 * q for q in range(4)]
    pattern = int(name.rsplit("_", 1)[1])
    source = [lane, lane % 32, lane % 32 + 32, (lane + 16) % 64, *quarter][pattern]
    plain = dict(data.registers)
    plain[B] = data.registers[B][:, source]
    want = snippets[arch].run(case.name, plain)
    got = snippets[arch].run(name, data.registers)
    assert np.array_equal(result(case, got), result(case, want))
    assert not np.array_equal(data.registers[B][:, source], data.registers[B])


HALVES = [(arch, name) for arch in ALL for name in ("v_mfma_f32_32x32x8f16", "v_mfma_f32_16x16x16bf16_1k")]


@pytest.mark.parametrize(("arch", "name"), HALVES)
def test_special_values(arch: str, name: str, snippets: dict[str, Snippets]) -> None:
    """Infinities, NaNs, both zeros and denormals of f16 and bf16; gfx90a reads and writes no denormals."""
    case = BY_NAME[name]
    kind = NUMBERS[case.a]
    rng = np.random.default_rng(6)
    mantissa = 10 if case.a == "f16" else 7
    least = 1 << mantissa  # the code of the least normal number
    codes = np.array([0, 0x8000, 1, 0x8001, least - 1, least, 0x3C00, 0xBC00], np.uint64)
    infinite = np.array([0x7C00, 0xFC00, 0x7E00] if case.a == "f16" else [0x7F80, 0xFF80, 0x7FC0], np.uint64)
    shape = case.shape
    for most in (0, 0.05):
        draws = []
        for size in ((1, shape.n, shape.k), (1, shape.k, shape.n)):
            draw = rng.choice(codes, size)
            draws.append(np.where(rng.random(size) < most, rng.choice(infinite, size), draw))
        data = operands(case, arch, (draws[0], draws[1]), np.zeros((1, shape.n, shape.n), np.float32))
        a, b = data.a, data.b
        if arch == "gfx90a":
            normal = float(kind.decode(np.array([least], np.uint64))[0])
            a, b = (np.where(np.abs(x) < normal, 0.0, x) for x in (a, b))
        with np.errstate(invalid="ignore"):
            want, total = a @ b, np.abs(a) @ np.abs(b)
        got = result(case, snippets[arch].run(name, data.registers))
        finite = np.isfinite(want)
        assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
        smallest = 2.0**-126 if arch == "gfx90a" else 2.0**-149  # smaller results are zero or rounded to it
        near = total[finite] * (shape.k + 1) * 2.0**-24 + smallest
        assert np.all(np.abs(got[finite] - want[finite]) <= near)
    assert np.isnan(want).any()
    assert np.isinf(want).any()


@pytest.mark.parametrize(("arch", "name"), HALVES)
def test_denormals(arch: str, name: str, snippets: dict[str, Snippets]) -> None:
    """The least denormal times one is itself, except on gfx90a, which reads f16 and bf16 denormals as zeros."""
    case = BY_NAME[name]
    shape = case.shape
    a = np.zeros((1, shape.n, shape.k), np.uint64)
    b = np.zeros((1, shape.k, shape.n), np.uint64)
    a[0, 5, 3], b[0, 3, 7] = 1, NUMBERS[case.a].encode(np.array(1.0))
    c = np.zeros((1, shape.n, shape.n), np.float32)
    c[0, 1, 1] = 2.0**-140
    data = operands(case, arch, (a, b), c)
    got = result(case, snippets[arch].run(name, data.registers))
    want = 0 * c if arch == "gfx90a" else (data.a @ data.b + c).astype(np.float32)
    assert np.array_equal(got, want)
    assert arch == "gfx90a" or np.count_nonzero(want) == 2


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
@pytest.mark.parametrize("arch", NEW)
def test_all_codes_of_8_bits(arch: str, kind: str, snippets: dict[str, Snippets]) -> None:
    """Every code times one: FNUZ numbers on gfx942; on gfx950, OCP numbers with their infinities, NaNs and zeros."""
    case = BY_NAME[f"v_mfma_f32_16x16x32_{kind}_fp8"]
    number_one = number("fp8", arch).encode(np.array(1.0))
    for first in range(0, 256, 16):
        a, b = np.zeros((1, 16, 32), np.uint64), np.zeros((1, 32, 16), np.uint64)
        a[0, :, 7], b[0, 7, :] = first + np.arange(16), number_one
        data = operands(case, arch, (a, b), np.zeros((1, 16, 16), np.float32))
        got = result(case, snippets[arch].run(case.name, data.registers))
        want = np.repeat(data.a[:, :, 7:8], 16, axis=2)
        assert np.array_equal(got, want.astype(np.float32), equal_nan=True)


def test_rows_of_32(snippets: dict[str, Snippets]) -> None:
    """Register r of lane l is row 8 (r / 4) + 4 (l / 32) + r % 4 of a 32 x 32 result."""
    ones = np.full((1, 64), 0x3C003C00, np.uint32)
    rows = np.repeat(np.arange(32) / 8, 2).reshape(32, 2)  # one element of A per row identifies it
    a = np.zeros((2, 64), np.uint32)
    a[0, :32] = rows[:, 0].astype(np.float16).view(np.uint16)
    after = snippets["gfx942"].run("v_mfma_f32_32x32x8f16", {A: a, B: np.repeat(ones, 2, axis=0)})
    r, lane = np.indices((16, 64))
    want = (8 * (r // 4) + 4 * (lane // 32) + r % 4) / 8
    assert np.array_equal(after.v[D : D + 16].view(np.float32), want.astype(np.float32))


def test_xf32_rounds_its_sources(snippets: dict[str, Snippets]) -> None:
    """Sources are rounded to ten bits of mantissa, nearest even; infinities and NaNs stay."""
    values = np.array([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-12, -1 - 2**-13, np.inf, 3.5, 2**-126])
    want = np.array([1 + 2**-10, 1, 1 + 2**-9, 1, -1, np.inf, 3.5, 2**-126])
    a = np.zeros((2, 64), np.float32)
    a[0, :8] = values
    b = np.zeros((2, 64), np.float32)
    b[0, 3] = 1
    after = snippets["gfx942"].run("v_mfma_f32_16x16x8_xf32", {A: a.view(np.uint32), B: b.view(np.uint32)})
    got = result(BY_NAME["v_mfma_f32_16x16x8_xf32"], after)
    assert np.array_equal(got[0, :8, 3], want.astype(np.float32))


def test_shapes_are_checked(tmp_path: Path) -> None:
    """A broadcast beyond the blocks is refused by name."""
    text = "v_mfma_f32_16x16x4f16 v[128:143], v[0:1], v[32:33], v[64:79] cbsz:3 abid:1"
    with pytest.raises(Fault, match=r"v_mfma_f32_16x16x4.*cbsz"):
        Snippets("gfx942", tmp_path, {"wide": text}).run("wide")

"""v_wmma_* agrees with matrix products in gfx1100's layouts (with duplicated lanes) and gfx1201's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import NUMBERS, Array, pack, unpack

A, B, C, D = 0, 32, 64, 128


@dataclass(frozen=True)
class WmmaInstruction:
    """16 x 16 x k on one architecture; ``out`` f32, i32, f16 or bf16."""

    arch: str
    name: str
    k: int
    a: str
    b: str
    out: str

    @property
    def old(self) -> bool:
        return self.arch == "gfx1100"

    @property
    def held(self) -> int:
        """The number of elements of A in a lane."""
        return self.k if self.old else self.k // 2

    @property
    def result_words(self) -> int:
        return 8 if self.old or self.out in ("f32", "i32") else 4

    def text(self, more: str = "", c: str = "") -> str:
        bits = NUMBERS[self.a].bits, NUMBERS[self.b].bits
        counts = ((D, self.result_words), (A, self.held * bits[0] // 32), (B, self.held * bits[1] // 32))
        words = [f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}" for first, count in counts]
        return f"{self.name} {', '.join(words)}, {c or f'v[{C}:{C + self.result_words - 1}]'} {more}"

    def source(self) -> tuple[Array, Array]:
        """The lane and element of A[i][k] and B[k][i]; gfx1100 repeats each 16 lanes further up."""
        i, k = np.indices((16, self.k))
        if self.old:
            return i, k
        if NUMBERS[self.a].bits == 16:  # runs of four
            return 16 * (k // 4 % 2) + i, 4 * (k // 8) + k % 4
        return 16 * (k // self.held) + i, k % self.held

    def result(self, upper: int = 0) -> tuple[Array, Array]:
        """The lane and element (of the result's width) of D[i][j]."""
        i, j = np.indices((16, 16))
        wide = self.out in ("f32", "i32")
        if self.old:
            return 16 * (i % 2) + j, i // 2 if wide else i // 2 * 2 + upper
        return 16 * (i // 8) + j, i % 8


BOTH = ("gfx1100", "gfx1201")
CASES = [
    *(WmmaInstruction(arch, f"v_wmma_f32_16x16x16_{t}", 16, t, t, "f32") for arch in BOTH for t in ("f16", "bf16")),
    *(WmmaInstruction(arch, f"v_wmma_{t}_16x16x16_{t}", 16, t, t, t) for arch in BOTH for t in ("f16", "bf16")),
    *(WmmaInstruction(arch, "v_wmma_i32_16x16x16_iu8", 16, "u8", "u8", "i32") for arch in BOTH),
    *(WmmaInstruction(arch, "v_wmma_i32_16x16x16_iu4", 16, "u4", "u4", "i32") for arch in BOTH),
    WmmaInstruction("gfx1201", "v_wmma_i32_16x16x32_iu4", 32, "u4", "u4", "i32"),
    *(
        WmmaInstruction("gfx1201", f"v_wmma_f32_16x16x16_{a}_{b}", 16, a, b, "f32")
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ),
]
SIGNS = {"uu": "", "su": "neg_lo:[1,0,0]", "us": "neg_lo:[0,1,0]", "ss": "neg_lo:[1,1,0]"}


def texts_of(case: WmmaInstruction) -> dict[str, str]:
    name = case.name
    texts = {name: case.text(), f"{name}_in_place": case.text(c=f"v[{D}:{D + case.result_words - 1}]")}
    if case.out == "i32":
        texts |= {f"{name}_{key}": case.text(more) for key, more in SIGNS.items()}
        texts[f"{name}_clamp"] = case.text("clamp")
        texts[f"{name}_overlap"] = case.text(c=f"v[{D + 3}:{D + 10}]")
        texts[f"{name}_constant"] = case.text(c="-7")
        return texts
    texts[f"{name}_constant"] = case.text(c="1.0")
    if case.a in ("f16", "bf16"):
        texts[f"{name}_neg"] = case.text("neg_lo:[1,0,1] neg_hi:[0,1,0]")
    texts[f"{name}_size"] = case.text("neg_lo:[0,0,1] neg_hi:[0,0,1]")
    if case.old and case.out in ("f16", "bf16"):
        texts[f"{name}_upper"] = case.text("op_sel:[0,0,1]")
    return texts


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    made = {}
    for arch in BOTH:
        texts = {key: text for case in CASES if case.arch == arch for key, text in texts_of(case).items()}
        made[arch] = Snippets(arch, tmp_path_factory.mktemp(arch), texts)
    return made


@dataclass(frozen=True)
class Data:
    a: Array
    b: Array
    c: Array
    registers: dict[int, Any]


def data_of(case: WmmaInstruction, rng: np.random.Generator, upper: int = 0, signs: str = "uu") -> Data:
    kinds = [NUMBERS[kind.replace("u", sign) if sign == "i" else kind] for kind, sign in zip(
        (case.a, case.b), signs.replace("s", "i"), strict=True)]  # fmt: skip
    out = NUMBERS[case.out]

    def draw(kind: Any, shape: tuple[int, ...]) -> Array:
        if kind.type is None:
            return rng.integers(0, 1 << kind.bits, shape).astype(np.uint64)
        return np.asarray(kind.encode(rng.standard_normal(shape)))

    a, b, c = draw(kinds[0], (16, case.k)), draw(kinds[1], (case.k, 16)), draw(out, (16, 16))
    lane, element = case.source()
    rows = [pack(x, lane, element, kind.bits, case.held) for x, kind in ((a, kinds[0]), (b.T, kinds[1]))]
    if case.old:
        for row in rows:
            row[:, 16:32] = row[:, :16]
    held = pack(c, *case.result(upper), out.bits, case.result_words * 32 // out.bits)
    return Data(kinds[0].decode(a), kinds[1].decode(b), out.decode(c), {A: rows[0], B: rows[1], C: held})


def result(case: WmmaInstruction, v: Array, upper: int = 0) -> Array:
    out = NUMBERS[case.out]
    return out.decode(unpack(v[D : D + case.result_words], *case.result(upper), out.bits))


def check(case: WmmaInstruction, a: Array, b: Array, c: Array | float, got: Array) -> None:
    want, total = a @ b + c, np.abs(a) @ np.abs(b) + np.abs(c)
    if case.out == "i32":
        assert np.array_equal(got.astype(np.int32), want.astype(np.int64).astype(np.int32))
        return
    last = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[case.out]
    assert np.all(np.abs(got - want) <= total * case.k * 2.0**-24 + np.abs(want) * last * 1.01)


IDS = [f"{case.arch}-{case.name[7:]}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_product(case: WmmaInstruction, snippets: dict[str, Snippets]) -> None:
    """Plain, in place and with a constant as C; EXEC has no effect."""
    run = snippets[case.arch].run
    data = data_of(case, np.random.default_rng(case.k))
    check(case, data.a, data.b, data.c, result(case, run(case.name, data.registers, exec=0x10).v))
    place = {A: data.registers[A], B: data.registers[B], D: data.registers[C]}
    check(case, data.a, data.b, data.c, result(case, run(f"{case.name}_in_place", place).v))
    constant = -7 if case.out == "i32" else 1.0
    check(case, data.a, data.b, constant, result(case, run(f"{case.name}_constant", data.registers).v))


FLOATS = [case for case in CASES if case.out != "i32"]
INTS = [case for case in CASES if case.out == "i32"]


@pytest.mark.parametrize("case", FLOATS, ids=[f"{case.arch}-{case.name[7:]}" for case in FLOATS])
def test_signs_of_floats(case: WmmaInstruction, snippets: dict[str, Snippets]) -> None:
    """NEG_LO and NEG_HI negate lower and upper elements of A and B; for C they negate and take the magnitude."""
    run = snippets[case.arch].run
    data = data_of(case, np.random.default_rng(7))
    check(case, data.a, data.b, -np.abs(data.c), result(case, run(f"{case.name}_size", data.registers).v))
    if case.a in ("fp8", "bf8"):
        return
    # The layout determines which k is in a lower half: the element of the lane must be even.
    even = case.source()[1] % 2 == 0
    a, b = np.where(even, -data.a, data.a), np.where(even.T, data.b, -data.b)
    check(case, a, b, -data.c, result(case, run(f"{case.name}_neg", data.registers).v))


@pytest.mark.parametrize("case", INTS, ids=[f"{case.arch}-{case.name[7:]}" for case in INTS])
def test_signs_of_integers(case: WmmaInstruction, snippets: dict[str, Snippets]) -> None:
    """NEG_LO bits 0 and 1 make A and B signed, CLAMP saturates, and D may overlap C."""
    run = snippets[case.arch].run
    rng = np.random.default_rng(8)
    for signs in SIGNS:
        data = data_of(case, rng, signs=signs)
        check(case, data.a, data.b, data.c, result(case, run(f"{case.name}_{signs}", data.registers).v))
    data = data_of(case, rng)
    over = {A: data.registers[A], B: data.registers[B], D + 3: data.registers[C]}
    check(case, data.a, data.b, data.c, result(case, run(f"{case.name}_overlap", over).v))
    high = data.registers | {C: np.full((8, 64), 2**31 - 9, np.uint32)}
    want = np.minimum(data.a @ data.b + 2**31 - 9, 2**31 - 1)
    assert np.array_equal(result(case, run(f"{case.name}_clamp", high).v), want)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_upper_halves(kind: str, snippets: dict[str, Snippets]) -> None:
    """gfx1100: OP_SEL bit 2 reads C from the upper halves and writes D there; the other halves are kept."""
    case = next(c for c in CASES if c.old and c.out == kind)
    for upper, name in ((1, f"{case.name}_upper"), (0, case.name)):
        data = data_of(case, np.random.default_rng(9), upper)
        before = np.random.default_rng(10).integers(0, 2**32, (8, 64)).astype(np.uint32)
        after = snippets["gfx1100"].run(name, data.registers | {D: before})
        check(case, data.a, data.b, data.c, result(case, after.v, upper))
        kept = 0xFFFF if upper else 0xFFFF0000
        assert np.array_equal(after.v[D : D + 8, :32] & kept, before[:, :32] & kept)


def test_special_values(snippets: dict[str, Snippets]) -> None:
    """Infinities, NaNs and denormals of f16 are preserved."""
    for arch in BOTH:
        case = next(c for c in CASES if c.arch == arch and c.name == "v_wmma_f32_16x16x16_f16")
        kind = NUMBERS["f16"]
        rng = np.random.default_rng(11)
        codes = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x3C00, 0x7BFF], np.uint64)
        a = rng.choice(codes, (16, 16))
        a[2, 3], a[5, 1], a[7, 7] = 0x7C00, 0xFC00, 0x7E00
        b = rng.choice(codes, (16, 16))
        lane, element = case.source()
        rows = [pack(x, lane, element, 16, case.held) for x in (a, b.T)]
        if case.old:
            for row in rows:
                row[:, 16:32] = row[:, :16]
        got = result(case, snippets[arch].run(case.name, {A: rows[0], B: rows[1]}).v)
        with np.errstate(invalid="ignore"):
            want = kind.decode(a) @ kind.decode(b)
            total = np.abs(kind.decode(a)) @ np.abs(kind.decode(b))
        finite = np.isfinite(want)
        assert np.isnan(want).any()
        assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
        assert np.all(np.abs(got[finite] - want[finite]) <= total[finite] * 16 * 2.0**-24)


def test_waves_of_64_are_refused(tmp_path: Path) -> None:
    text = "v_wmma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], v[4:7]"
    with pytest.raises(Fault, match="v_wmma_f32_16x16x16_f16"):
        Snippets("gfx1201", tmp_path, {"wide": text}, wave64=True).run("wide")

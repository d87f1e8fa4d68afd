"""v_smfmac_* and v_swmmac_*, which store two of every four elements of A, agree with the product with all four."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import NUMBERS, Array, number, pack, unpack

A, B, INDEX, D = 0, 32, 64, 128


@dataclass(frozen=True)
class SparseInstruction:
    """An instruction of shape n x n x k; ``out`` f32, i32, f16 or bf16."""

    name: str
    n: int
    k: int
    a: str
    b: str
    out: str
    archs: tuple[str, ...]

    @property
    def rdna(self) -> bool:
        return self.archs == ("gfx1201",)

    @property
    def groups(self) -> int:
        """The number of lane groups that hold different k."""
        return (32 if self.rdna else 64) // self.n

    @property
    def stored(self) -> int:
        """The number of elements of A in a lane."""
        return self.k // self.groups // 2

    @property
    def results(self) -> int:
        return self.n * self.n // (32 if self.rdna else 64)

    def text(self, more: str = "") -> str:
        words = [
            (D, self.results * NUMBERS[self.out].bits // 32), (A, self.stored * NUMBERS[self.a].bits // 32),
            (B, 2 * self.stored * NUMBERS[self.b].bits // 32),
        ]  # fmt: skip
        operands = [f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}" for first, count in words]
        return f"{self.name} {', '.join(operands)}, v{INDEX} {more}"

    def result(self) -> tuple[Array, Array]:
        """The lane and element of D[i][j]."""
        i, j = np.indices((self.n, self.n))
        if self.rdna:
            return 16 * (i // 8) + j, i % 8
        if self.n == 32:
            return 32 * (i // 4 % 2) + j, 4 * (i // 8) + i % 4
        return 16 * (i // 4) + j, i % 4


NEW, LAST, RDNA = ("gfx942", "gfx950"), ("gfx950",), ("gfx1201",)
CASES = [
    *(SparseInstruction(f"v_smfmac_f32_16x16x32_{t}", 16, 32, t, t, "f32", NEW) for t in ("f16", "bf16")),
    *(SparseInstruction(f"v_smfmac_f32_32x32x16_{t}", 32, 16, t, t, "f32", NEW) for t in ("f16", "bf16")),
    *(SparseInstruction(f"v_smfmac_f32_16x16x64_{t}", 16, 64, t, t, "f32", LAST) for t in ("f16", "bf16")),
    *(SparseInstruction(f"v_smfmac_f32_32x32x32_{t}", 32, 32, t, t, "f32", LAST) for t in ("f16", "bf16")),
    SparseInstruction("v_smfmac_i32_16x16x64_i8", 16, 64, "i8", "i8", "i32", NEW),
    SparseInstruction("v_smfmac_i32_32x32x32_i8", 32, 32, "i8", "i8", "i32", NEW),
    SparseInstruction("v_smfmac_i32_16x16x128_i8", 16, 128, "i8", "i8", "i32", LAST),
    SparseInstruction("v_smfmac_i32_32x32x64_i8", 32, 64, "i8", "i8", "i32", LAST),
    *(
        SparseInstruction(f"v_smfmac_f32_{n}x{n}x{k}_{a}_{b}", n, k, a, b, "f32", archs)
        for n, k, archs in ((16, 64, NEW), (32, 32, NEW), (16, 128, LAST), (32, 64, LAST))
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ),
    *(SparseInstruction(f"v_swmmac_f32_16x16x32_{t}", 16, 32, t, t, "f32", RDNA) for t in ("f16", "bf16")),
    SparseInstruction("v_swmmac_f16_16x16x32_f16", 16, 32, "f16", "f16", "f16", RDNA),
    SparseInstruction("v_swmmac_bf16_16x16x32_bf16", 16, 32, "bf16", "bf16", "bf16", RDNA),
    *(
        SparseInstruction(f"v_swmmac_f32_16x16x32_{a}_{b}", 16, 32, a, b, "f32", RDNA)
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    ),
    SparseInstruction("v_swmmac_i32_16x16x32_iu8", 16, 32, "u8", "u8", "i32", RDNA),
    SparseInstruction("v_swmmac_i32_16x16x32_iu4", 16, 32, "u4", "u4", "i32", RDNA),
    SparseInstruction("v_swmmac_i32_16x16x64_iu4", 16, 64, "u4", "u4", "i32", RDNA),
]
PAIRS = [(arch, case) for case in CASES for arch in case.archs]


def variants(case: SparseInstruction) -> dict[str, tuple[str, int]]:
    """Modifiers, and the index set that each selects."""
    sets = 32 // (2 * case.stored)
    if case.rdna:
        return {"plain": ("", 0)} | ({"key": ("index_key:1", 1)} if sets > 1 else {})
    chosen = {f"set{k}": (f"abid:{k}", k) for k in range(sets)}
    return chosen | ({"ignored": ("cbsz:1 abid:1", 0)} if sets > 1 else {})


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    made = {}
    for arch in ("gfx942", "gfx950", "gfx1201"):
        texts = {
            f"{case.name}_{key}": case.text(more)
            for case in CASES if arch in case.archs for key, (more, _) in variants(case).items()
        }  # fmt: skip
        if arch == "gfx1201":
            texts["signed"] = case_named("iu8").text("neg_lo:[1,0,0]")
            texts["clamped"] = case_named("iu8").text("clamp")
            texts["negated"] = case_named("f32_16x16x32_f16").text("neg_lo:[1,0,0] neg_hi:[1,1,0]")
        made[arch] = Snippets(arch, tmp_path_factory.mktemp(arch), texts)
    return made


def case_named(part: str) -> SparseInstruction:
    return next(case for case in CASES if case.rdna and case.name.endswith(part))


@dataclass(frozen=True)
class Data:
    dense: Array  # A including its zeros, (n, k)
    b: Array
    d: Array
    registers: dict[int, Any]


def codes_of(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    if kind.type is None:
        return rng.integers(0, 1 << kind.bits, shape).astype(np.uint64)
    return np.asarray(kind.encode(rng.standard_normal(shape)))


def data_of(case: SparseInstruction, arch: str, chosen: int, rng: np.random.Generator, **kinds: Any) -> Data:
    """Random operands; the index register is random except for the chosen set."""
    kind_a, kind_b = kinds.get("a") or number(case.a, arch), kinds.get("b") or number(case.b, arch)
    half, n = case.k // 2, case.n
    a, b = codes_of(rng, kind_a, (n, half)), codes_of(rng, kind_b, (case.k, n))
    pick = np.sort(np.argsort(rng.random((n, half // 2, 4)), axis=2)[:, :, :2], axis=2).reshape(n, half)
    i, c = np.indices((n, half))
    group, element = c // case.stored, c % case.stored
    lane = n * group + i
    words = rng.integers(0, 2**32, 64).astype(np.uint64)
    shift = np.uint64(2 * case.stored * chosen)
    mask = np.uint64((1 << 2 * case.stored) - 1) << shift
    index = np.zeros(64, np.uint64)
    np.bitwise_or.at(index, lane, pick.astype(np.uint64) << (2 * element).astype(np.uint64))
    words = (words & ~mask) | (index << shift)
    dense = np.zeros((n, case.k))
    dense[i, c // 2 * 4 + pick] = kind_a.decode(a)
    k, j = np.indices((case.k, n))
    rows_b = pack(b, n * (k // (2 * case.stored)) + j, k % (2 * case.stored), kind_b.bits, 2 * case.stored)
    out = NUMBERS[case.out]
    d = codes_of(rng, out, (n, n))
    registers = {
        A: pack(a, lane, element, kind_a.bits, case.stored),
        B: rows_b,
        INDEX: words.astype(np.uint32),
        D: pack(d, *case.result(), out.bits, case.results),
    }
    return Data(dense, kind_b.decode(b), out.decode(d), registers)


def result(case: SparseInstruction, v: Array) -> Array:
    out = NUMBERS[case.out]
    rows = case.results * out.bits // 32
    return out.decode(unpack(v[D : D + rows], *case.result(), out.bits))


def check(case: SparseInstruction, data: Data, got: Array) -> None:
    want, total = data.dense @ data.b + data.d, np.abs(data.dense) @ np.abs(data.b) + np.abs(data.d)
    if case.out == "i32":
        assert np.array_equal(got.astype(np.int32), want.astype(np.int64).astype(np.int32))
        return
    last = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[case.out]
    assert np.all(np.abs(got - want) <= total * case.k * 2.0**-24 + np.abs(want) * last * 1.01)


@pytest.mark.parametrize(("arch", "case"), PAIRS, ids=[f"{arch}-{case.name[2:]}" for arch, case in PAIRS])
def test_sparse_product(arch: str, case: SparseInstruction, snippets: dict[str, Snippets]) -> None:
    """All index sets give the right product; EXEC has no effect."""
    rng = np.random.default_rng(case.k + case.n)
    for key, (_, chosen) in variants(case).items():
        data = data_of(case, arch, chosen, rng)
        check(case, data, result(case, snippets[arch].run(f"{case.name}_{key}", data.registers, exec=6).v))


def test_what_is_not_stored_takes_no_part(snippets: dict[str, Snippets]) -> None:
    """Infinities in elements of B that no index selects have no effect."""
    case = CASES[0]
    data = data_of(case, "gfx942", 0, np.random.default_rng(1))
    registers = dict(data.registers)
    registers[INDEX] = np.full(64, 0x44, np.uint32)  # elements 0 and 1 of four
    b = data.registers[B].copy()
    b[1::2] = 0x7C007C00
    registers[B] = b
    assert np.isfinite(result(case, snippets["gfx942"].run(f"{case.name}_set0", registers).v)).all()


def test_signs_and_clamp(snippets: dict[str, Snippets]) -> None:
    """NEG_LO makes integers signed, CLAMP saturates, and NEG of f16 negates the lower and upper elements."""
    case, rng = case_named("iu8"), np.random.default_rng(2)
    data = data_of(case, "gfx1201", 0, rng, a=NUMBERS["i8"])
    check(case, data, result(case, snippets["gfx1201"].run("signed", data.registers).v))
    data = data_of(case, "gfx1201", 0, rng)
    high = dict(data.registers)
    high[D] = np.full((8, 64), 2**31 - 5, np.uint32)
    assert (result(case, snippets["gfx1201"].run("clamped", high).v) == 2**31 - 1).any()
    case = case_named("f32_16x16x32_f16")
    data = data_of(case, "gfx1201", 0, rng)
    signs = np.where(np.arange(case.k) % 2, -1, 1)[:, None]
    turned = Data(-data.dense, data.b * signs, data.d, {})
    check(case, turned, result(case, snippets["gfx1201"].run("negated", data.registers).v))


def test_waves_of_64_are_refused(tmp_path: Path) -> None:
    text = "v_swmmac_f32_16x16x32_f16 v[8:11], v[0:1], v[2:5], v6"
    with pytest.raises(Fault, match="v_swmmac_f32_16x16x32_f16"):
        Snippets("gfx1201", tmp_path, {"wide": text}, wave64=True).run("wide")

"""LDS atomics: each operation on random and special values, lanes in order, with and without the old value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import Array

U32, U64, I32, I64, F32, F64 = np.uint32, np.uint64, np.int32, np.int64, np.float32, np.float64
Step = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """ds_OP_TYPE: the stored value as a function of memory and data (and second data)."""

    op: str
    kind: str
    type: Any
    stored: Step
    data: int = 1
    archs: tuple[str, ...] = ARCHS
    only_returning: bool = False

    @property
    def words(self) -> int:
        return np.dtype(self.type).itemsize // 4

    def text(self, returning: bool) -> str:
        def reg(first: int) -> str:
            return f"v[{first}:{first + 1}]" if self.words == 2 else f"v{first}"

        operands = ["v0", reg(2), *([reg(4)] if self.data == 2 else [])]
        rtn = "rtn_" if returning else ""
        if returning:
            operands.insert(0, reg(8))
        return f"ds_{self.op}_{rtn}{self.kind} {', '.join(operands)} offset:32"


def integers(op: str, letter: str, stored: Step, data: int = 1, archs: tuple[str, ...] = ARCHS) -> list[Operation]:
    types = {"u": (U32, U64), "b": (U32, U64), "i": (I32, I64)}[letter]
    return [Operation(op, f"{letter}{bits}", t, stored, data, archs) for bits, t in zip((32, 64), types, strict=True)]


def floats(op: str, stored: Step, f64: tuple[str, ...], f32: tuple[str, ...] = ARCHS, data: int = 1) -> list[Operation]:
    return [Operation(op, "f32", F32, stored, data, f32), Operation(op, "f64", F64, stored, data, f64)]


CDNA, RDNA = tuple(a for a in ARCHS if a not in WAVE32), WAVE32
RDNA3, RDNA4 = ("gfx1100",), ("gfx1201",)


def packed(kind: Any) -> Step:
    def add(m: Any, d: Any) -> Any:
        a, b = (np.array([x], U32).view(kind).astype(F64) for x in (m, d))
        return (a + b).astype(kind).view(U32)[0]

    return add


def number_first(m: Any, d: Any, wins: Step) -> Any:
    if np.isnan(m) or np.isnan(d):
        return d if np.isnan(m) else m
    return wins(m, d)


OPERATIONS = [
    *integers("add", "u", lambda m, d: m + d),
    *integers("sub", "u", lambda m, d: m - d),
    *integers("rsub", "u", lambda m, d: d - m),
    *integers("inc", "u", lambda m, d: m * 0 if m >= d else m + type(m)(1)),
    *integers("dec", "u", lambda m, d: d if m == 0 or m > d else m - type(m)(1)),
    *integers("min", "u", min),
    *integers("max", "u", max),
    *integers("min", "i", min),
    *integers("max", "i", max),
    *integers("and", "b", lambda m, d: m & d),
    *integers("or", "b", lambda m, d: m | d),
    *integers("xor", "b", lambda m, d: m ^ d),
    *integers("mskor", "b", lambda m, d, e: (m & ~d) | e, 2),
    *integers("cmpst", "b", lambda m, d, e: e if m == d else m, 2, CDNA),
    *integers("cmpstore", "b", lambda m, d, e: d if m == e else m, 2, RDNA),
    *floats("cmpst", lambda m, d, e: e if m == d else m, CDNA, CDNA, 2),
    *floats("cmpstore", lambda m, d, e: d if m == e else m, RDNA3, RDNA3, 2),
    *floats("add", lambda m, d: m + d, CDNA),
    *floats("min", lambda m, d: d if d < m else m, (*CDNA, *RDNA3), (*CDNA, *RDNA3)),
    *floats("max", lambda m, d: d if d > m else m, (*CDNA, *RDNA3), (*CDNA, *RDNA3)),
    *floats("min_num", lambda m, d: number_first(m, d, np.minimum), RDNA4, RDNA4),
    *floats("max_num", lambda m, d: number_first(m, d, np.maximum), RDNA4, RDNA4),
    Operation("pk_add", "f16", U32, packed(np.float16), archs=("gfx942", "gfx950", "gfx1201")),
    Operation("pk_add", "bf16", U32, packed(ml_dtypes.bfloat16), archs=("gfx942", "gfx950", "gfx1201")),
    Operation("sub_clamp", "u32", U32, lambda m, d: U32(0) if m < d else m - d, archs=RDNA4),
    Operation("cond_sub", "u32", U32, lambda m, d: m - d if m >= d else m, archs=RDNA4),
    *(
        Operation(f"{name}xchg", f"b{bits}", t, lambda _, d: d, archs=archs, only_returning=True)
        for name, archs in (("wr", CDNA), ("store", RDNA))
        for bits, t in ((32, U32), (64, U64))
    ),
    Operation("wrap", "b32", U32, lambda m, d, e: m - d if m >= d else m + e, 2, (*CDNA, *RDNA3), only_returning=True),
]
CASES = [(arch, operation) for operation in OPERATIONS for arch in operation.archs]
IDS = [f"{arch}-{operation.op}_{operation.kind}" for arch, operation in CASES]


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    made = {}
    for arch in ARCHS:
        texts = {
            f"{o.op}_{o.kind}_{returning}": o.text(returning)
            for o in OPERATIONS if arch in o.archs for returning in ({True} if o.only_returning else {True, False})
        }  # fmt: skip
        exchange = "storexchg_2addr" if arch in WAVE32 else "wrxchg2"
        far = "storexchg_2addr_stride64" if arch in WAVE32 else "wrxchg2st64"
        texts["two"] = f"ds_{exchange}_rtn_b32 v[8:9], v0, v2, v4 offset0:2 offset1:5"
        texts["two64"] = f"ds_{exchange}_rtn_b64 v[8:11], v0, v[2:3], v[4:5] offset0:2 offset1:5"
        texts["far"] = f"ds_{far}_rtn_b32 v[8:9], v0, v2, v4 offset0:1 offset1:2"
        texts["cond"] = "ds_condxchg32_rtn_b64 v[8:9], v0, v[2:3] offset:32"
        made[arch] = Snippets(arch, tmp_path_factory.mktemp(arch), texts)
    return made


SPECIALS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**-140, -(2.0**-1040), 1.5, 2.0**-24]


def values_of(operation: Operation, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random values of the type, many of them equal; floats include special ones."""
    if np.issubdtype(operation.type, np.floating):
        return rng.choice(np.array([*SPECIALS, *rng.standard_normal(8)]).astype(operation.type), shape)
    info = np.iinfo(operation.type)
    few = rng.integers(info.min, info.max, 12, dtype=operation.type, endpoint=True)
    few[:4] = [0, 1, info.max, info.min]
    if operation.op == "pk_add":
        few &= operation.type(0x7BFF7BFF if operation.kind == "f16" else 0x7F7F7F7F)  # finite
    return rng.choice(few, shape)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("arch", "operation"), CASES, ids=IDS)
def test_atomic(arch: str, operation: Operation, snippets: dict[str, Snippets]) -> None:
    """Of several lanes on one word, the lowest acts first, and each returns the value that it found."""
    rng = np.random.default_rng(len(operation.op) * 3 + operation.words)
    lanes = 32 if arch in WAVE32 else 64
    mask = int(rng.integers(1, 2**lanes, dtype=np.uint64))
    at = (rng.integers(0, 16, 64) * 4 * operation.words).astype(U32)
    memory = values_of(operation, rng, (64,))
    data = values_of(operation, rng, (operation.data, 64))
    if operation.data == 2:
        data[:, ::3] = memory[(at[::3] + 32) // (4 * operation.words)]
    rows = data.view(U32).reshape(operation.data, 64, operation.words).transpose(0, 2, 1)
    v: dict[int, Any] = {0: at, 2: rows[0], 8: np.full((2, 64), 7, U32)}
    if operation.data == 2:
        v[4] = rows[1]
    now = memory.copy()
    old = np.zeros(64, operation.type)
    for lane in range(lanes):
        if mask >> lane & 1:
            word = (int(at[lane]) + 32) // (4 * operation.words)
            old[lane] = now[word]
            now[word] = operation.stored(now[word], *(d[lane] for d in data))
    for returning in (True, False):
        if operation.only_returning and not returning:
            continue
        name = f"{operation.op}_{operation.kind}_{returning}"
        after = snippets[arch].run(name, v=v, exec=mask, lds=memory.view(np.uint8))
        got = after.lds.view(operation.type)
        assert np.array_equal(got, now, equal_nan=np.issubdtype(operation.type, np.floating))
        if np.issubdtype(operation.type, np.floating):
            number = ~np.isnan(now)
            assert np.array_equal(np.signbit(got[number]), np.signbit(now[number]))
        on = np.array([returning and bool(mask >> lane & 1) for lane in range(64)])
        want = np.where(on, old.view(U32).reshape(64, operation.words).T, 7)
        got_old = after.v[8 : 8 + operation.words]
        if np.issubdtype(operation.type, np.floating):
            nan = np.isnan(old) & on
            got_old, want = np.where(nan, 0, got_old), np.where(nan, 0, want)
        assert np.array_equal(got_old, want)


@pytest.mark.parametrize("arch", ARCHS)
def test_two_exchanges(arch: str, snippets: dict[str, Snippets]) -> None:
    """Each lane exchanges two words, also 64-bit ones and ones 64 elements apart."""
    rng = np.random.default_rng(5)
    lanes = 32 if arch in WAVE32 else 64
    for name, words, offsets in (("two", 1, (8, 20)), ("two64", 2, (16, 40)), ("far", 1, (256, 512))):
        memory = rng.integers(0, 256, 8192).astype(np.uint8)
        at = (np.arange(64) * (64 if name != "far" else 4)).astype(U32)
        data = rng.integers(0, 2**32, (2, words, 64)).astype(U32)
        after = snippets[arch].run(name, v={0: at, 2: data[0], 4: data[1]}, lds=memory)
        want, now = np.zeros((2 * words, 64), U32), memory.copy().view(U32)
        for k, offset in enumerate(offsets):
            for word in range(words):
                place = (at[:lanes] + offset) // 4 + word
                want[k * words + word, :lanes] = memory.view(U32)[place]
                now[place] = data[k, word, :lanes]
        assert np.array_equal(after.v[8 : 8 + 2 * words, :lanes], want[:, :lanes])
        assert np.array_equal(after.lds.view(U32), now)


@pytest.mark.parametrize("arch", ARCHS)
def test_conditional_exchange(arch: str, snippets: dict[str, Snippets]) -> None:
    """Dwords whose data has the top bit set are replaced by the other bits of the data."""
    rng = np.random.default_rng(6)
    lanes = 32 if arch in WAVE32 else 64
    memory = rng.integers(0, 2**32, (72, 2)).astype(U32)
    data = rng.integers(0, 2**32, (64, 2)).astype(U32)
    after = snippets[arch].run("cond", v={0: np.arange(64) * 8, 2: data.T.copy()}, lds=memory.view(np.uint8).ravel())
    now = memory.copy()
    now[4 : 4 + lanes] = np.where(data >> 31 == 1, data & 0x7FFFFFFF, memory[4:68])[:lanes]
    assert np.array_equal(after.lds.view(U32).reshape(-1, 2), now)
    assert np.array_equal(after.v[8:10, :lanes], memory[4 : 4 + lanes].T)


@pytest.mark.parametrize("arch", ARCHS)
def test_alignment_and_bounds(arch: str, snippets: dict[str, Snippets]) -> None:
    """An atomic that is beyond the LDS or unaligned changes nothing, returns zero and is a finding."""
    memory = np.full(64, 3, np.uint8)
    at = np.zeros(64, U32)
    at[1], at[2] = 1, 32
    after = snippets[arch].run("add_u32_True", v={0: at, 2: np.ones(64, U32)}, exec=6, lds=memory)
    assert np.array_equal(after.lds, memory)
    assert not after.v[8, 1:3].any()
    assert [(f["kind"], f["count"]) for f in after.findings] == [("out-of-bounds", 2)]

"""Every v_cmp and v_cmpx agrees with numpy: all conditions, types, classes, modifiers, denormals by MODE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.harness import Snippets, check_each
from fmha_amdgpu_emu_tests.support.integer_cases import ALL, CDNA, EXEC, RDNA, words

Mask = npt.NDArray[np.bool_]
Condition = Callable[[Any, Any], Mask]

INTEGER: dict[str, Condition] = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b,
}  # fmt: skip
ALWAYS: dict[str, Condition] = {"f": lambda a, b: np.zeros(a.shape, bool), "t": lambda a, b: np.ones(a.shape, bool)}


def unordered(a: Any, b: Any) -> Mask:
    """Whether at least one of the two is a NaN, lane by lane."""
    return np.isnan(a) | np.isnan(b)


FLOAT: dict[str, Condition] = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b), "ge": lambda a, b: a >= b, "o": lambda a, b: ~unordered(a, b),
    "u": unordered, "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
}  # fmt: skip
OLDER = (*CDNA, "gfx1100")
TYPES = {"i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
         "f16": np.float16, "f32": np.float32, "f64": np.float64}  # fmt: skip

FLOAT_SPECIAL = {
    "f16": (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFD00, 1, 0x8001, 0x3FF, 0x400, 0x83FF,
            0x8400, 0x7BFF, 0xFBFF),
    "f32": (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001,
            0xFFA00000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x807FFFFF, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF),
    "f64": (0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0xFFF8 << 48) + 1,
            (0x7FF << 52) + 1, 0xFFF4 << 48, 1, (1 << 63) + 1, (1 << 52) - 1, 1 << 52, (0x801 << 52) - 1, 0x801 << 52,
            (0x7FF << 52) - 1, (0xFFF << 52) - 1),
}  # fmt: skip

Rows = npt.NDArray[np.uint64]
ROWS = 4


@dataclass(frozen=True)
class Compare:
    """One condition on one type."""

    condition: str
    type: str
    archs: tuple[str, ...]

    @property
    def bits(self) -> int:
        return int(self.type[1:])


def conditions() -> tuple[Compare, ...]:
    """All conditions that any architecture has."""
    out = []
    for name in TYPES:
        table = FLOAT if name[0] == "f" else INTEGER
        out += [Compare(c, name, ALL) for c in table]
        sixteen = name in ("i16", "u16")
        out.append(Compare("f", name, CDNA if sixteen else OLDER))
        always = "tru" if name[0] == "f" else "t"
        out.append(Compare(always, name, CDNA if sixteen else OLDER))
    return (*out, *(Compare("class", name, ALL) for name in ("f16", "f32", "f64")))


CASES = conditions()


def _condition(case: Compare) -> Condition:
    if case.condition in ("f", "t", "tru"):
        return ALWAYS[case.condition[0]]
    return (FLOAT if case.type[0] == "f" else INTEGER)[case.condition]


def _operand(number: int, bits: int, half: int | None) -> str:
    if bits == 64:
        return f"v[{number}:{number + 1}]"
    return f"v{number}" + ("" if half is None else (".l", ".h")[half])


def _modified(case: Compare, row: int) -> tuple[str, str]:
    """neg and abs of floats: on row 1 for the first source, on row 2 for the second (class compares have one)."""
    if case.type[0] != "f":
        return "{}", "{}"
    first = {1: "-{}", 2: "|{}|"}.get(row, "{}")
    second = {2: "-{}", 3: "-|{}|"}.get(row, "{}")
    return first, second if case.condition != "class" else "{}"


def _halves(case: Compare, arch: str, row: int) -> tuple[int | None, int | None]:
    if arch != "gfx1100" or case.bits != 16:
        return None, None
    return row & 1, row >> 1 & 1


def text_of(case: Compare, arch: str, exec_too: bool) -> str:
    """Writes the masks of the rows to s[10:11], s[12:13], ...; v_cmpx also stores EXEC in s[30:31], ..."""
    lines = []
    wide = arch in CDNA
    for row in range(ROWS):
        h = _halves(case, arch, row)
        second = 32 if case.condition == "class" and case.bits == 64 else case.bits
        a, b = _operand(8 + 2 * row, case.bits, h[0]), _operand(32 + 2 * row, second, h[1])
        fa, fb = _modified(case, row)
        name = f"v_cmp{'x' if exec_too else ''}_{case.condition}_{case.type}_e64"
        mask = f"s[{10 + 2 * row}:{11 + 2 * row}]" if wide else f"s{10 + 2 * row}"
        whole = f"s[{30 + 2 * row}:{31 + 2 * row}]" if wide else f"s{30 + 2 * row}"
        suffix, full = ("b64", "exec") if wide else ("b32", "exec_lo")
        start = "s[50:51]" if wide else "s50"
        destination = [] if exec_too and not wide else [mask]
        lines.append(f"s_mov_{suffix} {full}, {start}")
        lines.append(f"{name} {', '.join([*destination, fa.format(a), fb.format(b)])}")
        lines.append(f"s_mov_{suffix} {whole}, {full}")
    return "\n".join(lines)


@cache
def snippets(arch: str, folder: Path) -> Snippets:
    texts = {
        f"{case.condition}_{case.type}_{x}": text_of(case, arch, bool(x))
        for case in CASES
        if arch in case.archs
        for x in (0, 1)
    }
    return Snippets(arch, folder, texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the snippets of this module are assembled."""
    return tmp_path_factory.mktemp("compare")


def _values(case: Compare) -> npt.NDArray[np.uint32]:
    """Registers 0 to 47; the second source often equals the first."""
    v = words(len(case.condition) * 31 + case.bits, 48, 64)
    rng = np.random.default_rng(case.bits)
    if case.type in FLOAT_SPECIAL:
        special = np.array(FLOAT_SPECIAL[case.type], np.uint64)
        for row in range(ROWS):
            for base in (8, 32) if case.condition != "class" else (8,):
                chosen = rng.choice(special, 64)
                on = rng.random(64) < 0.7
                low = (chosen & np.uint64(0xFFFFFFFF)).astype(np.uint32)
                low = low | low << np.uint32(16) if case.bits == 16 else low
                v[base + 2 * row] = np.where(on, low, v[base + 2 * row])
                if case.bits == 64:
                    v[base + 2 * row + 1] = np.where(
                        on, (chosen >> np.uint64(32)).astype(np.uint32), v[base + 2 * row + 1]
                    )
    if case.condition == "class":
        for row in range(ROWS):
            v[32 + 2 * row] = rng.integers(0, 2**32, 64, dtype=np.uint32) & rng.integers(0, 2**32, 64, dtype=np.uint32)
    else:
        same = rng.random(64) < 0.3
        for row in range(2 * ROWS):
            v[32 + row] = np.where(same, v[8 + row], v[32 + row])
    return v


def _source(v: npt.NDArray[np.uint32], number: int, bits: int, half: int | None) -> Rows:
    low = v[number].astype(np.uint64)
    if bits == 16:
        return low >> np.uint64(16 * (half or 0)) & np.uint64(0xFFFF)
    return low | v[number + 1].astype(np.uint64) << np.uint64(32) if bits == 64 else low


def _edit(x: Rows, form: str, bits: int) -> Rows:
    sign = np.uint64(1 << (bits - 1))
    x = x & ~sign if "|" in form else x
    return x ^ sign if form.startswith("-") else x


def _flush(x: Rows, name: str) -> Rows:
    """Denormals as zeros of the same sign."""
    bits = int(name[1:])
    sign, exponent = np.uint64(1 << (bits - 1)), np.uint64({16: 0x7C00, 32: 0x7F800000, 64: 0x7FF << 52}[bits])
    return np.where(x & exponent, x, x & sign)


def _numbers(x: Rows, name: str) -> Any:
    bits = int(name[1:])
    return x.astype(np.dtype(f"u{bits // 8}")).view(TYPES[name])


def _class_of(x: Rows, bits: int) -> Rows:
    """The bit of the number's class."""
    fraction = {16: 10, 32: 23, 64: 52}[bits]
    out = []
    for value in x:
        word = int(value)
        sign, mantissa = word >> (bits - 1), word & ((1 << fraction) - 1)
        exponent, top = word >> fraction & ((1 << (bits - 1 - fraction)) - 1), (1 << (bits - 1 - fraction)) - 1
        if exponent == top and mantissa:
            out.append(1 if not mantissa >> (fraction - 1) else 2)
            continue
        kind = "inf" if exponent == top else "normal" if exponent else "denormal" if mantissa else "zero"
        order = ["-inf", "-normal", "-denormal", "-zero", "+zero", "+denormal", "+normal", "+inf"]
        out.append(4 << order.index("+-"[sign] + kind))
    return np.array(out, np.uint64)


def _expected(case: Compare, arch: str, v: npt.NDArray[np.uint32], row: int, flush: bool) -> Mask:
    h = _halves(case, arch, row)
    forms = _modified(case, row)
    a = _edit(_source(v, 8 + 2 * row, case.bits, h[0]), forms[0], case.bits)
    if case.condition == "class":
        b = _source(v, 32 + 2 * row, min(case.bits, 32), h[1])
        return (_class_of(a, case.bits) & b) != 0
    b = _edit(_source(v, 32 + 2 * row, case.bits, h[1]), forms[1], case.bits)
    if case.type[0] == "f" and flush:
        a, b = _flush(a, case.type), _flush(b, case.type)
    with np.errstate(invalid="ignore"):
        return _condition(case)(_numbers(a, case.type), _numbers(b, case.type))


def _bits(mask: Mask) -> int:
    return sum(1 << int(k) for k in np.flatnonzero(mask))


@pytest.mark.parametrize("arch", sorted({arch for case in CASES for arch in case.archs}))
def test_compare(arch: str, folder: Path) -> None:
    cases = (case for case in CASES if arch in case.archs)
    check_each((f"{case.condition}_{case.type}", partial(check_compare, arch, case, folder)) for case in cases)


def check_compare(arch: str, case: Compare, folder: Path) -> None:
    """Masks are zero where EXEC is off; v_cmpx leaves the mask in EXEC, and on CDNA also in its destination."""
    run = snippets(arch, folder)
    full = (1 << run.lanes) - 1
    start = EXEC & full
    v = _values(case)
    modes = (0xF0, 0x00) if case.type[0] == "f" else (0xF0,)
    for mode in modes:
        want = [_bits(_expected(case, arch, v, row, mode == 0)) & start for row in range(ROWS)]
        for exec_too in (0, 1):
            before = {50: start & 0xFFFFFFFF, 51: start >> 32, **{10 + k: 0x5A5A5A5A for k in range(8)}}
            name = f"{case.condition}_{case.type}_{exec_too}"
            after = run.run(name, v=dict(enumerate(v)), s=before, exec=start, mode=mode)
            for row in range(ROWS):
                if not exec_too or arch in CDNA:
                    assert after.mask(10 + 2 * row) == want[row], f"{name} row {row} mode {mode:#x}"
                assert after.mask(30 + 2 * row) == (want[row] if exec_too else start), f"EXEC of {name} row {row}"


@pytest.mark.parametrize("arch", ALL)
def test_short_forms_and_constants(arch: str, folder: Path) -> None:
    """e32 writes VCC. Constants have the instruction's format; a literal of a signed 64-bit one is extended."""
    pair, vcc = ("s[10:11]", "vcc") if arch in CDNA else ("s10", "vcc_lo")
    h = ".l" if arch == "gfx1100" else ""
    texts = {
        "short": f"v_cmp_gt_i32_e32 {vcc}, 7, v8",
        "f16": f"v_cmp_eq_f16_e64 {pair}, 1.0, v8{h}",
        "f32": f"v_cmp_eq_f32_e64 {pair}, 1.0, v8",
        "f64": f"v_cmp_eq_f64_e64 {pair}, 1.0, v[8:9]",
        "i64": f"v_cmp_eq_i64_e64 {pair}, -16, v[8:9]",
        "sgpr": f"v_cmp_lt_u32_e64 {pair}, s20, v8",
    }
    if arch in RDNA:
        texts |= {"literal_i64": "v_cmp_eq_i64_e64 s10, 0xfffffff0, v[8:9]"}
        texts |= {"literal_u64": "v_cmp_eq_u64_e64 s10, 0xfffffff0, v[8:9]"}
    run = Snippets(arch, folder, texts)
    lanes = np.arange(64, dtype=np.uint32)
    full = (1 << run.lanes) - 1

    def mask(name: str, low: Any, high: Any = 0) -> int:
        after = run.run(name, v={8: low, 9: high}, s={20: 5})
        return after.mask(106 if name == "short" else 10)

    assert mask("short", lanes) == 0x7F
    assert mask("f16", np.where(lanes == 3, 0x3C00, 0x3F800000)) == 8
    assert mask("f32", np.where(lanes == 3, 0x3F800000, 0x3C00)) == 8
    assert mask("f64", 0, np.where(lanes == 3, 0x3FF00000, 0x3F800000)) == 8
    assert mask("i64", 0xFFFFFFF0, np.where(lanes == 3, 0xFFFFFFFF, 0)) == 8
    assert mask("sgpr", lanes) == full & ~0x3F
    if arch in RDNA:
        assert mask("literal_i64", 0xFFFFFFF0, np.where(lanes == 3, 0xFFFFFFFF, 0)) == 8
        assert mask("literal_u64", 0xFFFFFFF0, np.where(lanes == 3, 0, 0xFFFFFFFF)) == 8


def test_v_cmpx_writes_exec_and_its_destination(folder: Path) -> None:
    """CDNA 12.9: both are written, and disabled lanes stay disabled."""
    for arch in CDNA:
        run = Snippets(arch, folder, {"x": "v_cmpx_lt_u32_e64 s[10:11], v1, v2"})
        after = run.run("x", v={1: np.arange(64), 2: 20}, exec=0xFFFF0)
        assert (after.exec_mask, after.mask(10)) == (0xFFFF0, 0xFFFF0)
        after = run.run("x", v={1: np.arange(64), 2: 10}, exec=0xFFFF0)
        assert (after.exec_mask, after.mask(10)) == (0x3F0, 0x3F0)

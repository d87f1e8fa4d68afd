"""Scalar floating point of gfx12: one value, no modifiers, 16-bit results with a zero high half; compares set SCC."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.float_cases import FloatInstruction
from fmha_amdgpu_emu_tests.support.float_formulas import fused, minus, plus, rounded, times, whole
from fmha_amdgpu_emu_tests.support.float_reference import F16, F32, ZERO, Form, integer, is_nan, order
from fmha_amdgpu_emu_tests.support.float_values import B32, MODES, Mode, draw
from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.test_convert import between, from_integer, signed, to_integer, two
from fmha_amdgpu_emu_tests.test_select import flushing
from fmha_amdgpu_emu_tests.test_select import two as choose

ARCH = "gfx1201"
Formula = Callable[..., int]


def out(form: Form, formula: Formula) -> Formula:
    """The result with denormals treated as MODE determines."""
    return lambda mode, *sources: mode.flushed(form, formula(mode, *sources))


def high(mode: Mode, bits: int) -> int:
    """The upper half, as a binary16 number."""
    return between(F32, F16, lambda m: 0)(mode, bits >> 16)


def arithmetic(form: Form) -> list[FloatInstruction]:
    tail = f"f{form.width}"
    cases = [
        FloatInstruction(f"s_{name}_{tail}", (ARCH,), (form,) * 3, out(form, rounded(form, operation)))
        for name, operation in (("add", plus), ("sub", minus), ("mul", times))
    ]
    cases += [
        FloatInstruction(
            f"s_{'max' if largest else 'min'}{name}_{tail}",
            (ARCH,),
            (form,) * 3,
            flushing(form, choose(form, largest, rule)),
        )
        for largest in (False, True)
        for name, rule in (("_num", "number"), ("imum", "propagate"))
    ]
    cases += [
        FloatInstruction(f"s_{to}_{tail}", (ARCH,), (form,) * 2, out(form, whole(form, to)))
        for to in ("ceil", "floor", "trunc", "rndne")
    ]
    fmac = FloatInstruction(f"s_fmac_{tail}", (ARCH,), (form,) * 4, out(form, rounded(form, fused)), accumulates=True)
    return [*cases, fmac]


CASES = (
    *arithmetic(F32),
    *arithmetic(F16),
    FloatInstruction("s_fmaak_f32", (ARCH,), (F32,) * 3, lambda m, a, b: m.flushed(F32, rounded(F32, fused)(m, a, b, 0xC0300000)),
         text="{0}, {1}, {2}, 0xc0300000"),
    FloatInstruction("s_fmamk_f32", (ARCH,), (F32,) * 3, lambda m, a, b: m.flushed(F32, rounded(F32, fused)(m, a, 0xC0300000, b)),
         text="{0}, {1}, 0xc0300000, {2}"),
    FloatInstruction("s_cvt_f16_f32", (ARCH,), (F16, F32), out(F16, between(F16, F32, lambda m: m.round16))),
    FloatInstruction("s_cvt_f32_f16", (ARCH,), (F32, F16), between(F32, F16, lambda m: 0)),
    FloatInstruction("s_cvt_hi_f32_f16", (ARCH,), (F32, B32), high),
    FloatInstruction("s_cvt_pk_rtz_f16_f32", (ARCH,), (B32, F32, F32), two(F16, ZERO)),
    FloatInstruction("s_cvt_f32_i32", (ARCH,), (F32, B32), from_integer(F32, lambda x: integer(signed(x, 32)))),
    FloatInstruction("s_cvt_f32_u32", (ARCH,), (F32, B32), from_integer(F32, integer)),
    FloatInstruction("s_cvt_i32_f32", (ARCH,), (B32, F32), to_integer(F32, -(2**31), 2**31 - 1, 32)),
    FloatInstruction("s_cvt_u32_f32", (ARCH,), (B32, F32), to_integer(F32, 0, 2**32 - 1, 32)),
)  # fmt: skip


def snippets(tmp: Path, cases: tuple[FloatInstruction, ...]) -> Snippets:
    """All instructions, with results in s4 and sources from s8 on."""
    texts = {}
    for case in cases:
        words = ["s4", *(f"s{8 + k}" for k in range(len(case.forms) - 1 - case.accumulates))]
        line = case.text.format(*words) if case.text else ", ".join(words)
        texts[case.name] = f"{case.name} {line}"
    return Snippets(ARCH, tmp, texts)


def test_arithmetic_and_conversions(tmp_path: Path) -> None:
    made = snippets(tmp_path, CASES)
    for case in CASES:
        for which, settings in enumerate(MODES):
            mode = Mode(ARCH, **settings)
            columns = [draw(form, 17 * k + which + len(case.name), 24) for k, form in enumerate(case.forms[1:])]
            for row in zip(*(map(int, column) for column in columns), strict=True):
                registers = {8 + k: value for k, value in enumerate(row)}
                registers[4] = row[-1] if case.accumulates else 0xFFFFFFFF
                for k, form in enumerate(case.forms[1:]):
                    if form.width == 16 and not (case.accumulates and k == len(row) - 1):
                        registers[8 + k] |= 0x7BCD0000
                after = made.run(case.name, s=registers, exec=0, mode=mode.bits)
                want = case.formula(mode, *row)
                assert int(after.s[4]) == want, (
                    f"{case.name} {mode} of {[hex(x) for x in row]}: {int(after.s[4]):#x}, not {want:#x}"
                )


RELATIONS = {
    "lt": "<", "eq": "=", "le": "<=", "gt": ">", "lg": "<>", "ge": ">=", "o": "<=>", "u": "?", "nge": "<?", "nlg": "=?",
    "ngt": "<=?", "nle": ">?", "neq": "<>?", "nlt": "=>?",
}  # fmt: skip


@pytest.mark.parametrize("form", [F16, F32], ids=("f16", "f32"))
def test_comparisons(form: Form, tmp_path: Path) -> None:
    made = Snippets(ARCH, tmp_path, {n: f"s_cmp_{n}_f{form.width} s8, s9" for n in RELATIONS})
    left, right = ([int(x) for x in draw(form, seed, 40)] for seed in (3, 4))
    right[:6] = left[:6]
    for a, b in zip(left, right, strict=True):
        for mode in (Mode(ARCH), Mode(ARCH, flush32=True, flush16=True)):
            x, y = mode.flushed(form, a), mode.flushed(form, b)
            if is_nan(form, x) or is_nan(form, y):
                relation = "?"
            elif x == y or not (x | y) & (form.sign - 1):
                relation = "="
            else:
                relation = "<" if order(form, x) < order(form, y) else ">"
            for name, relations in RELATIONS.items():
                after = made.run(name, s={8: a, 9: b}, exec=0, mode=mode.bits)
                assert bool(after.scc) == (relation in relations), f"{name} {a:#x} {b:#x}"

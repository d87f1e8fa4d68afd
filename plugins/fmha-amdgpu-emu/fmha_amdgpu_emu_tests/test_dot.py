"""Dot products within a lane: exact for integers; floats are summed in the documents' order, each sum rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.float_cases import (
    ALL,
    CDNA,
    RDNA,
    FloatInstruction,
    check_all,
    snippets_of,
)
from fmha_amdgpu_emu_tests.support.float_reference import (
    BF8,
    BF16,
    F16,
    F32,
    FP8,
    NAN,
    Exact,
    Form,
    add,
    decode,
    encode,
    is_nan,
    multiply,
)
from fmha_amdgpu_emu_tests.support.float_values import B32, BRAINS, HALVES, Mode
from fmha_amdgpu_emu_tests.support.harness import archs_of
from fmha_amdgpu_emu_tests.test_packed import Selections, mods_of, selections

Formula = Callable[..., int]
SELECTING = ("gfx90a", *RDNA)
"""Dot products of the other CDNA architectures have no op_sel."""
USUAL: Selections = ((0, 0, 0), (1, 1, 1), (0, 0, 0), (0, 0, 0))


def part(bits: int, at: int, width: int, signed: bool) -> int:
    """One element of a source as a number."""
    value = bits >> at & ((1 << width) - 1)
    return value - (1 << width) if signed and value >> (width - 1) else value


def integers(width: int, signed: tuple[bool, bool], clamp: bool, select: Selections | None = None) -> Formula:
    """The sum of products plus the third source, saturated if the instruction requires it."""
    whole = signed[0] or signed[1]
    least, most = (-(2**31), 2**31 - 1) if whole else (0, 2**32 - 1)

    def formula(mode: Mode, a: int, b: int, c: int) -> int:
        words = []
        for k, bits in enumerate((a, b)):
            if select:
                low, high = (bits >> (16 * select[h][k]) & 0xFFFF for h in (0, 1))
                bits = low | high << 16
            words.append(bits)
        total = c - 2**32 if whole and c >> 31 else c
        for at in range(0, 32, width):
            total += part(words[0], at, width, signed[0]) * part(words[1], at, width, signed[1])
        return (min(max(total, least), most) if clamp else total) & 0xFFFFFFFF

    return formula


def total(x: Exact, y: Exact) -> Exact:
    """A rounded sum; NaN stays NaN."""
    exact = add(x, y)
    return exact if exact.special == "nan" else decode(F32, encode(F32, exact))


def product(x: Exact, y: Exact) -> Exact:
    exact = multiply(x, y)
    return exact if exact.special == "nan" else decode(F32, encode(F32, exact))


def halves(form: Form, chosen: Selections, mode: Mode, k: int, bits: int) -> list[Exact]:
    """Both elements of source k."""
    out = []
    for high in (0, 1):
        code = bits >> (16 * chosen[high][k]) & 0xFFFF
        code = code ^ 0x8000 if chosen[2 + high][k] else code
        out.append(decode(form, mode.flushed(F16, code) if form == F16 else code))
    return out


def pair_products(form: Form, chosen: Selections, mode: Mode, a: int, b: int) -> list[Exact]:
    left, right = halves(form, chosen, mode, 0, a), halves(form, chosen, mode, 1, b)
    return [product(x, y) for x, y in zip(left, right, strict=True)]


def dot2(form: Form, chosen: Selections, in_place: bool = False) -> Formula:
    """A result in binary32. Only the fact of a NaN is checked, because no document defines its bits (check_dot)."""

    def formula(mode: Mode, a: int, b: int, c: int) -> int:
        first, second = pair_products(form, chosen, mode, a, b)
        if mode.arch in RDNA and not in_place:
            c = (c & 0x7FFFFFFF if chosen[3][2] else c) ^ (0x80000000 if chosen[2][2] else 0)
        start = decode(F32, mode.flushed(F32, c))
        if form == BF16 and mode.arch in CDNA and not in_place:
            exact = total(total(first, second), start)
        else:
            exact = total(total(start, first), second)
        return encode(F32, exact) if exact.special != "nan" else F32.infinity | F32.quiet

    return formula


def dot2_16(form: Form) -> Formula:
    """A sum in binary32, rounded once to 16 bits."""

    def formula(mode: Mode, a: int, b: int, c: int) -> int:
        first, second = pair_products(form, USUAL, mode, a, b)
        start = decode(form, mode.flushed(F16, c) if form == F16 else c)
        exact = total(total(start, first), second)
        return form.infinity | form.quiet if exact.special == "nan" else encode(form, exact)

    return formula


def dot4(left: Form, right: Form) -> Formula:
    def formula(mode: Mode, a: int, b: int, c: int) -> int:
        exact = decode(F32, mode.flushed(F32, c))
        for at in range(0, 32, 8):
            exact = total(exact, product(decode(left, a >> at & 255), decode(right, b >> at & 255)))
        return encode(F32, exact) if exact.special != "nan" else F32.infinity | F32.quiet

    return formula


def fixed(
    name: str, archs: tuple[str, ...], width: int, signed: bool, forms: tuple[Form, ...]
) -> list[FloatInstruction]:
    return [
        FloatInstruction(
            name,
            archs,
            forms,
            integers(width, (signed, signed), clamp),
            modifiers=False,
            modes=(0,),
            mods="clamp" if clamp else "",
        )
        for clamp in (False, True)
    ]


def floats() -> list[FloatInstruction]:
    out = []
    for chosen in selections(3):
        flat: Selections = tuple((*bits[:2], {0: 0, 1: 1, 2: 0, 3: 0}[k]) for k, bits in enumerate(chosen))  # type: ignore[assignment]
        signs_only: Selections = ((0, 0, 0), (1, 1, 1), *flat[2:])
        for archs, select, mods in (
            (SELECTING, flat, mods_of(flat)),
            (("gfx942", "gfx950"), signs_only, " ".join(mods_of(signs_only).split()[2:])),
        ):
            out.append(
                FloatInstruction("v_dot2_f32_f16", archs, (F32, HALVES, HALVES, F32), dot2(F16, select), mods=mods)
            )
            brains = tuple(arch for arch in archs if arch in ("gfx950", *RDNA))
            out.append(
                FloatInstruction("v_dot2_f32_bf16", brains, (F32, BRAINS, BRAINS, F32), dot2(BF16, select), mods=mods)
            )
    for name, archs, form, whole in (
        ("v_dot2c_f32_f16", CDNA, F16, HALVES),
        ("v_dot2acc_f32_f16", ("gfx1100",), F16, HALVES),
        ("v_dot2c_f32_bf16", ("gfx950",), BF16, BRAINS),
    ):
        archs = tuple(arch for arch in archs if arch != "gfx90a" or form == F16)
        out.append(
            FloatInstruction(name, archs, (F32, whole, whole, F32), dot2(form, USUAL, in_place=True), accumulates=True)
        )
    for form, name, whole in ((F16, "v_dot2_f16_f16", HALVES), (BF16, "v_dot2_bf16_bf16", BRAINS)):
        out.append(FloatInstruction(name, RDNA, (form, whole, whole, form), dot2_16(form)))
    for left, right in ((FP8, FP8), (FP8, BF8), (BF8, FP8), (BF8, BF8)):
        names = ("fp8" if f == FP8 else "bf8" for f in (left, right))
        out.append(
            FloatInstruction(f"v_dot4_f32_{'_'.join(names)}", ("gfx1201",), (F32, B32, B32, F32), dot4(left, right))
        )
    return [replace(case, modifiers=False, modes=(0, 1, 2)) for case in out]


def signs() -> list[FloatInstruction]:
    """On gfx11 and gfx12, neg_lo selects the signed sources."""
    out = []
    for a in (0, 1):
        for b in (0, 1):
            for width in (8, 4):
                formula = integers(width, (bool(a), bool(b)), False)

                def signed_result(mode: Mode, x: int, y: int, c: int, formula: Formula = formula) -> int:
                    return formula(mode, x, y, c)

                out.append(FloatInstruction(f"v_dot{32 // width}_i32_iu{width}", RDNA, (B32,) * 4, signed_result, modifiers=False,
                                modes=(0,), mods=f"neg_lo:[{a},{b},0]"))  # fmt: skip
    return out


W4 = (B32,) * 4
CASES = (
    *fixed("v_dot2_i32_i16", CDNA, 16, True, W4),
    *fixed("v_dot2_u32_u16", CDNA, 16, False, W4),
    *fixed("v_dot4_i32_i8", CDNA, 8, True, W4),
    *fixed("v_dot4_u32_u8", ALL, 8, False, W4),
    *fixed("v_dot8_i32_i4", CDNA, 4, True, W4),
    *fixed("v_dot8_u32_u4", ALL, 4, False, W4),
    *(FloatInstruction("v_dot2_i32_i16", ("gfx90a",), W4, integers(16, (True, True), False, chosen), modifiers=False, modes=(0,),
           mods=" ".join(mods_of(chosen).split()[:2])) for chosen in selections(3, signs=False)[1:]),
    *(FloatInstruction(name, CDNA, W4, integers(width, (True, True), False), accumulates=True, modifiers=False, modes=(0,))
      for name, width in (("v_dot2c_i32_i16", 16), ("v_dot4c_i32_i8", 8), ("v_dot8c_i32_i4", 4))),
    *signs(),
    *floats(),
)  # fmt: skip


def any_nan(case: FloatInstruction) -> FloatInstruction:
    """Any two NaNs are equal: both sides are compared without payloads and signs of NaNs."""
    form = case.forms[0]
    return case if form not in (F16, BF16, F32) else replace(case, nan=True)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_dot(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(tuple(map(any_nan, CASES)), arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))


def test_the_reference_knows_nan() -> None:
    assert total(NAN, decode(F32, 0)).special == "nan"
    assert is_nan(F32, F32.infinity | F32.quiet)

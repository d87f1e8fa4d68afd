"""VOP3P: two numbers at once, selections and signs of their parts, mixed precision; v_pk_mov_b32."""

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
    finished,
    settled,
    snippets_of,
)
from fmha_amdgpu_emu_tests.support.float_formulas import Operation, fused, plus, rounded, times
from fmha_amdgpu_emu_tests.support.float_reference import F16, F32, Form, decode, encode, is_nan
from fmha_amdgpu_emu_tests.support.float_values import B32, HALVES, PAIR, Mode
from fmha_amdgpu_emu_tests.support.harness import archs_of
from fmha_amdgpu_emu_tests.test_select import flushing, nested, two

Selections = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""op_sel, op_sel_hi, neg_lo and neg_hi, one bit per source."""


def mods_of(chosen: Selections) -> str:
    """The modifiers in the assembler's notation."""
    names = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")
    return " ".join(f"{name}:[{','.join(map(str, bits))}]" for name, bits in zip(names, chosen, strict=True))


def selections(count: int, signs: bool = True) -> list[Selections]:
    """The default selections, and two in which each source differs."""
    usual = ((0,) * count, (1,) * count, (0,) * count, (0,) * count)
    first = ((1, 0, 1)[:count], (0, 1, 1)[:count], (0, 1, 1)[:count], (1, 1, 0)[:count])
    second = ((0, 1, 0)[:count], (0, 0, 1)[:count], (1, 0, 0)[:count], (0, 1, 1)[:count])
    if signs:
        return [usual, first, second]
    return [usual, (*first[:2], *usual[2:]), (*second[:2], *usual[2:])]


def parts(width: int, chosen: Selections, sources: tuple[int, ...], high: int, sign: int) -> list[int]:
    """The operands of the low or the high result."""
    select, negative = chosen[high], chosen[2 + high]
    out = []
    for bits, upper, minus in zip(sources, select, negative, strict=True):
        part = bits >> (width * upper) & ((1 << width) - 1)
        out.append(part ^ sign if minus else part)
    return out


def packed(
    form: Form, chosen: Selections, formula: Callable[..., int], flush: bool | None = None
) -> Callable[..., int]:
    """Both results of a packed instruction, finished as MODE determines."""

    def both(mode: Mode, *sources: int) -> int:
        case = FloatInstruction("", (), (form,), formula, flush=flush)
        low, high = (
            finished(case, mode, form, formula(mode, *parts(form.width, chosen, sources, k, form.sign))) for k in (0, 1)
        )
        return low | high << form.width

    return both


def floats(name: str, archs: tuple[str, ...], form: Form, formula: Callable[..., int], count: int,
           flush: bool | None = None) -> list[FloatInstruction]:  # fmt: skip
    """Cases of one packed float instruction."""
    whole = HALVES if form == F16 else PAIR
    raw = B32 if form == F16 else replace(PAIR, kind="bits")
    return [
        FloatInstruction(
            name,
            archs,
            (raw, *(whole,) * count),
            packed(form, chosen, formula, flush),
            modifiers=False,
            mods=mods_of(chosen),
        )
        for chosen in selections(count)
    ]


def integers(name: str, archs: tuple[str, ...], formula: Callable[..., int], count: int, signed: bool,
             clamps: bool) -> list[FloatInstruction]:  # fmt: skip
    """Cases of one packed integer instruction, with and without saturation."""
    least, most = (-32768, 32767) if signed else (0, 65535)

    def both(chosen: Selections, clamp: bool) -> Callable[..., int]:
        def inner(mode: Mode, *sources: int) -> int:
            out = 0
            for k in (0, 1):
                values = [x - 65536 if signed and x >> 15 else x for x in parts(16, chosen, sources, k, 0)]
                value = formula(*values)
                out |= ((min(max(value, least), most) if clamp else value) & 0xFFFF) << (16 * k)
            return out

        return inner

    return [
        FloatInstruction(
            name,
            archs,
            (B32, *(B32,) * count),
            both(chosen, clamp),
            modifiers=False,
            mods=f"{mods_of(chosen)}{' clamp' if clamp else ''}",
            modes=(0,),
        )
        for chosen in selections(count, signs=False)
        for clamp in ((False, True) if clamps else (False,))
    ]


def mixed(chosen: Selections, operation: Operation, half: int | None) -> Callable[..., int]:
    """v_fma_mix: sources of either precision; the result is binary32, or rounded again to a half."""
    select, wide = chosen[0], chosen[1]

    def formula(mode: Mode, *sources: int) -> int:
        numbers, bits = [], []
        for k, source in enumerate(sources[:3]):
            if wide[k]:
                part = mode.flushed(F16, source >> (16 * select[k]) & 0xFFFF)
                numbers.append(decode(F16, part))
                nan = (part & 0x8000) << 16 | 0x7F800000 | (part & 0x3FF) << 13
                bits.append(nan if is_nan(F16, part) else encode(F32, numbers[-1]))
            else:
                bits.append(mode.flushed(F32, source))
                numbers.append(decode(F32, bits[-1]))
        exact = operation(mode.round32, *numbers)
        single = settled(F32, None if exact.special == "nan" else encode(F32, exact, mode.round32), bits)
        if half is None:
            return finished(FloatInstruction("", (), (F32,), formula), mode, F32, single)
        single = mode.flushed(F32, single)
        nan = (single >> 16 & 0x8000) | 0x7E00 | (single >> 13 & 0x3FF)
        result = nan if is_nan(F32, single) else encode(F16, decode(F32, single), mode.round16)
        result = mode.flushed(F16, result)
        old = sources[3]
        return old & 0xFFFF | result << 16 if half else old & 0xFFFF0000 | result

    return formula


def mixes() -> list[FloatInstruction]:
    """v_fma_mix_f32 and its two 16-bit forms; the latter have the destination as fourth source."""
    out = []
    for chosen in (
        ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
        ((1, 0, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
        ((0, 1, 0), (0, 1, 0), (0, 0, 0), (0, 0, 0)),
    ):
        mods = " ".join(mods_of(chosen).split()[:2])
        # Each source has one kind in all rows: binary32 numbers or pairs of binary16 numbers.
        forms = tuple(HALVES if wide else F32 for wide in chosen[1])
        out.append(
            FloatInstruction(
                "v_fma_mix_f32", ALL, (B32, *forms), mixed(chosen, fused, None), modifiers=False, mods=mods
            )
        )
        for half, name in enumerate(("v_fma_mixlo_f16", "v_fma_mixhi_f16")):
            out.append(FloatInstruction(name, ALL, (B32, *forms, B32), mixed(chosen, fused, half), accumulates=True, modifiers=False,
                            mods=mods))  # fmt: skip
    return out


def moves() -> list[FloatInstruction]:
    """v_pk_mov_b32 with any dword of the first source below any of the second."""

    def formula(select: tuple[int, int]) -> Callable[..., int]:
        return lambda mode, a, b: (a >> (32 * select[0]) & 0xFFFFFFFF) | (b >> (32 * select[1]) & 0xFFFFFFFF) << 32

    raw = replace(PAIR, kind="bits")
    return [
        FloatInstruction(
            "v_pk_mov_b32",
            CDNA,
            (raw, raw, raw),
            formula(select),
            modifiers=False,
            modes=(0,),
            mods=f"op_sel:[{select[0]},{select[1]}]",
        )
        for select in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]


def shift_left(count: int, value: int) -> int:
    return value << (count & 15)


def shift_right(count: int, value: int) -> int:
    return value >> (count & 15)


def product_and_sum(a: int, b: int, c: int) -> int:
    return a * b + c


def fmac_halves(mode: Mode, a: int, b: int, c: int) -> int:
    """The VOP2 form, which has no selections."""
    usual = ((0, 0, 0), (1, 1, 1), (0, 0, 0), (0, 0, 0))
    return packed(F16, usual, rounded(F16, fused))(mode, a, b, c)


OLD, GFX12 = (*CDNA, "gfx1100"), ("gfx1201",)
CASES = (
    *floats("v_pk_add_f16", ALL, F16, rounded(F16, plus), 2),
    *floats("v_pk_mul_f16", ALL, F16, rounded(F16, times), 2),
    *floats("v_pk_fma_f16", ALL, F16, rounded(F16, fused), 3),
    *floats("v_pk_min_f16", OLD, F16, flushing(F16, two(F16, False, "old")), 2, flush=False),
    *floats("v_pk_max_f16", OLD, F16, flushing(F16, two(F16, True, "old")), 2, flush=False),
    *floats("v_pk_min_num_f16", GFX12, F16, flushing(F16, two(F16, False, "number")), 2, flush=False),
    *floats("v_pk_max_num_f16", GFX12, F16, flushing(F16, two(F16, True, "number")), 2, flush=False),
    *floats("v_pk_minimum_f16", GFX12, F16, flushing(F16, two(F16, False, "propagate")), 2, flush=False),
    *floats("v_pk_maximum_f16", GFX12, F16, flushing(F16, two(F16, True, "propagate")), 2, flush=False),
    *floats(
        "v_pk_minimum3_f16", ("gfx950",), F16, flushing(F16, nested(F16, False, False, "propagate")), 3, flush=False
    ),
    *floats("v_pk_maximum3_f16", ("gfx950",), F16, flushing(F16, nested(F16, True, True, "propagate")), 3, flush=False),
    *floats("v_pk_add_f32", CDNA, F32, rounded(F32, plus), 2),
    *floats("v_pk_mul_f32", CDNA, F32, rounded(F32, times), 2),
    *floats("v_pk_fma_f32", CDNA, F32, rounded(F32, fused), 3),
    FloatInstruction(
        "v_pk_fmac_f16", ALL, (B32, HALVES, HALVES, HALVES), fmac_halves, accumulates=True, modifiers=False
    ),
    *integers("v_pk_mad_i16", ALL, product_and_sum, 3, True, True),
    *integers("v_pk_mad_u16", ALL, product_and_sum, 3, False, True),
    *integers("v_pk_mul_lo_u16", ALL, lambda a, b: a * b, 2, False, False),
    *integers("v_pk_add_i16", ALL, lambda a, b: a + b, 2, True, True),
    *integers("v_pk_sub_i16", ALL, lambda a, b: a - b, 2, True, True),
    *integers("v_pk_add_u16", ALL, lambda a, b: a + b, 2, False, True),
    *integers("v_pk_sub_u16", ALL, lambda a, b: a - b, 2, False, True),
    *integers("v_pk_max_i16", ALL, max, 2, True, False),
    *integers("v_pk_min_i16", ALL, min, 2, True, False),
    *integers("v_pk_max_u16", ALL, max, 2, False, False),
    *integers("v_pk_min_u16", ALL, min, 2, False, False),
    *integers("v_pk_lshlrev_b16", ALL, shift_left, 2, False, False),
    *integers("v_pk_lshrrev_b16", ALL, shift_right, 2, False, False),
    *integers("v_pk_ashrrev_i16", ALL, shift_right, 2, True, False),
    *mixes(),
    *moves(),
)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_packed(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))


def test_every_architecture_takes_part() -> None:
    assert {arch for case in CASES for arch in case.archs} == {*CDNA, *RDNA}

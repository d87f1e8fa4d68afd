"""Binary32 and binary64 arithmetic equals exact sums and products rounded once, in every MODE."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.float_cases import (
    ALL,
    CDNA,
    RDNA,
    FloatInstruction,
    check_all,
    snippets_of,
    variants,
)
from fmha_amdgpu_emu_tests.support.float_formulas import (
    exponent,
    fraction,
    fused,
    load_exponent,
    minus,
    plus,
    reverse_minus,
    rounded,
    significand,
    times,
    unfused,
    whole,
)
from fmha_amdgpu_emu_tests.support.float_reference import (
    DOWN,
    F32,
    F64,
    NEAREST,
    ZERO,
    Exact,
    Form,
    add,
    decode,
    encode,
    integer,
    negate,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import B32, Mode
from fmha_amdgpu_emu_tests.support.harness import Snippets, archs_of


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_denormals_of_sources_or_results_alone(arch: str, tmp_path: Path) -> None:
    """MODE has a bit for each: two small numbers give a denormal, and a denormal times a large one gives a normal number."""
    snippets = Snippets(arch, tmp_path, {"mul": "v_mul_f32_e32 v3, v1, v2"})
    sources = {
        1: np.array([2.0**-100, 2.0**-140] * 32, np.float32).view(np.uint32),
        2: np.array([2.0**-40, 2.0**100] * 32, np.float32).view(np.uint32),
    }
    for keeps, want in ((0, (0.0, 0.0)), (1, (0.0, 2.0**-40)), (2, (2.0**-140, 0.0)), (3, (2.0**-140, 2.0**-40))):
        after = snippets.run("mul", v=sources, mode=Mode(arch, flush32=True).bits | keeps << 4)
        assert tuple(after.v[3].view(np.float32)[:2]) == want, keeps


def one_operand(form: Form) -> tuple[FloatInstruction, ...]:
    tail, forms = f"f{form.width}", (form, form)
    most = (form.bias << form.mantissa) - 1
    return (
        *(
            FloatInstruction(f"v_{to}_{tail}", ALL, forms, whole(form, to))
            for to in ("trunc", "ceil", "floor", "rndne")
        ),
        FloatInstruction(f"v_fract_{tail}", ALL, forms, fraction(form, most)),
        FloatInstruction(f"v_frexp_mant_{tail}", ALL, forms, significand(form)),
        FloatInstruction(f"v_frexp_exp_i32_{tail}", ALL, (B32, form), exponent(form), modifiers=False),
        FloatInstruction(f"v_ldexp_{tail}", ALL, (form, form, B32), load_exponent(form), modifiers=False),
    )


T2, T3, D2, D3 = (F32,) * 3, (F32,) * 4, (F64,) * 3, (F64,) * 4
fma, dx9_fma = rounded(F32, fused), rounded(F32, fused, dx9=True)
mad = rounded(F32, unfused(F32), always_flush=True)
dx9_mad = rounded(F32, unfused(F32), dx9=True, always_flush=True)


def with_literal(formula: Callable[..., int], place: int) -> Callable[..., int]:
    """The constant -2.75 in source position ``place``."""

    def inner(mode: Mode, *sources: int) -> int:
        return formula(mode, *sources[:place], 0xC0300000, *sources[place:])

    return inner


A90 = ("gfx90a",)
K, AK = "{0}, {1}, 0xc0300000, {2}", "{0}, {1}, {2}, 0xc0300000"
CASES = variants(
    (
        FloatInstruction("v_add_f32", ALL, T2, rounded(F32, plus)),
        FloatInstruction("v_sub_f32", ALL, T2, rounded(F32, minus)),
        FloatInstruction("v_subrev_f32", ALL, T2, rounded(F32, reverse_minus)),
        FloatInstruction("v_mul_f32", ALL, T2, rounded(F32, times)),
        FloatInstruction("v_mul_legacy_f32", CDNA, T2, rounded(F32, times, dx9=True)),
        FloatInstruction("v_mul_dx9_zero_f32", RDNA, T2, rounded(F32, times, dx9=True)),
        FloatInstruction("v_fma_f32", ALL, T3, fma),
        FloatInstruction("v_fma_dx9_zero_f32", RDNA, T3, dx9_fma),
        FloatInstruction("v_fmac_f32", ALL, T3, fma, accumulates=True, modifiers=False),
        FloatInstruction("v_fmac_dx9_zero_f32", ("gfx1100",), T3, dx9_fma, accumulates=True, modifiers=False),
        FloatInstruction("v_fmamk_f32", ("gfx942", "gfx950", *RDNA), T2, with_literal(fma, 1), text=K, modifiers=False),
        FloatInstruction(
            "v_fmaak_f32", ("gfx942", "gfx950", *RDNA), T2, with_literal(fma, 2), text=AK, modifiers=False
        ),
        FloatInstruction("v_mad_f32", A90, T3, mad, flush=True),
        FloatInstruction("v_mac_f32", A90, T3, mad, flush=True, accumulates=True, modifiers=False),
        FloatInstruction("v_madmk_f32", A90, T2, with_literal(mad, 1), text=K, flush=True, modifiers=False),
        FloatInstruction("v_madak_f32", A90, T2, with_literal(mad, 2), text=AK, flush=True, modifiers=False),
        FloatInstruction("v_mad_legacy_f32", A90, T3, dx9_mad, flush=True),
        *one_operand(F32),
        FloatInstruction("v_add_f64", ALL, D2, rounded(F64, plus)),
        FloatInstruction("v_mul_f64", ALL, D2, rounded(F64, times)),
        FloatInstruction("v_fma_f64", ALL, D3, rounded(F64, fused)),
        FloatInstruction("v_fmac_f64", CDNA, D3, rounded(F64, fused), accumulates=True, modifiers=False),
        *one_operand(F64),
    )
)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_arithmetic(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))


def test_the_reference_rounds() -> None:
    """Ties, directions and denormals of the reference itself agree with Python's floats and with known codes."""
    third = Exact(False, (1 << 60) // 3, -60)
    assert encode(F32, third) == 0x3EAAAAAB
    assert encode(F32, third, ZERO) == 0x3EAAAAAA
    assert encode(F32, negate(third), DOWN) == 0xBEAAAAAB
    assert encode(F64, decode(F64, 0x3FF0000000000001)) == 0x3FF0000000000001
    tie = add(decode(F32, 0x3F800000), scale(integer(1), -24))
    assert encode(F32, tie) == 0x3F800000
    assert encode(F32, tie, NEAREST) != encode(F32, tie, 1)
    assert math.isclose(2.0**-149, math.ldexp(1, -149))
    assert encode(F32, scale(integer(1), -149)) == 1

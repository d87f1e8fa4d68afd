"""Binary16 arithmetic equals exact sums and products rounded once; results go to the right half of their registers."""

from __future__ import annotations

from pathlib import Path

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
from fmha_amdgpu_emu_tests.support.float_reference import F16
from fmha_amdgpu_emu_tests.support.float_values import B16, B32, Mode
from fmha_amdgpu_emu_tests.support.harness import archs_of

T1, T2, T3 = (F16,) * 2, (F16,) * 3, (F16,) * 4
fma, mad = rounded(F16, fused), rounded(F16, unfused(F16), always_flush=True)


def with_literal(formula, place):  # type: ignore[no-untyped-def]
    """The constant -2.75 in source position ``place``."""

    def inner(mode: Mode, *sources: int) -> int:
        return int(formula(mode, *sources[:place], 0xC180, *sources[place:]))

    return inner


def pack(mode: Mode, low: int, high: int) -> int:
    """Two 16-bit halves packed into a word."""
    return low | high << 16


K, AK = "{0}, {1}, 0xc180, {2}", "{0}, {1}, {2}, 0xc180"
CASES = variants(
    (
        FloatInstruction("v_add_f16", ALL, T2, rounded(F16, plus)),
        FloatInstruction("v_sub_f16", ALL, T2, rounded(F16, minus)),
        FloatInstruction("v_subrev_f16", ALL, T2, rounded(F16, reverse_minus)),
        FloatInstruction("v_mul_f16", ALL, T2, rounded(F16, times)),
        FloatInstruction("v_fma_f16", ALL, T3, fma, keeps=True),
        FloatInstruction("v_fma_legacy_f16", CDNA, T3, fma),
        FloatInstruction("v_fmac_f16", RDNA, T3, fma, accumulates=True, modifiers=False),
        FloatInstruction("v_fmamk_f16", RDNA, T2, with_literal(fma, 1), text=K, modifiers=False),
        FloatInstruction("v_fmaak_f16", RDNA, T2, with_literal(fma, 2), text=AK, modifiers=False),
        FloatInstruction("v_mad_f16", CDNA, T3, mad, keeps=True, flush=True),
        FloatInstruction("v_mad_legacy_f16", CDNA, T3, mad, flush=True),
        FloatInstruction("v_mac_f16", CDNA, T3, mad, accumulates=True, modifiers=False, flush=True),
        FloatInstruction("v_madmk_f16", CDNA, T2, with_literal(mad, 1), text=K, modifiers=False, flush=True),
        FloatInstruction("v_madak_f16", CDNA, T2, with_literal(mad, 2), text=AK, modifiers=False, flush=True),
        *(FloatInstruction(f"v_{to}_f16", ALL, T1, whole(F16, to)) for to in ("trunc", "ceil", "floor", "rndne")),
        FloatInstruction("v_fract_f16", ALL, T1, fraction(F16, 0x3BFF)),
        FloatInstruction("v_frexp_mant_f16", ALL, T1, significand(F16)),
        FloatInstruction("v_frexp_exp_i16_f16", ALL, (B16, F16), exponent(F16, 16), modifiers=False),
        FloatInstruction("v_ldexp_f16", ALL, (F16, F16, B16), load_exponent(F16, 16), modifiers=False),
        FloatInstruction("v_pack_b32_f16", ALL, (B32, F16, F16), pack),
    )
)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_arithmetic(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))

"""Conversions between floats and integers: exact numbers rounded once, truncated and saturated; every MODE."""

from __future__ import annotations

from collections.abc import Callable
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
from fmha_amdgpu_emu_tests.support.float_reference import (
    BF16,
    F16,
    F32,
    F64,
    NEAREST,
    ZERO,
    Exact,
    Form,
    add,
    decode,
    encode,
    floor,
    integer,
    is_nan,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import B16, B32, Mode
from fmha_amdgpu_emu_tests.support.harness import archs_of

Formula = Callable[..., int]


def between(to: Form, source: Form, round_of: Callable[[Mode], int]) -> Formula:
    """Conversion between two float formats; a NaN keeps the top of its payload and becomes quiet."""

    def formula(mode: Mode, bits: int) -> int:
        bits = mode.flushed(source, bits)
        if is_nan(source, bits):
            shift = source.mantissa - to.mantissa
            payload = bits & ((1 << source.mantissa) - 1)
            payload = payload >> shift if shift > 0 else payload << -shift
            return (to.sign if bits & source.sign else 0) | to.infinity | to.quiet | payload
        return encode(to, decode(source, bits), round_of(mode), mode.overflow and to == F16)

    return formula


def two(to: Form, round_: int) -> Formula:
    """Two binary32 numbers, packed."""
    one = between(to, F32, lambda mode: round_)

    def formula(mode: Mode, low: int, high: int) -> int:
        parts = [one(mode, bits) for bits in (low, high)]
        if to == F16:
            parts = [mode.flushed(F16, part) for part in parts]
        return parts[0] | parts[1] << 16

    return formula


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def from_integer(to: Form, read: Callable[[int], Exact]) -> Formula:
    return lambda mode, bits: encode(to, read(bits), mode.round(to), mode.overflow and to == F16)


def to_integer(source: Form, least: int, most: int, width: int, how: str = "cut") -> Formula:
    """Conversion to a saturated integer; NaN is zero. ``how``: cut, floor, nearest (floor of x + 1/2)."""

    def formula(mode: Mode, bits: int) -> int:
        x = decode(source, mode.flushed(source, bits))
        if x.special == "nan":
            return 0
        if x.special:
            value = least if x.negative else most
        elif how == "cut":
            value = -floor(x._replace(negative=False)) if x.negative else floor(x)
        else:
            value = floor(x if how == "floor" else add(x, Exact(False, 1, -1)))
        return min(max(value, least), most) & ((1 << width) - 1)

    return formula


def normalised(source: Form, is_signed: bool) -> Formula:
    """Conversion of [-1, 1] to units of 1/32767, or of [0, 1] to units of 1/65535."""

    def formula(mode: Mode, bits: int) -> int:
        x = decode(source, mode.flushed(source, bits))
        if x.special == "nan":
            return 0
        least, most = (-32767 if is_signed else 0), (32767 if is_signed else 65535)
        if x.special:
            return (least if x.negative else most) & 0xFFFF
        scaled = Exact(x.negative, x.digits * most, x.exponent)
        below = floor(scaled)
        rest = add(scaled, integer(-below))
        above = rest.digits << 1 if rest.exponent >= 0 else rest.digits * 2
        one = 1 << -rest.exponent if rest.exponent < 0 else 1
        value = below + (above > one or (above == one and below % 2 == 1))
        return min(max(value, least), most) & 0xFFFF

    return formula


def both(one: Formula) -> Formula:
    return lambda mode, low, high: one(mode, low) | one(mode, high) << 16


def byte(mode: Mode, x: int, which: int, into: int) -> int:
    """The third source with one byte replaced by the source, which is rounded as MODE determines."""
    exact = decode(F32, mode.flushed(F32, x))
    if exact.special == "nan" or (exact.special and exact.negative):
        value = 0
    elif exact.special:
        value = 255
    else:
        below = floor(exact)
        rest = add(exact, integer(-below))
        half = add(rest, Exact(True, 1, -1))
        up = {
            NEAREST: (half.digits and not half.negative) or (half.digits == 0 and below % 2 == 1),
            1: rest.digits != 0,
            2: False,
            ZERO: rest.digits != 0 and exact.negative,
        }[mode.round32]
        value = min(max(below + bool(up), 0), 255)
    at = 8 * (which & 3)
    return into & ~(0xFF << at) | value << at


def sixteenths(bits: int) -> Exact:
    return scale(integer(signed(bits & 15, 4)), -4)


def nearest(mode: Mode) -> int:
    return NEAREST


I16, U16, I32, U32 = (-32768, 32767, 16), (0, 65535, 16), (-(2**31), 2**31 - 1, 32), (0, 2**32 - 1, 32)
OLD, NEW, G950 = (*CDNA,), RDNA, ("gfx950",)
F32_ROUND, F16_ROUND = (lambda mode: mode.round32), (lambda mode: mode.round16)
MODIFIED = variants(
    (
        FloatInstruction("v_cvt_f16_f32", ALL, (F16, F32), between(F16, F32, F16_ROUND)),
        FloatInstruction("v_cvt_f32_f16", ALL, (F32, F16), between(F32, F16, F32_ROUND)),
        FloatInstruction("v_cvt_f32_f64", ALL, (F32, F64), between(F32, F64, F32_ROUND)),
        FloatInstruction("v_cvt_f64_f32", ALL, (F64, F32), between(F64, F32, F16_ROUND)),
    )
)
PLAIN = (
    FloatInstruction("v_cvt_f32_bf16", G950, (F32, BF16), lambda mode, x: mode.flushed(F32, x << 16) | (0x400000 if is_nan(BF16, x) else 0)),
    FloatInstruction("v_cvt_pkrtz_f16_f32", OLD, (B32, F32, F32), two(F16, ZERO)),
    FloatInstruction("v_cvt_pk_rtz_f16_f32", NEW, (B32, F32, F32), two(F16, ZERO)),
    FloatInstruction("v_cvt_pk_f16_f32", G950, (B32, F32, F32), two(F16, NEAREST)),
    FloatInstruction("v_cvt_pk_bf16_f32", G950, (B32, F32, F32), two(BF16, NEAREST)),
    FloatInstruction("v_cvt_f32_i32", ALL, (F32, B32), from_integer(F32, lambda x: integer(signed(x, 32)))),
    FloatInstruction("v_cvt_f32_u32", ALL, (F32, B32), from_integer(F32, integer)),
    *(FloatInstruction(f"v_cvt_f32_ubyte{k}", ALL, (F32, B32), from_integer(F32, lambda x, k=k: integer(x >> (8 * k) & 255)))
      for k in range(4)),
    FloatInstruction("v_cvt_off_f32_i4", ALL, (F32, B32), from_integer(F32, sixteenths)),
    FloatInstruction("v_cvt_f64_i32", ALL, (F64, B32), from_integer(F64, lambda x: integer(signed(x, 32)))),
    FloatInstruction("v_cvt_f64_u32", ALL, (F64, B32), from_integer(F64, integer)),
    FloatInstruction("v_cvt_f16_i16", ALL, (F16, B16), from_integer(F16, lambda x: integer(signed(x, 16)))),
    FloatInstruction("v_cvt_f16_u16", ALL, (F16, B16), from_integer(F16, integer)),
    FloatInstruction("v_cvt_i32_i16", NEW, (B32, B16), lambda mode, x: signed(x, 16) & 0xFFFFFFFF),
    FloatInstruction("v_cvt_u32_u16", NEW, (B32, B16), lambda mode, x: x),
    FloatInstruction("v_cvt_i32_f32", ALL, (B32, F32), to_integer(F32, *I32)),
    FloatInstruction("v_cvt_u32_f32", ALL, (B32, F32), to_integer(F32, *U32)),
    FloatInstruction("v_cvt_i32_f64", ALL, (B32, F64), to_integer(F64, *I32)),
    FloatInstruction("v_cvt_u32_f64", ALL, (B32, F64), to_integer(F64, *U32)),
    FloatInstruction("v_cvt_rpi_i32_f32", OLD, (B32, F32), to_integer(F32, *I32, how="nearest")),
    FloatInstruction("v_cvt_nearest_i32_f32", NEW, (B32, F32), to_integer(F32, *I32, how="nearest")),
    FloatInstruction("v_cvt_flr_i32_f32", OLD, (B32, F32), to_integer(F32, *I32, how="floor")),
    FloatInstruction("v_cvt_floor_i32_f32", NEW, (B32, F32), to_integer(F32, *I32, how="floor")),
    FloatInstruction("v_cvt_i16_f16", ALL, (B16, F16), to_integer(F16, *I16)),
    FloatInstruction("v_cvt_u16_f16", ALL, (B16, F16), to_integer(F16, *U16)),
    FloatInstruction("v_cvt_norm_i16_f16", ALL, (B16, F16), normalised(F16, True)),
    FloatInstruction("v_cvt_norm_u16_f16", ALL, (B16, F16), normalised(F16, False)),
    *(FloatInstruction(f"v_cvt_{name}_{'iu'[not s]}16_f{form.width}", archs, (B32, form, form), both(normalised(form, s)))
      for name, archs in (("pknorm", OLD), ("pk_norm", NEW)) for s in (True, False) for form in (F16, F32)),
    FloatInstruction("v_cvt_pk_i16_f32", NEW, (B32, F32, F32), both(to_integer(F32, *I16))),
    FloatInstruction("v_cvt_pk_u16_f32", NEW, (B32, F32, F32), both(to_integer(F32, *U16))),
    FloatInstruction("v_cvt_pk_u16_u32", ALL, (B32, B32, B32), both(lambda mode, x: min(x, 65535))),
    FloatInstruction("v_cvt_pk_i16_i32", ALL, (B32, B32, B32), both(lambda mode, x: min(max(signed(x, 32), -32768), 32767) & 0xFFFF)),
    FloatInstruction("v_cvt_pk_u8_f32", ALL, (B32, F32, B32, B32), byte),
    FloatInstruction("v_cvt_pkaccum_u8_f32", OLD, (B32, F32, B32, B32), byte, accumulates=True),
)  # fmt: skip
CASES = (*MODIFIED, *(FloatInstruction(**{**case.__dict__, "modifiers": False}) for case in PLAIN))


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_convert(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))

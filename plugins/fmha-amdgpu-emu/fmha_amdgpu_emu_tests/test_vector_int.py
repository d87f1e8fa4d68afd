"""Every vector integer instruction agrees with a formula on Python integers, on every architecture that has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.harness import Snippets, archs_of
from fmha_amdgpu_emu_tests.support.integer_cases import (
    ALL,
    CDNA,
    RDNA,
    IntegerInstruction,
    check_vectors,
    clamp,
    signed,
    snippets_of,
    words,
)

M32, M64 = 2**32 - 1, 2**64 - 1
T3 = (32, 32, 32)
T4 = (32, 32, 32, 32)
H2, H3, H4 = (16, 16), (16, 16, 16), (16, 16, 16, 16)


def i32(x: int) -> int:
    """As a signed number."""
    return signed(x, 32)


def i16(x: int) -> int:
    """As a signed number."""
    return signed(x, 16)


def leading(x: int, bits: int = 32) -> int:
    """The number of zeros before the first one bit; -1 if there is none."""
    return bits - x.bit_length() if x else -1


def reverse(x: int) -> int:
    """The bits reversed: bit 0 becomes bit 31."""
    return int(f"{x:032b}"[::-1], 2)


def signs(x: int) -> int:
    """The position, from the top, of the first bit that differs from the sign; -1 if there is none."""
    text = f"{x:032b}"
    return text.find("1" if text[0] == "0" else "0")


def table(index: int) -> Callable[[int, int, int], int]:
    """v_bitop3: bit {a, b, c} of the table."""

    def formula(a: int, b: int, c: int) -> int:
        out = 0
        for k in range(32):
            out |= (index >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k
        return out

    return formula


def field(a: int, at: int, width: int) -> int:
    """v_bfe_u32."""
    return a >> (at & 31) & ((1 << (width & 31)) - 1)


def signed_field(a: int, at: int, width: int) -> int:
    """v_bfe_i32."""
    width &= 31
    return signed(i32(a) >> (at & 31), width) if width else 0


def middle(*values: int) -> int:
    """The middle one of three."""
    return sorted(values)[1]


SUMS = (
    IntegerInstruction("v_add_u32", CDNA, T3, lambda a, b: a + b),
    IntegerInstruction("v_add_u32", CDNA, T3, lambda a, b: min(a + b, M32), mods="clamp"),
    IntegerInstruction("v_add_nc_u32", RDNA, T3, lambda a, b: a + b),
    IntegerInstruction("v_add_nc_u32", RDNA, T3, lambda a, b: min(a + b, M32), mods="clamp"),
    IntegerInstruction("v_sub_u32", CDNA, T3, lambda a, b: a - b),
    IntegerInstruction("v_sub_u32", CDNA, T3, lambda a, b: max(a - b, 0), mods="clamp"),
    IntegerInstruction("v_sub_nc_u32", RDNA, T3, lambda a, b: a - b),
    IntegerInstruction("v_sub_nc_u32", RDNA, T3, lambda a, b: max(a - b, 0), mods="clamp"),
    IntegerInstruction("v_subrev_u32", CDNA, T3, lambda a, b: b - a),
    IntegerInstruction("v_subrev_u32", CDNA, T3, lambda a, b: max(b - a, 0), mods="clamp"),
    IntegerInstruction("v_subrev_nc_u32", RDNA, T3, lambda a, b: b - a),
    IntegerInstruction("v_subrev_nc_u32", RDNA, T3, lambda a, b: max(b - a, 0), mods="clamp"),
    IntegerInstruction("v_add_i32", CDNA, T3, lambda a, b: a + b),
    IntegerInstruction("v_add_i32", CDNA, T3, lambda a, b: clamp(i32(a) + i32(b), -(2**31), 2**31 - 1), mods="clamp"),
    IntegerInstruction("v_add_nc_i32", RDNA, T3, lambda a, b: a + b),
    IntegerInstruction(
        "v_add_nc_i32", RDNA, T3, lambda a, b: clamp(i32(a) + i32(b), -(2**31), 2**31 - 1), mods="clamp"
    ),
    IntegerInstruction("v_sub_i32", CDNA, T3, lambda a, b: a - b),
    IntegerInstruction("v_sub_i32", CDNA, T3, lambda a, b: clamp(i32(a) - i32(b), -(2**31), 2**31 - 1), mods="clamp"),
    IntegerInstruction("v_sub_nc_i32", RDNA, T3, lambda a, b: a - b),
    IntegerInstruction(
        "v_sub_nc_i32", RDNA, T3, lambda a, b: clamp(i32(a) - i32(b), -(2**31), 2**31 - 1), mods="clamp"
    ),
    IntegerInstruction("v_add3_u32", ALL, T4, lambda a, b, c: a + b + c),
    IntegerInstruction("v_lshl_add_u32", ALL, T4, lambda a, b, c: (a << (b & 31)) + c),
    IntegerInstruction("v_add_lshl_u32", ALL, T4, lambda a, b, c: (a + b) << (c & 31)),
    IntegerInstruction("v_xad_u32", ALL, T4, lambda a, b, c: (a ^ b) + c),
)

PRODUCTS = (
    IntegerInstruction("v_mul_lo_u32", ALL, T3, lambda a, b: a * b),
    IntegerInstruction("v_mul_lo_i32", CDNA, T3, lambda a, b: a * b),
    IntegerInstruction("v_mul_hi_u32", ALL, T3, lambda a, b: a * b >> 32),
    IntegerInstruction("v_mul_hi_i32", ALL, T3, lambda a, b: i32(a) * i32(b) >> 32),
    IntegerInstruction("v_mul_u32_u24", ALL, T3, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    IntegerInstruction("v_mul_i32_i24", ALL, T3, lambda a, b: signed(a, 24) * signed(b, 24)),
    IntegerInstruction("v_mul_hi_u32_u24", ALL, T3, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    IntegerInstruction("v_mul_hi_i32_i24", ALL, T3, lambda a, b: signed(a, 24) * signed(b, 24) >> 32),
    IntegerInstruction("v_mad_u32_u24", ALL, T4, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    IntegerInstruction("v_mad_i32_i24", ALL, T4, lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    IntegerInstruction(
        "v_mad_u32_u24", ALL, T4, lambda a, b, c: min((a & 0xFFFFFF) * (b & 0xFFFFFF) + c, M32), mods="clamp"
    ),
    IntegerInstruction(
        "v_mad_i32_i24", ALL, T4,
        lambda a, b, c: clamp(signed(a, 24) * signed(b, 24) + i32(c), -(2**31), 2**31 - 1), mods="clamp",
    ),
)  # fmt: skip

BITS = (
    IntegerInstruction("v_not_b32", ALL, (32, 32), lambda a: ~a),
    IntegerInstruction("v_and_b32", ALL, T3, lambda a, b: a & b),
    IntegerInstruction("v_or_b32", ALL, T3, lambda a, b: a | b),
    IntegerInstruction("v_xor_b32", ALL, T3, lambda a, b: a ^ b),
    IntegerInstruction("v_xnor_b32", ALL, T3, lambda a, b: ~(a ^ b)),
    IntegerInstruction("v_lshlrev_b32", ALL, T3, lambda a, b: b << (a & 31)),
    IntegerInstruction("v_lshrrev_b32", ALL, T3, lambda a, b: b >> (a & 31)),
    IntegerInstruction("v_ashrrev_i32", ALL, T3, lambda a, b: i32(b) >> (a & 31)),
    IntegerInstruction("v_bfm_b32", ALL, T3, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    IntegerInstruction("v_bcnt_u32_b32", ALL, T3, lambda a, b: a.bit_count() + b),
    IntegerInstruction("v_ffbh_u32", CDNA, (32, 32), leading),
    IntegerInstruction("v_clz_i32_u32", RDNA, (32, 32), leading),
    IntegerInstruction("v_ffbl_b32", CDNA, (32, 32), lambda a: (a & -a).bit_length() - 1),
    IntegerInstruction("v_ctz_i32_b32", RDNA, (32, 32), lambda a: (a & -a).bit_length() - 1),
    IntegerInstruction("v_ffbh_i32", CDNA, (32, 32), signs),
    IntegerInstruction("v_cls_i32", RDNA, (32, 32), signs),
    IntegerInstruction("v_bfrev_b32", ALL, (32, 32), reverse),
    IntegerInstruction("v_prng_b32", ("gfx950",), (32, 32), lambda a: a << 1 ^ (197 if a >> 31 else 0)),
    IntegerInstruction("v_bfe_u32", ALL, T4, field),
    IntegerInstruction("v_bfe_i32", ALL, T4, signed_field),
    IntegerInstruction("v_bfi_b32", ALL, T4, lambda a, b, c: (a & b) | (~a & c)),
    IntegerInstruction("v_alignbit_b32", ALL, T4, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    IntegerInstruction("v_and_or_b32", ALL, T4, lambda a, b, c: (a & b) | c),
    IntegerInstruction("v_or3_b32", ALL, T4, lambda a, b, c: a | b | c),
    IntegerInstruction("v_xor3_b32", RDNA, T4, lambda a, b, c: a ^ b ^ c),
    IntegerInstruction("v_lshl_or_b32", ALL, T4, lambda a, b, c: a << (b & 31) | c),
    *(
        IntegerInstruction("v_bitop3_b32", ("gfx950",), T4, table(t), mods=f"bitop3:{t:#x}")
        for t in (0, 0x28, 0xE4, 0x96, 0xFF)
    ),
    *(
        IntegerInstruction("v_bitop3_b16", ("gfx950",), H4, table(t), True, f"bitop3:{t:#x}")
        for t in (0x28, 0xE4, 0x1B)
    ),
)

ORDER = (
    IntegerInstruction("v_min_i32", ALL, T3, lambda a, b: min(i32(a), i32(b))),
    IntegerInstruction("v_max_i32", ALL, T3, lambda a, b: max(i32(a), i32(b))),
    IntegerInstruction("v_min_u32", ALL, T3, min),
    IntegerInstruction("v_max_u32", ALL, T3, max),
    IntegerInstruction("v_min3_i32", ALL, T4, lambda *x: min(map(i32, x))),
    IntegerInstruction("v_max3_i32", ALL, T4, lambda *x: max(map(i32, x))),
    IntegerInstruction("v_med3_i32", ALL, T4, lambda *x: middle(*map(i32, x))),
    IntegerInstruction("v_min3_u32", ALL, T4, min),
    IntegerInstruction("v_max3_u32", ALL, T4, max),
    IntegerInstruction("v_med3_u32", ALL, T4, middle),
    IntegerInstruction("v_maxmin_i32", RDNA, T4, lambda a, b, c: min(max(i32(a), i32(b)), i32(c))),
    IntegerInstruction("v_minmax_i32", RDNA, T4, lambda a, b, c: max(min(i32(a), i32(b)), i32(c))),
    IntegerInstruction("v_maxmin_u32", RDNA, T4, lambda a, b, c: min(max(a, b), c)),
    IntegerInstruction("v_minmax_u32", RDNA, T4, lambda a, b, c: max(min(a, b), c)),
)

WIDE = (
    IntegerInstruction("v_lshlrev_b64", ALL, (64, 32, 64), lambda a, b: b << (a & 63)),
    IntegerInstruction("v_lshrrev_b64", ALL, (64, 32, 64), lambda a, b: b >> (a & 63)),
    IntegerInstruction("v_ashrrev_i64", ALL, (64, 32, 64), lambda a, b: signed(b, 64) >> (a & 63)),
    IntegerInstruction("v_lshl_add_u64", ("gfx942", "gfx950"), (64, 64, 32, 64), lambda a, b, c: (a << (b & 7)) + c),
)

HALVES = (
    IntegerInstruction("v_add_u16", CDNA, H3, lambda a, b: a + b),
    IntegerInstruction("v_add_u16", CDNA, H3, lambda a, b: min(a + b, 0xFFFF), mods="clamp"),
    IntegerInstruction("v_sub_u16", CDNA, H3, lambda a, b: a - b),
    IntegerInstruction("v_sub_u16", CDNA, H3, lambda a, b: max(a - b, 0), mods="clamp"),
    IntegerInstruction("v_subrev_u16", CDNA, H3, lambda a, b: b - a),
    IntegerInstruction("v_subrev_u16", CDNA, H3, lambda a, b: max(b - a, 0), mods="clamp"),
    IntegerInstruction("v_add_i16", CDNA, H3, lambda a, b: a + b, True),
    IntegerInstruction("v_add_i16", CDNA, H3, lambda a, b: clamp(i16(a) + i16(b), -32768, 32767), True, "clamp"),
    IntegerInstruction("v_sub_i16", CDNA, H3, lambda a, b: a - b, True),
    IntegerInstruction("v_sub_i16", CDNA, H3, lambda a, b: clamp(i16(a) - i16(b), -32768, 32767), True, "clamp"),
    IntegerInstruction("v_add_nc_u16", RDNA, H3, lambda a, b: a + b),
    IntegerInstruction("v_add_nc_u16", RDNA, H3, lambda a, b: min(a + b, 0xFFFF), mods="clamp"),
    IntegerInstruction("v_sub_nc_u16", RDNA, H3, lambda a, b: a - b),
    IntegerInstruction("v_sub_nc_u16", RDNA, H3, lambda a, b: max(a - b, 0), mods="clamp"),
    IntegerInstruction("v_add_nc_i16", RDNA, H3, lambda a, b: a + b),
    IntegerInstruction("v_add_nc_i16", RDNA, H3, lambda a, b: clamp(i16(a) + i16(b), -32768, 32767), mods="clamp"),
    IntegerInstruction("v_sub_nc_i16", RDNA, H3, lambda a, b: a - b),
    IntegerInstruction("v_sub_nc_i16", RDNA, H3, lambda a, b: clamp(i16(a) - i16(b), -32768, 32767), mods="clamp"),
    IntegerInstruction("v_mul_lo_u16", ALL, H3, lambda a, b: a * b),
    IntegerInstruction("v_mad_u16", ALL, H4, lambda a, b, c: a * b + c, True),
    IntegerInstruction("v_mad_u16", ALL, H4, lambda a, b, c: min(a * b + c, 0xFFFF), True, "clamp"),
    IntegerInstruction("v_mad_i16", ALL, H4, lambda a, b, c: a * b + c, True),
    IntegerInstruction(
        "v_mad_i16", ALL, H4, lambda a, b, c: clamp(i16(a) * i16(b) + i16(c), -32768, 32767), True, "clamp"
    ),
    IntegerInstruction("v_mad_legacy_u16", CDNA, H4, lambda a, b, c: a * b + c),
    IntegerInstruction("v_mad_legacy_i16", CDNA, H4, lambda a, b, c: a * b + c),
    IntegerInstruction("v_mad_u32_u16", ALL, (32, 16, 16, 32), lambda a, b, c: a * b + c),
    IntegerInstruction("v_mad_i32_i16", ALL, (32, 16, 16, 32), lambda a, b, c: i16(a) * i16(b) + c),
    IntegerInstruction("v_not_b16", RDNA, H2, lambda a: ~a),
    IntegerInstruction("v_and_b16", RDNA, H3, lambda a, b: a & b),
    IntegerInstruction("v_or_b16", RDNA, H3, lambda a, b: a | b),
    IntegerInstruction("v_xor_b16", RDNA, H3, lambda a, b: a ^ b),
    IntegerInstruction("v_lshlrev_b16", ALL, H3, lambda a, b: b << (a & 15)),
    IntegerInstruction("v_lshrrev_b16", ALL, H3, lambda a, b: b >> (a & 15)),
    IntegerInstruction("v_ashrrev_i16", ALL, H3, lambda a, b: i16(b) >> (a & 15)),
    IntegerInstruction("v_min_i16", ALL, H3, lambda a, b: min(i16(a), i16(b))),
    IntegerInstruction("v_max_i16", ALL, H3, lambda a, b: max(i16(a), i16(b))),
    IntegerInstruction("v_min_u16", ALL, H3, min),
    IntegerInstruction("v_max_u16", ALL, H3, max),
    IntegerInstruction("v_min3_i16", ALL, H4, lambda *x: min(map(i16, x)), True),
    IntegerInstruction("v_max3_i16", ALL, H4, lambda *x: max(map(i16, x)), True),
    IntegerInstruction("v_med3_i16", ALL, H4, lambda *x: middle(*map(i16, x)), True),
    IntegerInstruction("v_min3_u16", ALL, H4, min, True),
    IntegerInstruction("v_max3_u16", ALL, H4, max, True),
    IntegerInstruction("v_med3_u16", ALL, H4, middle, True),
)


def parts(x: int, bits: int = 8, count: int = 4) -> list[int]:
    """Bytes or words of x, the lowest first."""
    return [x >> (bits * k) & ((1 << bits) - 1) for k in range(count)]


def sad(a: int, b: int, bits: int = 8, masked: bool = False) -> int:
    """Sum of absolute differences."""
    both = zip(parts(a, bits, 32 // bits), parts(b, bits, 32 // bits), strict=True)
    return sum(abs(x - y) for x, y in both if y or not masked)


def quad(masked: bool) -> Callable[[int, int, int], int]:
    """Four sums, with the dwords that begin at bytes 0 to 3 of a."""

    def formula(a: int, b: int, c: int) -> int:
        return sum(
            ((sad(a >> 8 * k & M32, b, masked=masked) + (c >> 16 * k & 0xFFFF)) & 0xFFFF) << 16 * k for k in range(4)
        )

    return formula


def quad_wide(a: int, b: int, c: int) -> int:
    """The same sums, in four dwords."""
    return sum(((sad(a >> 8 * k & M32, b, masked=True) + (c >> 32 * k & M32)) & M32) << 32 * k for k in range(4))


def permuted(a: int, b: int, c: int) -> int:
    """v_perm_b32."""
    data = parts(a << 32 | b, 8, 8)
    values = {**dict(enumerate(data)), **{8 + k: 255 if data[2 * k + 1] > 127 else 0 for k in range(4)}, 12: 0}
    return sum(values.get(which, 255) << 8 * k for k, which in enumerate(parts(c)))


def average(a: int, b: int, c: int) -> int:
    """v_lerp_u8."""
    lanes = zip(parts(a), parts(b), parts(c), strict=True)
    return sum(((x + y + (z & 1)) >> 1) << 8 * k for k, (x, y, z) in enumerate(lanes))


BYTES = (
    IntegerInstruction("v_sad_u8", ALL, T4, lambda a, b, c: sad(a, b) + c),
    IntegerInstruction("v_sad_u8", ALL, T4, lambda a, b, c: min(sad(a, b) + c, M32), mods="clamp"),
    IntegerInstruction("v_sad_hi_u8", ALL, T4, lambda a, b, c: (sad(a, b) << 16) + c),
    IntegerInstruction("v_sad_u16", ALL, T4, lambda a, b, c: sad(a, b, 16) + c),
    IntegerInstruction("v_sad_u32", ALL, T4, lambda a, b, c: abs(a - b) + c),
    IntegerInstruction("v_sad_u32", ALL, T4, lambda a, b, c: min(abs(a - b) + c, M32), mods="clamp"),
    IntegerInstruction("v_msad_u8", ALL, T4, lambda a, b, c: sad(a, b, masked=True) + c),
    IntegerInstruction("v_qsad_pk_u16_u8", ALL, (64, 64, 32, 64), quad(False)),
    IntegerInstruction("v_mqsad_pk_u16_u8", ALL, (64, 64, 32, 64), quad(True)),
    IntegerInstruction("v_mqsad_u32_u8", ALL, (128, 64, 32, 128), quad_wide),
    IntegerInstruction("v_perm_b32", ALL, T4, permuted),
    IntegerInstruction("v_alignbyte_b32", ALL, T4, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    IntegerInstruction("v_lerp_u8", ALL, T4, average),
    IntegerInstruction(
        "v_sat_pk_u8_i16", ALL, (16, 32), lambda a: clamp(i16(a), 0, 255) | clamp(i16(a >> 16), 0, 255) << 8
    ),
    IntegerInstruction(
        "v_ashr_pk_i8_i32", ("gfx950",), (16, 32, 32, 32),
        lambda a, b, c: sum((clamp(i32(x) >> (c & 31), -128, 127) & 255) << 8 * k for k, x in enumerate((a, b))), True,
    ),
    IntegerInstruction(
        "v_ashr_pk_u8_i32", ("gfx950",), (16, 32, 32, 32),
        lambda a, b, c: sum(clamp(i32(x) >> (c & 31), 0, 255) << 8 * k for k, x in enumerate((a, b))), True,
    ),
)  # fmt: skip

CASES = (*SUMS, *PRODUCTS, *BITS, *ORDER, *WIDE, *HALVES, *BYTES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the snippets of this module are assembled."""
    return tmp_path_factory.mktemp("vector_int")


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_vector_integers(arch: str, folder: Path) -> None:
    check_vectors(CASES, arch, snippets_of(CASES, arch, folder))


@pytest.mark.parametrize("arch", ALL)
def test_permuted_by_one_choice(arch: str, tmp_path: Path) -> None:
    """v_perm_b32 with a scalar selector, as compilers emit it."""
    choices = (0x07060302, 0x05040100, 0x03020504, 0x00000000, 0x0C0C0503, 0x070D0A08, 0x0B090706)
    run = Snippets(arch, tmp_path, {f"c{c:x}": f"s_mov_b32 s2, {c:#x}\nv_perm_b32 v1, v2, v3, s2" for c in choices})
    v = words(31, 4, 64)
    for c in choices:
        got = run.run(f"c{c:x}", v=dict(enumerate(v)), exec=0xFFF0FF0F).v[1]
        for lane in range(run.lanes):
            on = 0xFFF0FF0F >> lane & 1
            want = permuted(int(v[2][lane]), int(v[3][lane]), c) if on else int(v[1][lane])
            assert int(got[lane]) == want, f"{c:#x} lane {lane}"

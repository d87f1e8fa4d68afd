"""v_div_scale, v_div_fmas and v_div_fixup, separately and together.

Separately, they follow the documents' text, or what the compiler's division macro needs if the text cannot be meant
literally. Together, the macro gives the correctly rounded quotient.
"""

from __future__ import annotations

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
)
from fmha_amdgpu_emu_tests.support.float_reference import (
    F16,
    F32,
    F64,
    Form,
    add,
    decode,
    encode,
    is_nan,
    multiply,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import Mode, draw
from fmha_amdgpu_emu_tests.support.harness import Snippets, archs_of

CONSTANTS = {F32: (64, 96, 23, -150, 127), F64: (128, 768, 53, -1075, 1023)}
"""Scale, far distance, tiny numerator, distance at which nothing is left, middle of the exponents."""


def field(form: Form, bits: int) -> int:
    """The exponent field."""
    return bits >> form.mantissa & ((1 << form.exponent) - 1)


def quotient_is_small(form: Form, n: int, d: int) -> bool:
    """Whether |n / d| is below the smallest normal number; n and d are codes of finite non-zero numbers."""
    a, b = decode(form, n), decode(form, d)
    exponent = a.exponent - b.exponent - (1 - form.bias)  # |n / d| < 2^(1 - bias): digits_a 2^exponent < digits_b
    return a.digits << max(exponent, 0) < b.digits << max(-exponent, 0)


def div_scale(form: Form, s0: int, s1: int, s2: int) -> tuple[int, bool]:
    """The documents' text as a formula: (result, VCC)."""
    by, far, tiny, _, _ = CONSTANTS[form]

    def scaled(power: int) -> int:
        x = decode(form, s0)
        return s0 | form.quiet if is_nan(form, s0) else s0 if x.special else encode(form, scale(x, power))

    def same(a: int, b: int) -> bool:
        return not is_nan(form, a) and not is_nan(form, b) and (a == b or not (a | b) & (form.sign - 1))

    size1, size2 = s1 & (form.sign - 1), s2 & (form.sign - 1)
    if size1 == 0 or size2 == 0:
        return form.invalid, False
    if field(form, s2) - field(form, s1) >= far:
        return (scaled(by) if same(s0, s1) else s0), True
    if field(form, s1) == 0:
        return scaled(by), False
    one = form.bias << form.mantissa
    finite1, finite2 = size1 < form.infinity, size2 < form.infinity
    small_inverse = finite1 and quotient_is_small(form, one, size1)
    small = finite1 and finite2 and quotient_is_small(form, size2, size1)
    if small_inverse and small:  # the text has 2^by, which makes the denominator infinite
        return (scaled(-by) if same(s0, s1) else s0), True
    if small_inverse:
        return scaled(-by), False
    if small:
        return (scaled(by) if same(s0, s2) else s0), True
    return (scaled(by) if field(form, s2) <= tiny else s0), False


def div_fmas(form: Form, vcc: bool, s0: int, s1: int, s2: int, mode: Mode) -> int:
    by, _, _, _, middle = CONSTANTS[form]
    for bits in (s0, s1, s2):
        if is_nan(form, bits):
            return bits | form.quiet
    exact = add(multiply(decode(form, s0), decode(form, s1)), decode(form, s2), mode.round(form))
    if exact.special == "nan":
        return form.invalid
    if vcc and not exact.special:
        exact = scale(exact, by if field(form, s2) > middle else -by)
    return encode(form, exact, mode.round(form))


def div_fixup(form: Form, mode: Mode, quotient: int, d: int, n: int) -> int:
    gone = CONSTANTS[form][3] if form in CONSTANTS else -1000
    d, n = mode.flushed(form, d), mode.flushed(form, n)
    sign, size_d, size_n = (d ^ n) & form.sign, d & (form.sign - 1), n & (form.sign - 1)
    for bits in (n, d):
        if is_nan(form, bits):
            return bits | form.quiet
    if size_d == size_n and size_d in (0, form.infinity):
        return form.invalid
    if size_d == 0 or size_n == form.infinity:
        return sign | form.infinity
    if size_d == form.infinity or size_n == 0:
        return sign
    distance, away = field(form, n) - field(form, d), mode.round(form) == (2 if sign else 1)
    if distance < gone:
        return sign | away
    if form is not F16 and distance > form.bias + 1:  # certainly too large
        return sign | (form.infinity - (not away and mode.round(form) != 0))
    return sign | quotient & (form.sign - 1)


def fixup(form: Form):  # type: ignore[no-untyped-def]
    return lambda mode, q, d, n: div_fixup(form, mode, q, d, n)


CASES = (
    FloatInstruction("v_div_fixup_f16", ALL, (F16,) * 4, fixup(F16), keeps=True, modifiers=False),
    FloatInstruction("v_div_fixup_legacy_f16", CDNA, (F16,) * 4, fixup(F16), modifiers=False),
    FloatInstruction("v_div_fixup_f32", ALL, (F32,) * 4, fixup(F32), modifiers=False),
    FloatInstruction("v_div_fixup_f64", ALL, (F64,) * 4, fixup(F64), modifiers=False),
)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_fixup(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))


def registers(form: Form, first: int) -> str:
    return f"v{first}" if form is F32 else f"v[{first}:{first + 1}]"


def put(form: Form, values: list[int], first: int, v: dict[int, np.ndarray]) -> None:
    """Put codes into registers."""
    for d in range(form.width // 32):
        v[first + d] = np.array([x >> (32 * d) & 0xFFFFFFFF for x in values], np.uint32)


def get(form: Form, v: np.ndarray, first: int, lane: int) -> int:
    return sum(int(v[first + d, lane]) << (32 * d) for d in range(form.width // 32))


def operands(form: Form, seed: int) -> list[list[int]]:
    """64 denominators and numerators: special ones, close ones, and exponents over the whole range."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(2):
        values = [int(x) for x in draw(form, seed + k, 64)]
        for lane in range(0, 64, 2):
            exponent = int(rng.integers(0, 1 << form.exponent))
            values[lane] = exponent << form.mantissa | int(rng.integers(0, 1 << form.mantissa))
        out.append(values)
    return out


@pytest.mark.parametrize("form", [F32, F64], ids=("f32", "f64"))
@pytest.mark.parametrize("arch", ALL)
def test_scale_and_fmas(arch: str, form: Form, tmp_path: Path) -> None:
    tail = f"f{form.width}"
    vcc = "vcc_lo" if arch in RDNA else "vcc"
    a, b, c, d = (registers(form, k) for k in (2, 4, 6, 0))
    snippets = Snippets(
        arch, tmp_path,
        {"n": f"v_div_scale_{tail} {d}, {vcc}, {b}, {a}, {b}", "d": f"v_div_scale_{tail} {d}, {vcc}, {a}, {a}, {b}",
         "fmas": f"v_div_fmas_{tail} {d}, {a}, {b}, {c}"},
    )  # fmt: skip
    exec_ = 0x9F3A_5C71_5B0F_E6D9 & ((1 << snippets.lanes) - 1)
    for seed in range(4):
        below, above = operands(form, 100 * seed)
        third = operands(form, 100 * seed + 50)[0]
        v: dict[int, np.ndarray] = {}
        for values, first in ((below, 2), (above, 4), (third, 6), ([0x55] * 64, 0)):
            put(form, values, first, v)
        for name in ("n", "d"):
            after = snippets.run(name, v=v, exec=exec_, mode=0x3F0, vcc=0x1234567)
            wanted_vcc = 0
            for lane in range(64):
                got = get(form, after.v, 0, lane)
                if not exec_ >> lane & 1:
                    assert got == 0x55
                    continue
                s0 = above[lane] if name == "n" else below[lane]
                want, back = div_scale(form, s0, below[lane], above[lane])
                wanted_vcc |= back << lane
                assert got == want, f"{name} {lane}: {hex(below[lane])} {hex(above[lane])}: {got:#x}, not {want:#x}"
            assert after.vcc == wanted_vcc
        mask = 0x0123_4567_89AB_CDEF & ((1 << snippets.lanes) - 1)
        for mode in (Mode(arch), Mode(arch, round32=1, round16=1)):
            after = snippets.run("fmas", v=v, exec=exec_, mode=mode.bits, vcc=mask)
            for lane in range(64):
                want = 0x55
                if exec_ >> lane & 1:
                    want = div_fmas(form, bool(mask >> lane & 1), below[lane], above[lane], third[lane], mode)
                if form is F64 and mask >> lane & 1 and field(form, want) <= 1:
                    continue  # rounded twice there, because the emulator takes 2^-128 of a binary64 result
                assert get(form, after.v, 0, lane) == want, f"fmas lane {lane} {mode}"


MACRO = """
v_div_scale_{t} {2}, {sd}, {0}, {0}, {1}
v_rcp_{t} {3}, {2}
v_fma_{t} {4}, -{2}, {3}, 1.0
v_fma_{t} {3}, {4}, {3}, {3}
v_fma_{t} {4}, -{2}, {3}, 1.0
v_fma_{t} {3}, {4}, {3}, {3}
v_div_scale_{t} {5}, {vcc}, {1}, {0}, {1}
v_mul_{t} {6}, {5}, {3}
v_fma_{t} {4}, -{2}, {6}, {5}
v_fma_{t} {6}, {4}, {3}, {6}
v_fma_{t} {4}, -{2}, {6}, {5}
v_div_fmas_{t} {7}, {4}, {3}, {6}
v_div_fixup_{t} {8}, {7}, {0}, {1}
"""


@pytest.mark.parametrize("form", [F32, F64], ids=("f32", "f64"))
@pytest.mark.parametrize("arch", ALL)
def test_division(arch: str, form: Form, tmp_path: Path) -> None:
    """The quotient is correct in LLVM's expansion with denormals ({0}: denominator, {1}: numerator, {8}: quotient)."""
    names = [registers(form, 2 + 2 * k) for k in range(9)]
    rdna = arch in RDNA
    text = MACRO.format(*names, t=f"f{form.width}", vcc="vcc_lo" if rdna else "vcc", sd="s4" if rdna else "s[4:5]")
    snippets = Snippets(arch, tmp_path, {"divide": text})
    dtype = np.float32 if form is F32 else np.float64
    code = np.uint32 if form is F32 else np.uint64
    for seed in range(12):
        below, above = operands(form, 1000 * seed + 7)
        v: dict[int, np.ndarray] = {}
        put(form, below, 2, v)
        put(form, above, 4, v)
        after = snippets.run("divide", v=v, exec=(1 << snippets.lanes) - 1, mode=0x3F0)
        with np.errstate(all="ignore"):
            quotients = np.array(above, code).view(dtype) / np.array(below, code).view(dtype)
        for lane in range(snippets.lanes):
            got, want = get(form, after.v, 18, lane), int(quotients[lane : lane + 1].view(code)[0])
            if is_nan(form, want):
                assert is_nan(form, got)
            else:
                assert got == want, f"{hex(above[lane])} / {hex(below[lane])}: {got:#x}, not {want:#x}"

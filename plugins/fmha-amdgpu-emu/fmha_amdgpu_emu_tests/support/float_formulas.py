"""Formulas of the arithmetic instructions for any format: exact numbers rounded once (float_reference.py)."""

from __future__ import annotations

from collections.abc import Callable

from fmha_amdgpu_emu_tests.support.float_cases import settled
from fmha_amdgpu_emu_tests.support.float_reference import (
    Exact,
    Form,
    add,
    decode,
    encode,
    floor,
    integer,
    is_nan,
    multiply,
    negate,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import Mode, flushed

Operation = Callable[..., Exact]


def rounded(form: Form, operation: Operation, dx9: bool = False, always_flush: bool = False) -> Callable[..., int]:
    """A formula that flushes the sources and rounds the exact result as MODE determines."""

    def formula(mode: Mode, *sources: int) -> int:
        bits = [flushed(form, s) if always_flush else mode.flushed(form, s) for s in sources]
        if dx9 and 0 in (bits[0] & ~form.sign, bits[1] & ~form.sign):
            bits[:2] = 0, 0
        exact = operation(mode.round(form), *(decode(form, b) for b in bits))
        result = None if exact.special == "nan" else encode(form, exact, mode.round(form))
        return settled(form, result, bits)

    return formula


def plus(mode: int, a: Exact, b: Exact) -> Exact:
    """a + b."""
    return add(a, b, mode)


def minus(mode: int, a: Exact, b: Exact) -> Exact:
    """a - b."""
    return add(a, negate(b), mode)


def reverse_minus(mode: int, a: Exact, b: Exact) -> Exact:
    """b - a."""
    return add(b, negate(a), mode)


def times(mode: int, a: Exact, b: Exact) -> Exact:
    """a x b."""
    return multiply(a, b)


def fused(mode: int, a: Exact, b: Exact, c: Exact) -> Exact:
    """a x b + c, rounded once."""
    return add(multiply(a, b), c, mode)


def unfused(form: Form) -> Operation:
    """a x b + c with the product rounded first and its denormals flushed."""

    def operation(mode: int, a: Exact, b: Exact, c: Exact) -> Exact:
        product = multiply(a, b)
        if product.special != "nan":
            product = decode(form, flushed(form, encode(form, product, mode)))
        return add(product, c, mode)

    return operation


def whole(form: Form, to: str) -> Callable[..., int]:
    """trunc, ceil, floor or round to nearest even."""

    def formula(mode: Mode, source: int) -> int:
        bits = mode.flushed(form, source)
        x = decode(form, bits)
        if is_nan(form, bits):
            return bits | form.quiet
        if x.special or x.exponent >= 0:
            return bits
        below = floor(x)
        exact = x.digits & ((1 << -x.exponent) - 1) == 0
        above = below if exact else below + 1
        rest = (-x.digits if x.negative else x.digits) - (below << -x.exponent)  # in units of 2^exponent
        half = 1 << (-x.exponent - 1)
        value = {
            "floor": below,
            "ceil": above,
            "trunc": above if x.negative else below,
            "rndne": below if rest < half or (rest == half and below % 2 == 0) else above,
        }[to]
        return encode(form, integer(value)) | (bits & form.sign)

    return formula


def fraction(form: Form, most: int) -> Callable[..., int]:
    """x - floor(x), at most ``most``."""

    def formula(mode: Mode, source: int) -> int:
        bits = mode.flushed(form, source)
        x = decode(form, bits)
        if x.special:
            return settled(form, None, [bits])
        below = integer(floor(x))
        if x.digits == 0:
            below = x
        result = encode(form, add(x, negate(below), mode.round(form)), mode.round(form))
        return most if not result & form.sign and result > most else result

    return formula


def significand(form: Form) -> Callable[..., int]:
    """The significand, in [0.5, 1)."""

    def formula(mode: Mode, source: int) -> int:
        bits = mode.flushed(form, source)
        x = decode(form, bits)
        if x.special or x.digits == 0:
            return bits | form.quiet if is_nan(form, bits) else bits
        return encode(form, x._replace(exponent=-x.digits.bit_length()))

    return formula


def exponent(form: Form, width: int = 32) -> Callable[..., int]:
    """The exponent that belongs to a significand in [0.5, 1)."""

    def formula(mode: Mode, source: int) -> int:
        x = decode(form, mode.flushed(form, source))
        return 0 if x.special or x.digits == 0 else (x.exponent + x.digits.bit_length()) & ((1 << width) - 1)

    return formula


def load_exponent(form: Form, width: int = 32) -> Callable[..., int]:
    """x 2^n for a signed n of ``width`` bits."""

    def formula(mode: Mode, source: int, power: int) -> int:
        bits = mode.flushed(form, source)
        n = power - (1 << width) if power >> (width - 1) else power
        x = decode(form, bits)
        if x.special:
            return settled(form, None if x.special == "nan" else bits, [bits])
        return encode(form, scale(x, max(-5000, min(5000, n))), mode.round(form))

    return formula

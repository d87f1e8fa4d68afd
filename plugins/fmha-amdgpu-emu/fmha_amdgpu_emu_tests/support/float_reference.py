"""Floating point on Python integers: exact sums and products, rounded once to any format in any mode.

It shares no code with the emulator, which uses the host's floats. The formats are those of ml_dtypes and IEEE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

NEAREST, UP, DOWN, ZERO = range(4)


@dataclass(frozen=True)
class Form:
    """A format: bits of exponent and mantissa, bias; ``kind``: ieee, nan_only (E4M3), fnuz, finite (fp4, fp6)."""

    exponent: int
    mantissa: int
    bias: int
    kind: str = "ieee"

    @cached_property
    def width(self) -> int:
        """The width in bits."""
        return 1 + self.exponent + self.mantissa

    @cached_property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent + self.mantissa)

    @cached_property
    def infinity(self) -> int:
        """The code of +infinity (of an ieee format)."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @cached_property
    def largest(self) -> int:
        """The code of the largest number."""
        return {"ieee": self.infinity - 1, "nan_only": self.sign - 2}.get(self.kind, self.sign - 1)

    @cached_property
    def quiet(self) -> int:
        """The bit that marks a quiet NaN."""
        return 1 << (self.mantissa - 1)

    @cached_property
    def invalid(self) -> int:
        """The NaN of an invalid operation."""
        return self.sign | self.infinity | self.quiet


F16, BF16, F32, F64 = Form(5, 10, 15), Form(8, 7, 127), Form(8, 23, 127), Form(11, 52, 1023)
FP8, BF8 = Form(4, 3, 7, "nan_only"), Form(5, 2, 15)
FP8_FNUZ, BF8_FNUZ = Form(4, 3, 8, "fnuz"), Form(5, 2, 16, "fnuz")
FP6, BF6, FP4 = Form(2, 3, 1, "finite"), Form(3, 2, 3, "finite"), Form(2, 1, 1, "finite")


class Exact(NamedTuple):
    """A number: sign, and digits x 2^exponent; ``digits`` 0 is zero. ``special``: "nan" or "inf"."""

    negative: bool
    digits: int
    exponent: int
    special: str = ""


NAN = Exact(False, 0, 0, "nan")


def is_nan(form: Form, bits: int) -> bool:
    """Whether a code is a NaN."""
    size = bits & (form.sign - 1)
    if form.kind == "fnuz":
        return bits == form.sign
    return size > form.infinity if form.kind == "ieee" else form.kind == "nan_only" and size == form.sign - 1


@cache
def decode(form: Form, bits: int) -> Exact:
    """The number that a code represents."""
    negative, size = bool(bits & form.sign), bits & (form.sign - 1)
    if is_nan(form, bits):
        return NAN
    if form.kind == "ieee" and size == form.infinity:
        return Exact(negative, 0, 0, "inf")
    field, digits = size >> form.mantissa, size & ((1 << form.mantissa) - 1)
    if field:
        digits |= 1 << form.mantissa
    return Exact(negative, digits, max(field, 1) - form.bias - form.mantissa)


def overflow(form: Form, negative: bool, mode: int, saturate: bool) -> int:
    """The code of a number beyond the largest one."""
    sign = form.sign if negative else 0
    if saturate or form.kind == "finite" or mode == ZERO or mode == (DOWN, UP)[negative]:
        return form.largest | sign
    if form.kind == "ieee":
        return form.infinity | sign
    return form.sign if form.kind == "fnuz" else (form.sign - 1) | sign


def encode(form: Form, x: Exact, mode: int = NEAREST, saturate: bool = False, seed: int | None = None) -> int:
    """Round to a format; with ``seed`` stochastically, up if lost digits + seed / 2^32 reach one. NaNs become quiet."""
    sign = form.sign if x.negative else 0
    if x.special == "nan":
        return {"ieee": form.infinity | form.quiet, "fnuz": form.sign, "nan_only": form.sign - 1}.get(
            form.kind, form.largest
        )
    if x.special == "inf":
        return form.infinity | sign if form.kind == "ieee" else overflow(form, x.negative, NEAREST, saturate)
    if x.digits == 0:
        return 0 if form.kind == "fnuz" else sign
    top = x.exponent + x.digits.bit_length() - 1
    last = max(top, 1 - form.bias) - form.mantissa  # exponent of the last place
    shift = last - x.exponent
    if shift <= 0:
        whole, up = x.digits << -shift, False
    else:
        whole, rest = x.digits >> shift, x.digits & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        if seed is not None:
            up = (rest << 32) + (seed << shift) >= 1 << (32 + shift)
        elif mode == NEAREST:
            up = rest > half or (rest == half and whole & 1 == 1)
        else:
            up = rest > 0 and mode == (UP, DOWN)[x.negative]
    size = whole + up + ((last + form.mantissa - (1 - form.bias)) << form.mantissa)
    if size > form.largest:
        return overflow(form, x.negative, NEAREST if seed is not None else mode, saturate)
    return 0 if form.kind == "fnuz" and size == 0 else size | sign


def multiply(a: Exact, b: Exact) -> Exact:
    """The exact product."""
    negative = a.negative != b.negative
    if "nan" in (a.special, b.special):
        return NAN
    if "inf" in (a.special, b.special):
        zero = (not a.special and a.digits == 0) or (not b.special and b.digits == 0)
        return NAN if zero else Exact(negative, 0, 0, "inf")
    return Exact(negative, a.digits * b.digits, a.exponent + b.exponent)


def add(a: Exact, b: Exact, mode: int = NEAREST) -> Exact:
    """The exact sum; an exact cancellation gives -0 when rounding down."""
    if "nan" in (a.special, b.special):
        return NAN
    if a.special or b.special:
        if a.special and b.special and a.negative != b.negative:
            return NAN
        return a if a.special else b
    exponent = min(a.exponent, b.exponent)
    total = sum((-1 if x.negative else 1) * (x.digits << (x.exponent - exponent)) for x in (a, b))
    if total:
        return Exact(total < 0, abs(total), exponent)
    both = a.negative if a.digits == b.digits == 0 and a.negative == b.negative else mode == DOWN
    return Exact(both, 0, 0)


def negate(a: Exact) -> Exact:
    """-a."""
    return a._replace(negative=not a.negative)


def scale(a: Exact, power: int) -> Exact:
    """a x 2^power."""
    return a._replace(exponent=a.exponent + power)


def integer(value: int) -> Exact:
    """A whole number as an Exact."""
    return Exact(value < 0, abs(value), 0)


def floor(a: Exact) -> int:
    """The largest whole number that is not above a."""
    value = -a.digits if a.negative else a.digits
    return value << a.exponent if a.exponent >= 0 else value >> -a.exponent


def to_float(form: Form, bits: int) -> float:
    """The number as a Python float (exact for formats of up to 64 bits)."""
    x = decode(form, bits)
    if x.special:
        return math.nan if x.special == "nan" else math.copysign(math.inf, -1 if x.negative else 1)
    return math.copysign(math.ldexp(float(x.digits), x.exponent), -1 if x.negative else 1)


def from_float(value: float) -> Exact:
    """The number that a Python float represents."""
    if math.isnan(value):
        return NAN
    if math.isinf(value):
        return Exact(value < 0, 0, 0, "inf")
    mantissa, exponent = math.frexp(value)
    return Exact(math.copysign(1, value) < 0, abs(int(math.ldexp(mantissa, 53))), exponent - 53)


def order(form: Form, bits: int) -> int:
    """A sort key for numbers, with -0 below +0."""
    size = bits & (form.sign - 1)
    return -size - 1 if bits & form.sign else size

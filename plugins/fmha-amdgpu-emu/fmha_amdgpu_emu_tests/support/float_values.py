"""MODE of a wave, and test values: special ones of every format, random ones near one and anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.float_reference import BF16, DOWN, F16, F32, F64, UP, ZERO, Form, decode, encode

B32, B16, B64 = Form(0, 31, 0, "bits"), Form(0, 15, 0, "bits"), Form(0, 63, 0, "bits")
HALVES, BRAINS, PAIR = Form(0, 31, 0, "halves"), Form(0, 31, 0, "brains"), Form(0, 63, 0, "pair")
"""Operands that hold no single float: integers, or two binary16, bfloat16 or binary32 numbers."""
PARTS = {"halves": F16, "brains": BF16, "pair": F32}


@dataclass(frozen=True)
class Mode:
    """MODE of a wave: rounding and denormals of binary32 and of the other formats, IEEE, DX10_CLAMP, FP16_OVFL."""

    arch: str
    round32: int = 0
    round16: int = 0
    flush32: bool = False
    flush16: bool = False
    ieee_bit: bool = True
    dx10_bit: bool = True
    overflow: bool = False

    @property
    def bits(self) -> int:
        """The register's bits."""
        keep32, keep16 = (0 if self.flush32 else 3), (0 if self.flush16 else 3)
        return (self.round32 | self.round16 << 2 | keep32 << 4 | keep16 << 6 | self.dx10_bit << 8
                | self.ieee_bit << 9 | self.overflow << 23)  # fmt: skip

    @property
    def ieee(self) -> bool:
        """Whether IEEE is on; gfx12 always has it."""
        return self.ieee_bit or self.arch == "gfx1201"

    @property
    def dx10(self) -> bool:
        """Whether clamp turns NaN into zero; always on gfx12."""
        return self.dx10_bit or self.arch == "gfx1201"

    def round(self, form: Form) -> int:
        """The rounding mode of a format."""
        return self.round32 if form == F32 else self.round16

    def flushes(self, form: Form) -> bool:
        """Whether denormals of this format become zero."""
        return self.flush32 if form == F32 else self.flush16

    def flushed(self, form: Form, bits: int) -> int:
        """The bits, or a zero of the same sign for a flushed denormal."""
        return flushed(form, bits) if self.flushes(form) else bits


def flushed(form: Form, bits: int) -> int:
    """A zero of the same sign for a denormal, other codes unchanged."""
    return bits if bits & form.infinity else bits & form.sign


MODES: tuple[dict[str, Any], ...] = (
    {},
    {"flush32": True},
    {"flush16": True, "flush32": True, "ieee_bit": False, "dx10_bit": False},
    {"round32": UP, "round16": DOWN},
    {"round32": DOWN, "round16": ZERO},
    {"round32": ZERO, "round16": UP, "flush32": True},
)
"""The last formats have fewer values."""


@cache
def specials(form: Form) -> tuple[int, ...]:
    """Zeros, ones, ties, range limits, denormals, infinities, quiet and signalling NaNs, of both signs."""
    one = form.bias << form.mantissa
    sizes = [0, 1, 2, 3, (1 << form.mantissa) - 1, 1 << form.mantissa, (1 << form.mantissa) + 1, one - 1, one, one + 1,
             one + (1 << form.mantissa), one + (3 << (form.mantissa - 1)), one - (1 << form.mantissa), form.infinity - 1,
             form.infinity, form.infinity | form.quiet, form.infinity | form.quiet | 1, form.infinity | 1,
             form.infinity | (form.quiet - 1), form.infinity - (1 << form.mantissa)]  # fmt: skip
    for whole in (2, 3, 127, 255, 32767, 65504, 65519, 65520, 2**31 - 1, 2**31, 2**32 - 1):
        for half in (0, 1):
            code = encode(form, decode(F64, int(np.float64(whole + half / 2).view(np.uint64))))
            sizes.append(code)
    return tuple(s | sign for s in sizes for sign in (0, form.sign))


def draw(form: Form, seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random codes: arbitrary, near one, and special."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 8, count)
    if part := PARTS.get(form.kind):
        low, high = (draw(part, seed + 5000 + k, count) for k in range(2))
        return low | high << np.uint64(part.width)
    if form.kind == "bits":
        out = rng.integers(0, 1 << 32, count, dtype=np.uint64) | (
            rng.integers(0, 1 << 32, count, dtype=np.uint64) << np.uint64(32)
        )
        small = rng.integers(-40, 40, count).astype(np.uint64)
        mask = np.uint64((1 << form.width) - 1)
        return np.where(kind < 3, small, out) & mask
    anything = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) >> np.uint64(64 - form.width)
    spread = max(2, form.exponent - 2)
    field = form.bias + rng.integers(-spread, spread + 1, count)
    near = (
        (field.astype(np.uint64) << np.uint64(form.mantissa))
        | (anything & np.uint64((1 << form.mantissa) - 1))
        | (anything & np.uint64(form.sign))
    )
    special = rng.choice(np.array(specials(form), np.uint64), count)
    return np.where(kind < 2, anything, np.where(kind < 6, near, special))

"""Times, sizes and rates as people read them: three significant digits and a unit that suits the value.

Every message and table of the product writes a quantity with these functions. JSON has plain numbers in base units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, both as text."""

    number: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}"


_Units = Sequence[tuple[float, str]]
"""(base units per unit, name), the largest unit first."""

_TIMES: _Units = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SIZES: _Units = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1.0, "B"))
_FLOP_RATES: _Units = tuple((factor, f"{name}FLOP/s") for factor, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")))
_BYTE_RATES: _Units = tuple((factor, f"{name}B/s") for factor, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")))

_LEAST_RATE = 0.1
"""Rates are compared with others of their column, so 0.235 TFLOP/s stays in the usual unit."""


def digits(value: float | None, places: int = 3) -> str:
    """A number with ``places`` significant digits, without an exponent between 1e-3 and 1e6; empty for None."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{places - 1}e}"
    rounded = abs(float(f"{value:.{places - 1}e}"))  # 9.996 has one digit less behind the point than 9.994
    return f"{value:.{max(0, places - 1 - math.floor(math.log10(rounded)))}f}"


def time_of(nanoseconds: float, places: int = 3) -> Quantity:
    """A time in the largest unit of which it is at least 1."""
    return _quantity(nanoseconds, _TIMES, places)


def flop_rate(per_second: float) -> Quantity:
    """A number of FLOP per second: GFLOP/s below 0.1 TFLOP/s, MFLOP/s below 0.1 GFLOP/s."""
    return _quantity(per_second, _FLOP_RATES, least=_LEAST_RATE)


def byte_rate(per_second: float) -> Quantity:
    """A number of bytes per second, in decimal units as data sheets give it."""
    return _quantity(per_second, _BYTE_RATES, least=_LEAST_RATE)


def duration(nanoseconds: float | None) -> str:
    """One time with its unit; empty for None."""
    return "" if nanoseconds is None else str(time_of(nanoseconds))


def span(seconds: float) -> str:
    """A time to wait, in words: ``12 s``, ``1 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    large, small, units = (
        (whole // 60, whole % 60, ("min", "s")) if whole < 3600 else (whole // 3600, whole % 3600 // 60, ("h", "min"))
    )
    return f"{large} {units[0]}" + (f" {small} {units[1]}" if small else "")


def size(count: int | None) -> str:
    """Bytes with a binary unit; empty for None."""
    return "" if count is None else str(_quantity(count, _SIZES))


def _quantity(value: float, units: _Units, places: int = 3, least: float = 1.0) -> Quantity:
    """The value in the largest unit of which it is at least ``least`` when it is rounded to ``places`` digits."""
    rounded = float(f"{abs(value):.{places - 1}e}") if math.isfinite(value) else math.inf
    reached = max(abs(value), rounded)  # 999,600 ns are shown as 1.00 ms, and 1024 B, which round to 1020, as 1.00 KiB
    factor, name = next(((f, n) for f, n in units if reached >= f * least), units[-1])
    whole = factor == 1 and float(value).is_integer()
    return Quantity(str(int(value)) if whole else digits(value / factor, places), name)

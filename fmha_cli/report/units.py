"""Numbers for people: one unit for a whole column, three significant digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def time_unit(values_ns: Iterable[float | None]) -> tuple[float, str]:
    """Nanoseconds per unit, and the unit, chosen so that the smallest of the times is at least 1."""
    known = [v for v in values_ns if v]
    least = min(known, default=0.0)
    return next(((factor, unit) for factor, unit in _TIMES if least >= factor), (1.0, "ns"))


def digits(value: float | None, places: int = 3) -> str:
    """A number with ``places`` significant digits, without an exponent between 1e-3 and 1e6; empty for None."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{places - 1}e}"
    return f"{value:.{max(0, places - 1 - math.floor(math.log10(abs(value))))}f}"


def percent(share: float | None) -> str:
    """A share as a percentage, with at most two decimals; empty for None."""
    if share is None:
        return ""
    return "<0.01" if 0 < share < 1e-4 else f"{share * 100:.{2 if share < 0.1 else 1}f}"


def size(count: int | None) -> str:
    """Bytes with a binary unit; empty for None."""
    if count is None:
        return ""
    return next((f"{digits(count / factor)} {unit}" for factor, unit in _SIZES if count >= factor), f"{count} B")


def duration(nanoseconds: int | None) -> str:
    """One time with its unit; empty for None."""
    if nanoseconds is None:
        return ""
    factor, unit = time_unit([nanoseconds])
    return f"{nanoseconds} ns" if factor == 1 else f"{digits(nanoseconds / factor)} {unit}"


def cell(value: Any) -> str:
    """Any JSON value as a short table cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, list):
        return " ".join(cell(v) for v in value)
    if isinstance(value, dict):
        return " ".join(f"{k}={cell(v)}" for k, v in value.items())
    return str(value)


def counted(count: int, word: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {word}" if count == 1 else f"{count} {word[:-1] + 'ies' if word.endswith('y') else word + 's'}"

"""Times, sizes and rates in words: a unit that suits the value, never an exponent, never thousands of a unit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.quantities import byte_rate, digits, duration, flop_rate, size, time_of

pytestmark = pytest.mark.promise("Every time, size and rate has a unit that suits it.")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (None, ""),
        (0, "0 ns"),
        (999, "999 ns"),
        (9_999, "10.0 us"),
        (22_541_000, "22.5 ms"),
        (999_600, "1.00 ms"),
        (1_500_000_000, "1.50 s"),
        (-1, "-1 ns"),
    ],
)
def test_times(nanoseconds: int | None, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(2.35e11, "0.235 TFLOP/s"), (9.9e10, "99.0 GFLOP/s"), (4.9e8, "0.490 GFLOP/s"), (5e6, "5.00 MFLOP/s")],
)
def test_flop_rates(per_second: float, text: str) -> None:
    assert str(flop_rate(per_second)) == text


def test_sizes_and_byte_rates() -> None:
    assert size(None) == ""
    assert size(100) == "100 B"
    assert size(2**10 - 1) == "1023 B"
    assert size(2**10) == "1.00 KiB"
    assert size(3 * 2**20) == "3.00 MiB"
    assert size(5 * 2**40) == "5.00 TiB"
    assert str(byte_rate(2.29e7)) == "22.9 MB/s"
    assert str(byte_rate(3.35e12)) == "3.35 TB/s"


@given(st.integers(1, 10**13))
def test_no_time_below_hours_needs_an_exponent_or_five_digits(nanoseconds: int) -> None:
    number, unit = duration(nanoseconds).split()
    assert unit in ("ns", "us", "ms", "s")
    assert re.fullmatch(r"\d{1,3}(\.\d{1,2})?|\d{4,5}", number)
    assert len(number) < 4 or "." in number or unit == "s"


def test_more_digits_where_a_small_difference_counts() -> None:
    assert str(time_of(100_001, 6)) == "100.001 us"
    assert digits(0.0123456, 4) == "0.01235"

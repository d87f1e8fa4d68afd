"""The division of a launch's time among its stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.backends.cuda.timing import divide


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**9), min_size=1, max_size=4))
def test_the_sum_is_exact_and_no_part_is_negative(whole: int, parts: list[int]) -> None:
    out = divide(whole, parts)
    assert sum(out) == whole
    assert len(out) == len(parts)
    assert min(out) >= 0


@pytest.mark.parametrize(
    ("whole", "parts", "out"), [(90, (1, 2), (30, 60)), (10, (7,), (10,)), (100, (1, 1, 1), (33, 33, 34))]
)
def test_shares(whole: int, parts: tuple[int, ...], out: tuple[int, ...]) -> None:
    assert divide(whole, parts) == out

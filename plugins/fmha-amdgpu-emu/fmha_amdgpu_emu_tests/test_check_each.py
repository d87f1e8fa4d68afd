"""A test that stands for many cases runs all of them and names each that fails."""

from __future__ import annotations

import pytest

from fmha_amdgpu_emu_tests.support.harness import check_each

pytestmark = [pytest.mark.slow, pytest.mark.ci]


def test_every_case_that_fails_is_named() -> None:
    ran: list[int] = []

    def check(number: int) -> None:
        ran.append(number)
        assert number % 2 == 0, f"{number} is odd"

    with pytest.raises(AssertionError, match=r"2 are wrong\nn1: 1 is odd[^n]*\nn3: 3 is odd"):
        check_each((f"n{number}", lambda number=number: check(number)) for number in range(5))
    assert ran == [0, 1, 2, 3, 4]
    check_each([("n2", lambda: check(2))])

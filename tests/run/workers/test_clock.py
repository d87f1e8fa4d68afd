"""Reported times against the host's clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.run.job import SHORTEST_NS, SLACK_NS, contradiction, untimed

times = st.integers(SHORTEST_NS, 10**9)


@given(st.lists(st.tuples(times, st.integers(0, 10**9)), min_size=1, max_size=9), st.integers(0, 10**9))
def test_times_within_the_hosts_are_believed(launches: list[tuple[int, int]], around: int) -> None:
    reported = tuple((ns,) for ns, _ in launches)
    waited = [ns + more for ns, more in launches]
    assert contradiction(reported, waited, sum(waited) + around, works=True) is None


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ((None, 5), "launch 2 of 3 reported a time that is not a finite number"),
        ((-1, 500), "launch 2 of 3 reported -1 ns: a time is not negative"),
        ((0, 9), "launch 2 of 3 reported 9 ns: no launch takes less than 10 ns"),
        ((60_000, 60_000), "launch 2 of 3 reported 120.000 us, but the host waited only 100.000 us for it"),
        ((10**30, 0), "reported 1.00000e+21 s"),
    ],
)
def test_a_time_that_cannot_be_true_is_named(stages: tuple[int | None, ...], words: str) -> None:
    found = contradiction(((400, 1), stages, (300, 2)), [100_000] * 3, 10**9, works=True)
    assert words in (found or "")


@pytest.mark.parametrize(("reported", "waited"), [(900_000, 900_000), (400_000, 900_000)])
def test_all_launches_together_take_no_longer_than_the_parents_clock(reported: int, waited: int) -> None:
    """A worker whose own clock is wrong contradicts the parent's."""
    found = contradiction(((reported,),) * 3, [waited] * 3, 2_000_000, works=True)
    assert "the host's clock advanced by 2.00000 ms only" in (found or "")
    assert contradiction(((reported,),) * 3, [waited] * 3, 2_700_000, works=True) is None


def test_a_drifting_clock_is_no_contradiction() -> None:
    assert contradiction(((1_000_000,),), [1_000_000 - SLACK_NS], 10**9, works=True) is None
    assert contradiction(((0, 0),), [1000], 1000, works=False) is None, "no work takes no time"


@pytest.mark.parametrize(
    ("reported", "waited", "noted"),
    [
        ([], [], False),
        ([10_000_000] * 3, [20_000_000] * 3, True),
        ([10_000_000] * 3, [10_100_000, 10_100_000, 50_000_000], False),
        ([10_000] * 3, [1_000_000] * 3, False),
        ([100_000_000] * 3, [120_000_000] * 3, False),
    ],
)
def test_a_wait_much_longer_than_the_time_is_noted(reported: list[int], waited: list[int], noted: bool) -> None:
    assert (untimed(reported, waited) is not None) is noted

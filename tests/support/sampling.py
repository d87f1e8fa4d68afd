"""``@pytest.mark.sampled(n)``: README's command runs n of a test's cases, always the same ones; the others are slow.

For a test that takes long because it has many cases of about the same weight. A hash of their names decides which ones
are left, so neither the machine nor the order in which they were written matters. A test whose cases are skipped on
some machines is none of these: what is left might be skipped.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest


def leave_a_sample(items: Sequence[pytest.Item]) -> None:
    """Mark as slow all cases of a sampled test but as many as its mark says, in addition to the ones that are slow
    already.

    Raises:
        pytest.UsageError: a mark without a number of cases.
    """
    tests: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            tests[item.path, item.nodeid.partition("[")[0]].append(item)
    for (_, name), cases in tests.items():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        if len(mark.args) != 1 or not isinstance(mark.args[0], int) or mark.args[0] < 1:
            raise pytest.UsageError(f"{name}: sampled needs a number of cases")
        for case in sorted(cases, key=_place)[mark.args[0] :]:
            case.add_marker(pytest.mark.slow)


def keep_some(items: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """As many of the tests that are not slow, chosen as the cases of a sampled test are, in their order."""
    daily = [item for item in items if not item.get_closest_marker("slow")]
    some = {item.nodeid for item in sorted(daily, key=_place)[:count]}
    return [item for item in daily if item.nodeid in some]


def _place(case: pytest.Item) -> bytes:
    return hashlib.sha256(case.nodeid.encode()).digest()

"""``@pytest.mark.sampled(n, ci=m)``: README's command runs n of a test's cases, always the same ones; the others are slow.
CI runs m cases in all: ``ci="all"``, or only those n without it. Cases that are slow already are none of them.

For a test that takes long because it has many cases of about the same weight. A hash of their names decides which ones
are left, so neither the machine nor the order in which they were written matters. Where some cases are skipped on some
machines, the ones that are left may be among them: such a test needs ``ci="all"``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest


def leave_a_sample(items: Sequence[pytest.Item]) -> None:
    """Mark as slow all cases of a sampled test but as many as its mark says, in addition to the ones that are slow
    already; and for CI as many of the others as it says.

    Raises:
        pytest.UsageError: a mark without a number of cases, or with fewer for CI.
    """
    tests: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            tests[item.path, item.nodeid.partition("[")[0]].append(item)
    for (_, name), cases in tests.items():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        if len(mark.args) != 1 or not isinstance(mark.args[0], int) or mark.args[0] < ("ci" not in mark.kwargs):
            raise pytest.UsageError(f"{name}: sampled needs a number of cases")
        daily = mark.args[0]
        in_ci = mark.kwargs.get("ci", daily)
        if in_ci == "all":
            in_ci = len(cases)
        elif not isinstance(in_ci, int) or in_ci < daily or set(mark.kwargs) - {"ci"}:
            raise pytest.UsageError(f'{name}: sampled takes ci="all" or at least as many cases for CI')
        for n, case in enumerate(sorted(cases, key=_place)):
            if n >= daily:
                case.add_marker(pytest.mark.slow)
            if daily <= n < in_ci:
                case.add_marker(pytest.mark.ci)


def keep_some(items: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """As many of the tests that are not slow, chosen as the cases of a sampled test are, in their order."""
    daily = [item for item in items if not item.get_closest_marker("slow")]
    some = {item.nodeid for item in sorted(daily, key=_place)[:count]}
    return [item for item in daily if item.nodeid in some]


def _place(case: pytest.Item) -> bytes:
    return hashlib.sha256(case.nodeid.encode()).digest()

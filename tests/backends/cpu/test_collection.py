"""README's command runs fp32 kernels of the architectures that this machine chooses; CI runs those of other types and architectures."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.backends.cpu.conftest import HERE, is_plain


def test_a_daily_test_of_other_kernels_has_one_case(request: pytest.FixtureRequest) -> None:
    """Of what this run collected: without the rule of ``conftest.py``, dozens of tests have more."""
    daily: dict[str, list[bool]] = defaultdict(list)
    for item in request.session.items:
        if HERE in item.path.parents and not item.get_closest_marker("slow"):
            daily[item.nodeid.partition("[")[0]].append(is_plain(item))
    assert [name for name, plain in daily.items() if len(plain) > 1 and not all(plain)] == []

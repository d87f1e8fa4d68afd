"""For every test of the repository and of its plugins: no command writes into the store of results of whoever runs them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

os.environ["FMHA_NO_STORE"] = "1"
os.environ.pop("FMHA_STORE", None)

# Hundreds of tests start processes; without compiled modules each of them compiles the whole program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """CI runs the tests marked ``ci`` after README's command, which leaves out the slow ones: a test that is only ``ci`` would run twice."""
    twice = [i.nodeid for i in items if i.get_closest_marker("ci") and not i.get_closest_marker("slow")]
    if twice:
        raise pytest.UsageError(f"marked ci and not slow: {', '.join(twice)}")

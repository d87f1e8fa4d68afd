"""For every test of the repository and of its plugins: no command writes into the store of results of whoever runs them."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Sequence

import pytest
from sampling import leave_a_sample

os.environ["FMHA_NO_STORE"] = "1"
os.environ.pop("FMHA_STORE", None)

# Hundreds of tests start processes; without compiled modules each of them compiles the whole program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting 24,000 tests makes millions of objects, all of which stay: the collector of garbage need not look at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """CI runs the tests marked ``ci`` after README's command, which leaves out the slow ones: a test that is only ``ci`` would run twice."""
    leave_a_sample(items)
    twice = [i.nodeid for i in items if i.get_closest_marker("ci") and not i.get_closest_marker("slow")]
    if twice:
        raise pytest.UsageError(f"marked ci and not slow: {', '.join(twice)}")

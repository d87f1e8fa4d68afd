"""The tests here are marked ``ci`` and share the cache of the whole run."""

from __future__ import annotations

from tests.support.emulator_suite import cache_of_the_run, pytest_collection_modifyitems

__all__ = ["cache_of_the_run", "pytest_collection_modifyitems"]

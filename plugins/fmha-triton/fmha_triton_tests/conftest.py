"""The cache of tests on emulated devices."""

from __future__ import annotations

import pytest

from tests.support.run_cache import run_cache


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The cache of the run: compiling the emulator takes more than all of these tests."""
    return str(run_cache(tmp_path_factory))

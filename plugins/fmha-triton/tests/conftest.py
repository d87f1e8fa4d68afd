"""The cache of tests on emulated devices."""

from __future__ import annotations

import os

import pytest
from run_cache import run_cache


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the run, or the one that CI names: compiling the emulator takes more than all of these tests."""
    return os.environ.get("FMHA_CACHE_DIR") or str(run_cache(tmp_path_factory))

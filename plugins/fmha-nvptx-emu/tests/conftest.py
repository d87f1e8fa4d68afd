"""The emulator's tests use the cache of the whole run, unless ``FMHA_CACHE_DIR`` names one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from run_cache import run_cache

CACHE = "FMHA_CACHE_DIR"


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user's cache stays as it is, and other tests' kernels need no second compile."""
    with pytest.MonkeyPatch.context() as patch:
        if CACHE not in os.environ:
            patch.setenv(CACHE, str(run_cache(tmp_path_factory)))
        yield

"""The emulator's tests use the cache of the whole run, unless ``FMHA_CACHE_DIR`` names one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from run_cache import run_cache

CACHE = "FMHA_CACHE_DIR"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Every test here may need the emulator itself, which takes minutes to compile: CI runs them after README's command.

    ``pytest plugins/fmha-nvptx-emu -m ci`` runs them. Tests that are marked slow already stay out of CI.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.ci)


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user's cache stays as it is, and other tests' kernels need no second compile."""
    with pytest.MonkeyPatch.context() as patch:
        if CACHE not in os.environ:
            patch.setenv(CACHE, str(run_cache(tmp_path_factory)))
        yield

"""The common part of the tests of the emulators' plugins: their mark, and the cache of the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.support.paths import ROOT
from tests.support.run_cache import run_cache

PLUGINS = ROOT / "plugins"
FOLDERS = (PLUGINS / "fmha-amdgpu-emu", PLUGINS / "fmha-nvptx-emu")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Every test of an emulator may need its library, which takes a minute or more to compile: CI runs them after README's command.

    ``pytest plugins/fmha-nvptx-emu -m ci`` runs them. Tests that are marked slow already stay out of CI.
    """
    folders = {path: any(path.is_relative_to(folder) for folder in FOLDERS) for path in {item.path for item in items}}
    for item in items:
        if folders[item.path] and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.ci)


@pytest.fixture(autouse=True, scope="session")
def cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user's cache stays as it is, and other tests' kernels need no second compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FMHA_CACHE_DIR", str(run_cache(tmp_path_factory)))
        yield

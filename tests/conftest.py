"""Settings of the whole suite: one cache for all tests of a run, no user configuration, repeatable properties."""

from __future__ import annotations

import os
from pathlib import Path

# Small matrix products are slow when the threads of several test processes compete for two cores. Set this before numpy
# is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from fmha_cli.backends.cpu.arch_detect import VARIABLE

if find_spec("fmha_null") is None:
    raise pytest.UsageError("tests need a plugin: pip install --no-deps --no-build-isolation -e plugins/fmha-null")

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide FMHA_* variables, user configuration and user caches from every test; the processor stays the one for which it is taken."""
    for name in [n for n in os.environ if n.startswith("FMHA_") and n != VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FMHA_CACHE_DIR", str(shared_cache))
    monkeypatch.setenv("FMHA_NO_STORE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(shared_cache.parent / "no-data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shared_cache.parent / "no-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(shared_cache.parent / "states"))
    monkeypatch.setenv("COLUMNS", "80")  # readline, which pytest loads, sets it where os.environ does not see it
    monkeypatch.delenv("COLUMNS")

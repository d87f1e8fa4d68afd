"""The cache of a test run: all tests and xdist workers share it, so each kernel compiles once."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

NAME = "FMHA_TEST_CACHE"


def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache root of this run, made if needed: what ``FMHA_TEST_CACHE`` names, or else a new folder.

    A folder that several runs name saves them what an earlier one compiled; CI has one for all its stages.
    """
    base = tmp_path_factory.getbasetemp()
    own = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "fmha-cache"
    root = Path(os.environ.get(NAME) or own)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


def once(cache_root: Path, name: str, key: str, build: Callable[[Path], Path]) -> Path:
    """The file of a key; ``build`` makes it in an empty folder. Processes of one test run share the cache."""
    folder = cache_root / "of-tests"
    folder.mkdir(exist_ok=True)
    made = folder / f"{name}-{key[:16]}"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            work = folder / f"{name}-work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            build(work).rename(made)
            shutil.rmtree(work)
    return made

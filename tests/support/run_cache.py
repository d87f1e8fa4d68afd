"""The cache of a test run: all tests and xdist workers share it, so each kernel compiles once."""

from __future__ import annotations

import os
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

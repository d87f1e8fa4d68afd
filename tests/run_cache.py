"""The cache of a test run: all tests and xdist workers share it, so each kernel compiles once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache root of this run, made if needed."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "fmha-cache"
    root.mkdir(mode=0o700, exist_ok=True)
    return root

"""Fixtures that install the backend of edited trees for one test."""

from __future__ import annotations

from pathlib import Path

import pytest
import tree_backend


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the backend, and make an unedited tree of its sources."""
    tree_backend.install(tmp_path / "tree-site")
    monkeypatch.syspath_prepend(str(tmp_path / "tree-site"))
    monkeypatch.setenv("FMHA_CACHE_DIR", str(tmp_path / "tree-cache"))
    return tree_backend.make(tmp_path / "first")

"""The fixture that installs the three backends for one test."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio_backends


@pytest.fixture
def trio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the backends; the file that counts what their sessions load."""
    trio_backends.install(tmp_path / "trio-site")
    monkeypatch.syspath_prepend(str(tmp_path / "trio-site"))
    monkeypatch.setenv("TRIO_LOADS", str(tmp_path / "loads"))
    return tmp_path / "loads"

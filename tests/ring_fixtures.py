"""The fixture that installs the test backend of ``fmha tune`` for one test."""

from __future__ import annotations

from pathlib import Path

import pytest
import ring_backend


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the backend, and name a store and a folder of states; the path of the store."""
    ring_backend.install(tmp_path / "ring-site")
    monkeypatch.syspath_prepend(str(tmp_path / "ring-site"))
    monkeypatch.delenv("FMHA_NO_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FMHA_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path / "store.sqlite"

"""Fixtures that install the paper emulator for one test and return the calls that it received."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_emulator
import pytest

Told = Callable[[str], list[dict[str, Any]]]
"""``told("order")`` -> the calls of that name, in order."""

Sees = Callable[..., None]
"""``sees("lds-race", launch=1)``: the findings that it should report."""


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Install the emulator with an empty log."""
    site, path = tmp_path / "site", tmp_path / "emulator.jsonl"
    site.mkdir()
    fake_emulator.install(site)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FAKE_EMULATOR_LOG", str(path))

    def told(call: str) -> list[dict[str, Any]]:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [found for line in lines if (found := json.loads(line))["call"] == call]

    return told


@pytest.fixture
def sees(monkeypatch: pytest.MonkeyPatch) -> Sees:
    """Make the emulator report findings."""

    def wish(*kinds: str, **more: Any) -> None:
        monkeypatch.setenv("FAKE_EMULATOR", json.dumps({"findings": list(kinds), **more}))

    return wish

"""Fixtures that run ``fmha`` in this process without the user's own configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from emulated_fixtures import emulator, sees

from fmha_cli.cli.app import run

__all__ = ["emulator", "sees"]


@dataclass(frozen=True)
class Result:
    """The exit code and the printed output."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Fmha = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with an empty configuration folder next to it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("config", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def fmha(home: Path, capfd: pytest.CaptureFixture[str]) -> Fmha:
    """``fmha("run", "--seqlen", "64")`` -> Result."""

    def call(*argv: str, **variables: str) -> Result:
        capfd.readouterr()
        code = run(argv, {**os.environ, **variables})
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return call

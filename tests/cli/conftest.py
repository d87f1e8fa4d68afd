"""Fixtures that run ``fmha`` in this process without the user's own configuration."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.cli.app import run
from tests.support.fixtures.emulated import emulator, sees
from tests.support.fixtures.ring import ring

__all__ = ["emulator", "ring", "sees"]


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
def fmha(home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fmha:
    """``fmha("run", "--seqlen", "64")`` -> Result. How busy the machine is must not show: a command that takes long says nothing of it."""
    monkeypatch.setattr("fmha_cli.cli.progress.PIPED_S", 3600.0)

    def call(*argv: str, **variables: str) -> Result:
        capfd.readouterr()
        code = run(argv, {**os.environ, **variables})
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return call


LARGE = ("example", "onnxruntime", "openvino", "torch")
"""Plugins whose backends run here, which ``fmha doctor`` therefore judges: seconds of imports for each command."""


@pytest.fixture
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide plugins that a test of ``fmha doctor`` is not about; the cpu and the null backend are still judged."""
    real = importlib.metadata.entry_points

    def some(**wanted: Any) -> list[Any]:
        found: Any = real(**wanted)
        return [entry for entry in found if entry.name not in LARGE]

    monkeypatch.setattr(importlib.metadata, "entry_points", some)


Begin = Callable[[str, Callable[[], object]], None]


@pytest.fixture(scope="session")
def kept_states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores and folders of states that several tests begin with."""
    return tmp_path_factory.mktemp("kept-states")


@pytest.fixture
def begin(ring: Path, kept_states: Path) -> Begin:
    """``begin("tuned", tune)`` calls ``tune`` the first time, and later copies the store and the states that it left.

    A search takes a second and more, and what most tests look at comes after it.
    """

    def call(name: str, make: Callable[[], object]) -> None:
        kept, here = kept_states / name, ring.parent
        if kept.exists():
            shutil.copytree(kept, here, dirs_exist_ok=True)
            return
        make()
        kept.mkdir()
        for path in here.glob("store.sqlite*"):
            shutil.copy2(path, kept)
        if (here / "state").exists():
            shutil.copytree(here / "state", kept / "state")

    return call

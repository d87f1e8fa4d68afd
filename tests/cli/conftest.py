"""Fixtures that run ``fmha`` in this process without the user's own configuration."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.cli.app import run
from fmha_cli.discovery import entry_points
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
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


@pytest.fixture
def small_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with one kernel: commands that read every entry would read all that the tests of a run have compiled."""
    kernel = null_kernel(DType.FP16, Family.FWD).digest
    monkeypatch.setenv("FMHA_CACHE_DIR", str(home / "cache"))
    assert run(("build", "--arch", "null", "--filter", f"digest:{kernel}", "-q"), os.environ) == 0


LARGE = ("example", "ggml", "jax", "mlx", "onnxruntime", "openvino", "torch")
"""Plugins whose backends run here, which ``fmha doctor`` therefore judges: seconds of imports for each command."""

HIDDEN = tuple(f"fmha_{name}-" for name in LARGE)
"""How the names of their metadata folders begin."""


@pytest.fixture
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide plugins that a test of ``fmha doctor`` is not about; the cpu and the null backend are still judged."""
    real = entry_points.declaring

    def some(folders: Iterable[str]) -> list[Path]:
        return [path for path in real(folders) or () if not path.name.startswith(HIDDEN)]

    monkeypatch.setattr(entry_points, "declaring", some)


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

"""A worker whose loader finds the stand-in driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.run.supervisor import Supervisor


@pytest.fixture
def played(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Place the stand-in where a worker's loader finds it; returns the monkeypatch for further settings."""
    pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
    from fmha_nvptx_emu.building import build_recorder
    from fmha_nvptx_emu.recording import LONG_NS, VARIABLE, settings_text

    standin = build_recorder(BuildContext(cache_root=shared_cache, jobs=3))
    (tmp_path / LIBRARY).symlink_to(standin.path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, settings_text(kernel_ns=LONG_NS))
    return monkeypatch


@pytest.fixture
def supervisor(played: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    with Supervisor() as one:
        yield one

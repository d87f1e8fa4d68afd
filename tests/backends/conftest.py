"""A worker whose loader finds the stand-in driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cuda_standin.building import build_standin
from cuda_standin.recording import LONG_NS, VARIABLE, settings_text

from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.execution.supervisor import Supervisor


@pytest.fixture
def played(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Place the stand-in where a worker's loader finds it; returns the monkeypatch for further settings."""
    standin = build_standin(BuildContext(cache_root=shared_cache))
    (tmp_path / LIBRARY).symlink_to(standin.path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, settings_text(kernel_ns=LONG_NS))
    return monkeypatch


@pytest.fixture
def supervisor(played: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    with Supervisor() as one:
        yield one

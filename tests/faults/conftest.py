"""Fixtures of the fault tests: one supervisor for many rows, the C kernels, compiled once, and ``fmha`` in this process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmha_cli.domain.plan import Artifact
from fmha_cli.run.supervisor import Supervisor
from tests.cli.conftest import fmha, home
from tests.support.fakes.c_backend import compile_kernels

__all__ = ["fmha", "home"]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The library of the C kernels."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    return compile_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as one:
        yield one


@pytest.fixture(scope="session")
def any_supervisor() -> Iterator[Supervisor]:
    """A shared supervisor, for tests that do not depend on what its worker ran before."""
    with Supervisor() as one:
        yield one


@pytest.fixture
def cache(shared_cache: Path) -> Path:
    return shared_cache

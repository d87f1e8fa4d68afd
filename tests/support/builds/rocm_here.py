"""The HIP compiler of this machine, for tests that need a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.notice import Notice
from fmha_cli.toolchain.rocm.candidates import RocmToolchain
from fmha_cli.toolchain.rocm.toolchain import find_rocm


def say_nothing(notice: Notice) -> None:
    """A listener that ignores notices."""


def toolchain_here(root: Path, arch: str | None = None) -> RocmToolchain:
    """A working compiler; skips the test without one, or without one for the architecture."""
    try:
        found = find_rocm(root, parts=rocm_supply(root, offline=False, notify=say_nothing), notify=say_nothing)
    except EnvironmentProblem as error:
        if error.code not in ("B031", "S102"):
            raise
        pytest.skip(f"{error.what}: {error.why}")
    if arch is not None and arch not in found.archs:
        pytest.skip(f"{found.version} does not know {arch}")
    return found

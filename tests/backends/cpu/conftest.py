"""Compiled kernels for the tests, built through the run's shared cache."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import pytest
from cpu_cases import Load, kernel_of
from numerics.faults import Fault
from planted_cpu import planted

from fmha_cli.backends.cpu import backend, building
from fmha_cli.domain.protocols import BuildContext


@pytest.fixture(scope="session")
def load(shared_cache: Path) -> Load:
    """``load(arch, dtype, kind, fault=None)``: the library; skips the test if this machine cannot run it."""
    accepted = backend.probe().devices[0].archs
    loaded: dict[tuple[object, ...], ctypes.CDLL] = {}

    def get(arch: str, dtype: str, kind: str, fault: Fault | None = None) -> ctypes.CDLL:
        if arch not in accepted:
            pytest.skip(f"this machine does not run {arch} kernels")
        key = (arch, dtype, kind, fault)
        if key not in loaded:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(building, "emit", partial(planted, fault=fault))
                artifact = building.build_cpu(kernel_of(arch, dtype, kind), BuildContext(cache_root=shared_cache))
            loaded[key] = ctypes.CDLL(str(artifact.path))
        return loaded[key]

    return get

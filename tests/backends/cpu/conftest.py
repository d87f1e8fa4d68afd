"""Compiled kernels for the tests, built through the run's shared cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from numerics.faults import Fault
from planted_cpu import planted

from fmha_cli.backends.cpu import backend, building
from fmha_cli.backends.cpu.kernels import cpu_kernels
from fmha_cli.codegen.cpu.algorithm import Kind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.protocols import BuildContext

Load = Callable[..., ctypes.CDLL]


def kernel_of(arch: str, dtype: str, kind: str) -> KernelSpec:
    """The kernel of an architecture, dtype and kind."""
    found = [k for k in cpu_kernels(load_arch(arch)) if k.signature.dtype is DType(dtype)]
    return next(k for k in found if getattr(k.algorithm, "kind", None) is Kind(kind))


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

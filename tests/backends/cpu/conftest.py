"""Compiled kernels for the tests, built through the run's shared cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from cpu_cases import Load, kernel_of
from numerics.faults import BackwardFault, Fault, TileFault
from planted_cpu import CHOSEN, backward_faults, planted, planted_backward
from software_tiles import AMX, software, tiles_kernel

from fmha_cli.backends.cpu import backend, building
from fmha_cli.codegen.cpu.algorithm import Kind
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.protocols import BuildContext

Emit = Callable[[KernelSpec], str]


def built(kernel: KernelSpec, cache: Path, emit: Emit) -> ctypes.CDLL:
    """The library of a kernel whose text another function emits; skips the test if this machine cannot run it."""
    if kernel.arch not in backend.probe().devices[0].archs:
        pytest.skip(f"this machine does not run {kernel.arch} kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "emit", emit)
        return ctypes.CDLL(str(building.build_cpu(kernel, BuildContext(cache_root=cache)).path))


@pytest.fixture(scope="session")
def build_text(shared_cache: Path) -> Callable[[KernelSpec, Emit], ctypes.CDLL]:
    """``build_text(kernel, emit)``: the library of the text that ``emit`` makes of a kernel."""
    return lambda kernel, emit: built(kernel, shared_cache, emit)


@pytest.fixture(scope="session")
def load(shared_cache: Path) -> Load:
    """``load(arch, dtype, kind, fault=None)``: the library, with a fault planted at compile time.

    Without AMX here, the tiles of its kernels are software.
    """

    @cache
    def get(arch: str, dtype: str, kind: str, fault: Fault | None = None) -> ctypes.CDLL:
        kernel = kernel_of(arch, dtype, kind)
        if kernel.arch == AMX and AMX not in backend.probe().devices[0].archs:
            return built(
                tiles_kernel(kind=Kind(kind)), shared_cache, lambda kernel: software(kernel, planted(kernel, fault))
            )
        return built(kernel, shared_cache, partial(planted, fault=fault))

    return get


@pytest.fixture(scope="session")
def load_faulty(shared_cache: Path) -> Load:
    """``load_faulty(arch, dtype, fault)``: a backward kernel with short blocks of keys, in which the fault (or none) is on.

    Tiles are software where :func:`load` has software.
    """

    @cache
    def get(kernel: KernelSpec) -> ctypes.CDLL:
        if kernel.arch == AMX and AMX not in backend.probe().devices[0].archs:
            return built(tiles_kernel(kind=Kind.BACKWARD), shared_cache, lambda k: software(k, planted_backward(k)))
        return built(kernel, shared_cache, planted_backward)

    def chosen(arch: str, dtype: str, fault: BackwardFault | TileFault | None) -> ctypes.CDLL:
        kernel = kernel_of(arch, dtype, "backward")
        library = get(kernel)
        number = 0 if fault is None else backward_faults(kernel).index(fault) + 1
        ctypes.c_int.in_dll(library, CHOSEN).value = number
        return library

    return chosen

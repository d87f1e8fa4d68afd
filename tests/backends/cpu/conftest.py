"""Compiled kernels for the tests, built through the run's shared cache."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cpu import backend, building
from fmha_cli.backends.cpu.kernels import algorithm_of, others_from
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from tests.support.builds.planted_cpu import build_quickly, choose, switchable
from tests.support.fakes.software_tiles import AMX, WHOLE, software, tiles_kernel
from tests.support.generators.cpu.cases import BEST, Load, kernel_of
from tests.support.generators.cpu.tile_cases import breakable, chosen
from tests.support.models.faults import BackwardFault, CacheFault, Fault, TileFault

Emit = Callable[[KernelSpec], str]

HERE = Path(__file__).parent
OWN = {BEST, *others_from(load_arch(BEST))}
"""The architectures of the kernels that this machine chooses."""

CI_TYPE = dict(zip((arch for arch in WHOLE if arch not in OWN), cycle(("fp16", "bf16", "fp32")), strict=False))
"""The other architectures of this machine, and the one type that CI runs on each, because every pair is a compile. The slow suite runs all pairs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """README's command runs the kernels in fp32 that this machine chooses, and CI those of other types and architectures: each is a
    compile of a second. A test of these alone keeps one case."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        others = [case for case in cases if not is_plain(case)]
        kept = 1 if len(others) == len(cases) else 0
        for case in others[kept:]:
            case.add_marker(pytest.mark.slow)
            given = _given(case)
            dtype = given.get("dtype")
            if dtype is None or CI_TYPE.get(given.get("arch", BEST), dtype) == dtype:
                case.add_marker(pytest.mark.ci)


def is_plain(case: pytest.Item) -> bool:
    """Whether none of a case's parameters names another type or architecture."""
    given = _given(case)
    kernel = given.get("kernel")
    arch = kernel.arch if isinstance(kernel, KernelSpec) else given.get("arch", BEST)
    dtype = kernel.signature.dtype.value if isinstance(kernel, KernelSpec) else given.get("dtype", "fp32")
    return arch in OWN and dtype == "fp32"


def _given(case: pytest.Item) -> dict[str, Any]:
    return case.callspec.params if isinstance(case, pytest.Function) and hasattr(case, "callspec") else {}


def built(kernel: KernelSpec, cache: Path, text: Emit) -> ctypes.CDLL:
    """The library of a kernel whose text another function emits; skips the test if this machine cannot run it."""
    if kernel.arch not in backend.probe().devices[0].archs:
        pytest.skip(f"this machine does not run {kernel.arch} kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "emit", text)
        if text in (switchable, breakable):
            build_quickly(patch)
        return ctypes.CDLL(str(building.build_cpu(Stage(kernel), BuildContext(cache_root=cache)).path))


@pytest.fixture(scope="session")
def build_text(shared_cache: Path) -> Callable[[KernelSpec, Emit], ctypes.CDLL]:
    """``build_text(kernel, text)``: the library of what ``text`` makes of a kernel."""
    return lambda kernel, text: built(kernel, shared_cache, text)


@cache
def _library(kernel: KernelSpec, cache_root: Path, text: Emit) -> ctypes.CDLL:
    """The library of what ``text`` makes of a kernel. Without AMX here, the tiles of its kernels are software."""
    if kernel.arch == AMX and AMX not in backend.probe().devices[0].archs:
        host = tiles_kernel(kind=algorithm_of(kernel).kind)
        return built(host, cache_root, lambda other: software(other, text(other)))
    return built(kernel, cache_root, text)


@pytest.fixture(scope="session")
def load(shared_cache: Path) -> Load:
    """``load(arch, dtype, kind, fault=None)``: the library; with a fault, one of short blocks of keys in which it is on.

    That library has all faults, so the last call decides.
    """

    def get(arch: str, dtype: str, kind: str, fault: Fault | CacheFault | None = None) -> ctypes.CDLL:
        kernel = kernel_of(arch, dtype, kind)
        if fault is None:
            return _library(kernel, shared_cache, emit)
        return choose(_library(kernel, shared_cache, switchable), fault.name)

    return get


@pytest.fixture(scope="session")
def load_faulty(shared_cache: Path) -> Load:
    """``load_faulty(arch, dtype, fault)``: a backward kernel with short blocks of keys, in which the fault (or none) is on."""

    def get(arch: str, dtype: str, fault: BackwardFault | TileFault | None) -> ctypes.CDLL:
        library = _library(kernel_of(arch, dtype, "backward"), shared_cache, switchable)
        return choose(library, fault and fault.name)

    return get


@pytest.fixture(scope="session")
def breakable_tiles(build_text: Callable[[KernelSpec, Emit], ctypes.CDLL]) -> Callable[[str | None], ctypes.CDLL]:
    """``breakable_tiles(switch)``: the prefill kernel with software tiles, broken by a switch of :mod:`tests.support.generators.cpu.tile_cases` or not."""
    return lambda name: chosen(build_text(tiles_kernel(), breakable), name)

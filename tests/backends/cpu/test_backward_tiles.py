"""The backward kernel with matrix tiles: executed with software tiles, and by the tiles of the processor with the same bits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.backends.cpu.test_backward_faults import case_for
from tests.support.builds.planted_cpu import backward_faults
from tests.support.fakes.software_tiles import AMX, HOST, HOSTS, VECTORS, software, tiles_kernel
from tests.support.generators.cpu.backward_cases import (
    BackwardCase,
    backward_complaints,
    make_backward,
    random_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import Load, tile_faults
from tests.support.generators.cpu.tile_cases import UNCONFIGURED, chosen, faulty_tiles
from tests.support.models.faults import BackwardFault, TileFault

Software = Callable[..., ctypes.CDLL]
Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
COMMON, MANY = 8, 200
GRADIENTS = ("dq", "dk", "dv", "dbias")
KERNEL = tiles_kernel(HOST, LoopKind.BACKWARD)


@pytest.fixture(scope="session")
def tiles(build_text: Build) -> Software:
    """``tiles(host)``: the kernel with software tiles, by the flags of an architecture."""
    return cache(lambda host=HOST: build_text(tiles_kernel(host, LoopKind.BACKWARD), software))


@pytest.fixture(scope="session")
def faulty(build_text: Build) -> ctypes.CDLL:
    return build_text(KERNEL, lambda kernel: faulty_tiles(kernel, "launch_backward.h"))


def checked(library: ctypes.CDLL, case: BackwardCase) -> list[str]:
    run_backward(library, case)
    assert not tile_faults(library)
    return backward_complaints(case)


def seeded(seed: int) -> BackwardCase:
    rng = np.random.default_rng([seed, 16, 64])
    case = random_backward(rng, "bf16")
    make_backward(case, rng)
    return case


def check(library: ctypes.CDLL, seeds: range) -> None:
    for seed in seeds:
        case = seeded(seed)
        assert checked(library, case) == [], f"seed {seed}: {case}"


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "host", [pytest.param(h, marks=() if h == HOST else (pytest.mark.slow, pytest.mark.ci)) for h in HOSTS]
)
def test_sample(tiles: Software, host: str) -> None:
    check(tiles(host), range(COMMON))


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_many(tiles: Software, host: str) -> None:
    check(tiles(host), range(1000, 1000 + MANY))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("hdim", [1, 31, 32, 33, 64, 65])
def test_every_end_of_a_tile(tiles: Software, hdim: int) -> None:
    for hdim_v, keys, rows in ((1, 1, 1), (16, 31, 15), (17, 32, 16), (32, 33, 65), (33, 64, 257), (48, 97, 63)):
        case = BackwardCase(
            "bf16", hdim=hdim, hdim_v=hdim_v, q_len=(rows,), k_len=(keys,), capacity=keys, right=keys // 2
        )
        case.with_lse = hdim % 2 == 0
        make_backward(case, np.random.default_rng(hdim))
        assert checked(tiles(), case) == [], case


LONG = BackwardCase("bf16", q_len=(300,), k_len=(900,), capacity=900, hdim=40, hdim_v=24, right=0)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "change",
    [
        *({"left": 300, "right": 10}, {"left": 20, "right": -5, "sink": 3}, {"left": 100, "sink": 500, "heads": 4}),
        *({"left": 9, "sink": 790}, {"softcap": 5.0, "alibi": 1, "with_lse": False}),
        {"bias": (1, 1), "dbias": True, "heads": 4, "dropout": 0.3},
        {"bias": (1, 1), "bias_rows": False, "dbias": True, "heads": 4, "left": 100, "sink": 9},
    ],
    ids=str,
)
def test_many_blocks_of_keys(tiles: Software, change: dict[str, object]) -> None:
    case = replace(LONG, data={}, **change)
    make_backward(case, np.random.default_rng(5))
    assert checked(tiles(), case) == []


@pytest.mark.slow
@pytest.mark.ci
def test_same_bits_for_any_number_of_threads(tiles: Software) -> None:
    seen = set()
    case = BackwardCase("bf16", heads=4, q_len=(300,), k_len=(700,), capacity=700, right=50, bias=(1, 1), dbias=True)
    make_backward(case, np.random.default_rng(7))
    for threads in (1, 2, 7):
        for name in GRADIENTS:
            case.data[name][...] = np.nan
        run_backward(tiles(), replace(case, threads=threads))
        seen.add(b"".join(case.data[name].tobytes() for name in GRADIENTS))
    assert not tile_faults(tiles())
    assert backward_complaints(case) == []
    assert len(seen) == 1


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("fault", backward_faults(KERNEL))
def test_fault_shows(faulty: ctypes.CDLL, fault: BackwardFault | TileFault) -> None:
    found = []
    for planted in (None, fault):
        case = tile_case(fault) if isinstance(fault, TileFault) else case_for(fault, "bf16")
        found.append(checked(chosen(faulty, planted and planted.name), case))
    assert found[0] == []
    assert found[1] != []


def tile_case(fault: TileFault) -> BackwardCase:
    """What weights behind the last key add belongs to keys that another range begins with."""
    case = BackwardCase("bf16", heads=4, kv_heads=2, q_len=(40,), k_len=(150,), capacity=150, hdim=32, hdim_v=24)
    if fault is TileFault.TILE_TAIL:
        case = replace(case, left=20, right=0, sink=5, data={})
    make_backward(case, np.random.default_rng(11))
    return case


@pytest.mark.slow
@pytest.mark.ci
def test_tiles_that_nobody_configured_are_seen(faulty: ctypes.CDLL) -> None:
    case = BackwardCase("bf16")
    make_backward(case, np.random.default_rng(1))
    assert checked(chosen(faulty, None), case) == []
    with pytest.raises(AssertionError):
        checked(chosen(faulty, UNCONFIGURED), case)
    assert tile_faults(faulty) == 2


def test_software_tiles_execute_the_text_of_the_hardware() -> None:
    honest = emit(tiles_kernel(AMX, LoopKind.BACKWARD)).splitlines()[1:]
    ours = software(tiles_kernel(VECTORS, LoopKind.BACKWARD)).splitlines()[1:]
    changed = [(old, new) for old, new in zip(honest, ours, strict=True) if old != new]
    assert changed == [("#define TILES_SOFTWARE 0", "#define TILES_SOFTWARE 1")]


@pytest.mark.skipif(AMX not in backend.probe().devices[0].archs, reason="this machine has no AMX: NOT_RUN")
@pytest.mark.slow
@pytest.mark.parametrize("seeds", [pytest.param(range(12), marks=pytest.mark.ci), range(1000, 1200)], ids=len)
def test_the_processor_gives_the_bits_of_the_software(load: Load, tiles: Software, seeds: range) -> None:
    different = []
    for seed in seeds:
        bits = []
        for library in (load(AMX, "bf16", "backward"), tiles(VECTORS)):
            case = seeded(seed)
            assert checked(library, case) == [], f"seed {seed}"
            bits.append([case.data[name].tobytes() for name in GRADIENTS if name in case.data])
        different += [seed] if bits[0] != bits[1] else []
    assert different == []

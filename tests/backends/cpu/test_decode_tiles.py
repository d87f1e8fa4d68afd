"""The decode kernels with matrix tiles: executed with software tiles, and by the tiles of the processor with the same bits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import _with, planted
from tests.support.fakes.software_tiles import AMX, FAULTS, HOST, HOSTS, software, tiles_kernel
from tests.support.generators.cpu.cases import (
    FAULT_NEEDS,
    AttentionCase,
    Load,
    complaints,
    make_data,
    random_case,
    run,
    tile_faults,
)
from tests.support.generators.cpu.tile_cases import UNCONFIGURED, check_fault, chosen, faulty_tiles
from tests.support.models.faults import CacheFault, Fault, TileFault

Software = Callable[..., ctypes.CDLL]
Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
COMMON, MANY = 40, 400
KERNEL = tiles_kernel(HOST, LoopKind.DECODE)


@pytest.fixture(scope="session")
def tiles(build_text: Build) -> Software:
    """``tiles(host)``: the kernel with software tiles, by the flags of an architecture."""
    return cache(lambda host=HOST: build_text(tiles_kernel(host, LoopKind.DECODE), software))


@pytest.fixture(scope="session")
def faulty(build_text: Build) -> ctypes.CDLL:
    return build_text(KERNEL, lambda kernel: faulty_tiles(kernel, "attend_task.h"))


def checked(library: ctypes.CDLL, case: AttentionCase) -> list[str]:
    run(library, case)
    assert not tile_faults(library)
    return complaints(case)


def seeded(seed: int) -> AttentionCase:
    rng = np.random.default_rng([seed, 16, 48])
    case = random_case(rng, "bf16", few_rows=True)
    make_data(case, rng)
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
    check(tiles(host), range(COMMON if host == HOST else COMMON // 4))


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_many(tiles: Software, host: str) -> None:
    check(tiles(host), range(1000, 1000 + MANY))


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("hdim", [1, 31, 32, 33, 64, 65])
def test_every_end_of_a_tile(tiles: Software, hdim: int) -> None:
    for hdim_v, keys, rows in ((1, 1, 1), (16, 31, 15), (17, 32, 16), (32, 33, 17), (33, 64, 64), (48, 97, 63)):
        case = AttentionCase(
            "bf16", hdim=hdim, hdim_v=hdim_v, q_len=(rows,), k_len=(keys,), capacity=keys, right=keys // 2
        )
        make_data(case, np.random.default_rng(hdim))
        assert checked(tiles(), case) == [], case


LONG = AttentionCase("bf16", heads=6, kv_heads=2, q_len=(7,), k_len=(1200,), capacity=1200, hdim=40, hdim_v=72, right=0)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "change",
    [
        *({}, {"left": 300, "right": 10}, {"left": 300, "sink": 500}, {"softcap": 5.0, "alibi": 1}, {"bias": (1, 6)}),
        *({"page": 16}, {"page": 7, "left": 100, "sink": 33}, {"page": 64, "dropout": 0.2}, {"splits": 3}),
        {"heads": 32, "kv_heads": 1, "q_len": (4,), "bshd": True, "hdim": 576, "hdim_v": 512, "v_in_k": True},
    ],
    ids=str,
)
def test_many_blocks_of_keys(tiles: Software, change: dict[str, object]) -> None:
    case = replace(LONG, data={}, **change)
    make_data(case, np.random.default_rng(5))
    assert checked(tiles(), case) == []


@pytest.mark.slow
@pytest.mark.ci
def test_same_bits_for_any_number_of_threads_and_any_pages(tiles: Software) -> None:
    """With one split: the bits depend on where keys are split."""
    seen = set()
    for threads, page in ((1, 0), (2, 0), (5, 0), (2, 16), (2, 7), (2, 300)):
        case = AttentionCase(
            "bf16", heads=4, q_len=(9,) * 3, k_len=(300,) * 3, capacity=300, threads=threads, page=page, splits=1
        )
        make_data(case, np.random.default_rng(7))
        assert checked(tiles(), case) == []
        seen.add(case.data["o"].tobytes())
    assert len(seen) == 1


BASE = AttentionCase("bf16", heads=4, kv_heads=2, q_len=(9,), k_len=(150,), capacity=150, hdim=40, hdim_v=40)
NEEDS: dict[object, dict[str, object]] = {**FAULT_NEEDS, TileFault.TILE_TAIL: {"k_len": (144,), "capacity": 144}}
"""The last of the short blocks, 32 keys, has 16: half of a tile of weights is behind them. With fewer, infinite scores of hidden keys
would be there, and the row would be computed again."""


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_shows(faulty: ctypes.CDLL, fault: Fault | TileFault) -> None:
    check_fault(faulty, fault, BASE, NEEDS)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("fault", [CacheFault.STALE_PAGE, CacheFault.PAGE_TABLE_END])
def test_a_wrong_page_shows(build_text: Build, fault: CacheFault) -> None:
    library = build_text(KERNEL, lambda kernel: software(kernel, planted(kernel, fault)))
    case = replace(BASE, page=16, k_len=(150,), data={})
    make_data(case, np.random.default_rng(11))
    run(library, case)
    assert complaints(case) != []


@pytest.mark.slow
@pytest.mark.ci
def test_tiles_that_nobody_configured_are_seen(faulty: ctypes.CDLL) -> None:
    case = replace(BASE, data={})
    make_data(case, np.random.default_rng(1))
    run(chosen(faulty, None), case)
    with pytest.raises(AssertionError):
        run(chosen(faulty, UNCONFIGURED), case)
    assert tile_faults(faulty) == 2


@pytest.mark.slow
@pytest.mark.ci
def test_products_that_keep_tiles_awake_change_no_bit(build_text: Build, tiles: Software) -> None:
    quiet = build_text(KERNEL, lambda kernel: _with(software(kernel), {"{ tile_dot(0, 4, 5); }": "{}"}))
    seen = []
    for library in (tiles(), quiet):
        case = replace(LONG, data={})
        make_data(case, np.random.default_rng(3))
        run(library, case)
        seen.append(case.data["o"].tobytes() + case.data["lse"].tobytes())
    assert seen[0] == seen[1]


@pytest.mark.slow
@pytest.mark.ci
def test_the_processors_tiles_leave_the_bits_of_software_tiles(tiles: Software, load: Load) -> None:
    if AMX not in backend.probe().devices[0].archs:
        pytest.skip("this processor has no matrix tiles")
    for seed in range(COMMON // 4):
        results = []
        for library in (load(AMX, "bf16", "decode"), tiles()):
            case = seeded(seed)
            run(library, case)
            results.append(case.data["o_buffer"].tobytes())
        assert results[0] == results[1], f"seed {seed}"

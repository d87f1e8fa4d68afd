"""Kernels with matrix tiles, executed with software tiles: the tiles themselves, results, every planted fault."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.codegen.abi import ENTRY
from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import planted
from tests.support.fakes.software_tiles import AMX, ANYWHERE, FAULTS, HOST, HOSTS, software, tiles_kernel
from tests.support.generators.cpu.cases import AttentionCase, complaints, make_data, random_case, run, tile_faults
from tests.support.generators.cpu.tile_cases import (
    BASE,
    NEAR_FLOATS,
    UNCONFIGURED,
    UNSCALED,
    check_fault,
    chosen,
    faulty_tiles,
)
from tests.support.models.faults import CacheFault, Fault, TileFault

Software = Callable[..., ctypes.CDLL]
Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
Breakable = Callable[[str | None], ctypes.CDLL]
COMMON, MANY = 40, 400


@pytest.fixture(scope="session")
def tiles(build_text: Build) -> Software:
    """``tiles(host)``: the kernel with software tiles, by the flags of an architecture."""
    return cache(lambda host=HOST: build_text(tiles_kernel(host), software))


@pytest.fixture(scope="session")
def faulty(build_text: Build) -> ctypes.CDLL:
    return build_text(tiles_kernel(), lambda kernel: faulty_tiles(kernel, "launch_prefill.h"))


def check(library: ctypes.CDLL, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 16, 32])
        case = random_case(rng, "bf16", few_rows=False)
        make_data(case, rng)
        run(library, case)
        assert complaints(case) == [], f"seed {seed}: {case}"


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


LONG = AttentionCase("bf16", q_len=(64,), k_len=(1200,), capacity=1200, hdim=40, hdim_v=72, right=0)


@pytest.mark.parametrize(
    "change",
    [
        *({}, {"left": 300, "right": 10}, {"left": 300, "sink": 500}, {"softcap": 5.0, "alibi": 1}, {"bias": (1, 2)}),
        *({"page": 16}, {"page": 7, "left": 100, "sink": 33}, {"page": 64, "dropout": 0.2}),
    ],
    ids=str,
)
def test_many_blocks_of_keys(tiles: Software, change: dict[str, object]) -> None:
    case = replace(LONG, data={}, **change)
    make_data(case, np.random.default_rng(5))
    run(tiles(), case)
    assert complaints(case) == []


def rising(powers: float, blocks: int = 5) -> AttentionCase:
    """Blocks of 192 keys. The largest score of a row rises by so many powers of 2 from one block to the next."""
    keys = 192 * blocks
    case = AttentionCase("bf16", heads=1, kv_heads=1, q_len=(64,), k_len=(keys,), capacity=keys, hdim=32, scale=1.0)
    make_data(case, np.random.default_rng(3))
    case.data["q"][..., 1:] = case.data["q"][..., 1:] * 0.125
    case.data["q"][..., 0] = 1
    case.data["k"][..., 0] = np.arange(keys) // 192 * (powers * np.log(2))
    return case


@pytest.mark.parametrize("powers", [-30.0, 1.0, 7.0, 9.0, 30.0])
def test_maxima_that_rise_a_little_and_a_lot(tiles: Software, powers: float) -> None:
    case = rising(powers)
    run(tiles(), case)
    assert complaints(case) == []


@pytest.mark.slow
@pytest.mark.ci
def test_sums_that_are_not_scaled_show(breakable_tiles: Breakable) -> None:
    """A maximum that rises by 30 powers is taken; one that rises by 5 once is not, and needs no factor."""
    seen = []
    for broken, case in ((None, rising(30.0)), (UNSCALED, rising(30.0)), (UNSCALED, rising(5.0, blocks=2))):
        run(breakable_tiles(broken), case)
        seen.append(complaints(case) != [])
    assert seen == [False, True, False]


@pytest.mark.parametrize("hdim", [1, 31, 32, 33, 64, 65])
def test_every_end_of_a_tile(tiles: Software, hdim: int) -> None:
    for hdim_v, keys, rows in ((1, 1, 1), (16, 31, 15), (17, 32, 16), (32, 33, 17), (33, 64, 64), (48, 97, 65)):
        case = AttentionCase(
            "bf16", hdim=hdim, hdim_v=hdim_v, q_len=(rows,), k_len=(keys,), capacity=keys, right=keys // 2
        )
        make_data(case, np.random.default_rng(hdim))
        run(tiles(), case)
        assert complaints(case) == [], case


@pytest.mark.slow
@pytest.mark.ci
def test_same_bits_for_any_number_of_threads_and_any_pages(tiles: Software) -> None:
    seen = set()
    for threads, page in ((1, 0), (2, 0), (5, 0), (2, 16), (2, 300)):
        case = AttentionCase(
            "bf16", heads=4, q_len=(70,) * 3, k_len=(300,) * 3, capacity=300, threads=threads, page=page
        )
        make_data(case, np.random.default_rng(7))
        run(tiles(), case)
        seen.add(case.data["o"].tobytes())
    assert len(seen) == 1


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_shows(faulty: ctypes.CDLL, fault: Fault | TileFault) -> None:
    check_fault(faulty, fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [CacheFault.STALE_PAGE, CacheFault.PAGE_TABLE_END])
def test_a_wrong_page_shows(build_text: Build, fault: CacheFault) -> None:
    library = build_text(tiles_kernel(), lambda kernel: software(kernel, planted(kernel, fault)))
    case = replace(BASE, page=16, k_len=(150,), data={})
    make_data(case, np.random.default_rng(11))
    run(library, case)
    assert complaints(case) != []


# The software tiles against their own model: the manual's operation, written again with numpy.


@pytest.fixture(scope="session")
def probe(breakable_tiles: Breakable) -> ctypes.CDLL:
    return breakable_tiles(None)


@pytest.mark.slow
@pytest.mark.ci
def test_exp2_of_weights_is_within_its_bound(probe: ctypes.CDLL) -> None:
    """Weights are rounded to bf16 (2e-3), but LSE, whose limit is 1e-5, is the logarithm of their fp32 sum."""
    x = np.concatenate([np.linspace(-126, 0, 1_000_000), np.linspace(-1, 8.25, 500_000)]).astype(np.float32)
    ends = np.array([0, -np.inf, -1e30, -300, 1, -1, 8, np.nan], np.float32)
    seen = []
    for given in (x, np.concatenate([ends, ends])):
        y = np.empty_like(given)
        probe.probe_exp2(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(len(y)))
        seen.append(y)
    assert np.abs(seen[0] / np.exp2(x.astype(np.float64)) - 1).max() <= 3.5e-6
    assert seen[1][:7].tolist() == [1, 0, 0, 0, 2, 0.5, 256]
    assert np.isnan(seen[1][7])


def configuration(rows: tuple[int, ...], row_bytes: tuple[int, ...], palette: int = 1) -> npt.NDArray[np.uint8]:
    """The operand of LDTILECFG."""
    out = np.zeros(64, np.uint8)
    out[0] = palette
    out[16 : 16 + 2 * len(row_bytes)] = np.array(row_bytes, "<u2").view(np.uint8)
    out[48 : 48 + len(rows)] = rows
    return out


def dot(probe: ctypes.CDLL, config: npt.NDArray[np.uint8], *tiles: npt.NDArray[np.uint8], left: int = 1) -> int:
    """Multiply; the sums are in the third tile. Returns what the processor would have refused."""
    ctypes.c_int.in_dll(probe, "fmha_tile_faults").value = 0
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (config, *tiles)]
    probe.probe(*pointers, left)
    return tile_faults(probe)


def flushed(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x).astype(np.float32)


def model(
    a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], c: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """a[m][2k + i] times b[k][2n + i]: one sum for each i, in the order of k, with one rounding for product and sum."""
    m, n, k = a.shape[0], b.shape[1] // 2, b.shape[0]
    a, b = flushed(a), flushed(b)
    sums = [np.zeros((m, n), np.float32) for _ in range(2)]
    for step in range(k):
        for i in range(2):
            # The product of two bf16 numbers is exact in float64, and so is nearly every sum of it and a float.
            exact = np.outer(a[:, 2 * step + i].astype(np.float64), b[step, i::2].astype(np.float64)) + sums[i]
            sums[i] = flushed(exact.astype(np.float32))
    return flushed(flushed(c) + flushed(sums[0] + sums[1]))


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("rows", "columns", "pairs"), [(16, 16, 16), (1, 1, 1), (7, 16, 5), (16, 3, 16), (13, 9, 1)])
def test_a_product_of_tiles(probe: ctypes.CDLL, rows: int, columns: int, pairs: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = (rng.standard_normal((16, 32)).astype(ml_dtypes.bfloat16) for _ in range(2))
    a[0, 0], b[0, 0] = 1e-39, 1e30  # a subnormal factor counts as zero
    a[0, 1] = 2.0**-100
    b[0, 1] = 2.0**-40  # a subnormal product becomes zero
    c = rng.standard_normal((16, 16)).astype(np.float32)
    c[0, 0] = 1e-40
    config = configuration((rows, rows, pairs), (4 * columns, 4 * pairs, 4 * columns))
    want = model(
        a[:rows, : 2 * pairs].astype(np.float32), b[:pairs, : 2 * columns].astype(np.float32), c[:rows, :columns]
    )
    assert dot(probe, config, a.view(np.uint8), b.view(np.uint8), c.view(np.uint8)) == 0
    assert np.array_equal(c[:rows, :columns], want)
    assert (c.view(np.uint8)[rows:] == 0xEE).all()
    assert (c.view(np.uint8)[:, 4 * columns :] == 0xEE).all()


@pytest.mark.parametrize(
    ("config", "left", "fault"),
    [
        (configuration((16, 16, 16), (64, 64, 64)), 1, 0),
        (configuration((16, 16, 16), (64, 64, 64), palette=2), 1, 1 | 2),
        (configuration((17, 16, 16), (64, 64, 64)), 1, 1 | 2),
        (configuration((16, 16, 16), (68, 64, 64)), 1, 1 | 2),
        (configuration((16, 0, 16), (64, 64, 64)), 1, 1 | 2),
        (configuration((16, 16, 16), (64, 64, 64), palette=0), 1, 2),
        (configuration((16, 0, 16), (64, 0, 64)), 1, 2),
        (configuration((15, 16, 16), (64, 64, 64)), 1, 4),
        (configuration((16, 16, 16), (60, 64, 64)), 1, 4),
        (configuration((16, 16, 15), (64, 64, 64)), 1, 4),
        (configuration((16, 16, 16), (64, 62, 64)), 1, 4),
        (configuration((16, 16, 16), (64, 64, 64)), 2, 4),
    ],
    ids=str,
)
def test_what_a_processor_refuses(probe: ctypes.CDLL, config: npt.NDArray[np.uint8], left: int, fault: int) -> None:
    tiles = [np.zeros(1024, np.uint8) for _ in range(3)]
    assert dot(probe, config, *tiles, left=left) == fault


@pytest.mark.slow
@pytest.mark.ci
def test_tiles_that_nobody_configured_are_seen(faulty: ctypes.CDLL) -> None:
    """A task that begins without the configuration is caught by every later test of results."""
    case = replace(BASE, data={})
    make_data(case, np.random.default_rng(1))
    run(chosen(faulty, None), case)
    with pytest.raises(AssertionError):
        run(chosen(faulty, UNCONFIGURED), case)
    assert tile_faults(faulty) == 2
    assert faulty[ENTRY] is not None


def test_both_texts_of_software_tiles_hold_the_products_of_the_hardware() -> None:
    """Tests execute what ``fmha build`` compiles: one line differs, and anywhere else the vectors too."""
    honest = planted(tiles_kernel(AMX), None).splitlines()[1:]
    ours = software(tiles_kernel(HOSTS[0])).splitlines()[1:]
    changed = [(old, new) for old, new in zip(honest, ours, strict=True) if old != new]
    assert changed == [("#define TILES_SOFTWARE 0", "#define TILES_SOFTWARE 1")]
    anywhere = software(tiles_kernel(ANYWHERE))
    assert all(source_text(name) in anywhere for name in ("operands_tiles.h", "tile_products.h", "prefill.h"))


def test_machines_without_tiles_refuse_the_architecture() -> None:
    needs = set(load_arch(AMX).fact("cpu_flags"))
    assert {"amx_tile", "amx_bf16"} == needs - set(load_arch(HOSTS[0]).fact("cpu_flags"))
    assert backend.archs()[0] == AMX


def test_copies_of_v_in_rounds_give_the_same_bits(tiles: Software, breakable_tiles: Breakable) -> None:
    """A round's copies are few enough for a thread's cache; here each round has one key/value head."""
    short = breakable_tiles(NEAR_FLOATS)
    found = []
    for library in (tiles(), short):
        case = AttentionCase("bf16", heads=6, kv_heads=3, q_len=(70, 40), k_len=(300, 129), packed=True)
        make_data(case, np.random.default_rng(3))
        run(library, case)
        assert complaints(case) == []
        found.append(case.data["o"].tobytes())
    assert found[0] == found[1]

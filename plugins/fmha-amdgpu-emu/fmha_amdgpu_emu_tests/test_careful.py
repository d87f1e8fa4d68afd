"""Random accesses of waves to LDS, and of registers that may hold nothing: a careful run finds the same (``launch`` compares)."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_amdgpu_emu_tests.support.harness import WAVE32
from fmha_amdgpu_emu_tests.support.machine import Program, kernel_text, link_assembly

WAVES = 3
TILE = 2048
"""Bytes of LDS."""
ACCESSES = {1: ("u8", "b8"), 2: ("u16", "b16"), 4: ("b32", "b32"), 8: ("b64", "b64"), 16: ("b128", "b128")}
"""The ends of the names of loads and stores by their bytes."""
SEEDS = {"gfx942": range(300), "gfx950": range(300, 450), "gfx1201": range(450, 600)}


def place(rng: random.Random, size: int) -> str:
    """v1: where each lane accesses ``size`` bytes: a place of its own, or one that lanes of other waves, or three of its neighbours, have too."""
    lane = rng.choice(("v0", "v0", "v2", "v2", "v3"))
    return f"v_mul_u32_u24 v1, {size}, {lane}\nv_add_u32 v1, {size * rng.randrange(8)}, v1\nv_and_b32 v1, {TILE - size}, v1"


def registers(first: int, size: int) -> str:
    """Those of an access from ``first`` on."""
    return f"v{first}" if size <= 4 else f"v[{first}:{first + size // 4 - 1}]"


def statements(rng: random.Random) -> Iterator[str]:
    """Stores, loads, atomics, barriers and waits, some of them for some lanes alone. v[8:11] hold nothing at first."""
    for number in range(rng.randrange(4, 24)):
        size = rng.choice(tuple(ACCESSES))
        load, store = ACCESSES[size]
        some = rng.random() < 0.3
        if some:
            yield f"s_bfm_b64 exec, {rng.randrange(1, 64)}, {rng.choice((0, 0, 0, 5))}"
        match rng.randrange(9):
            case 0 | 1 | 2:
                yield place(rng, size)
                yield f"ds_write_{store} v1, {registers(rng.choice((4, 4, 4, 8)), size)}"
            case 3 | 4:
                yield place(rng, size)
                yield f"ds_read_{load} {registers(8, size)}, v1"
            case 5:
                yield f"s_waitcnt lgkmcnt({rng.choice((0, 0, 1))})"
            case 6:
                yield "s_waitcnt lgkmcnt(0)\n" * rng.randrange(2) + "s_barrier"
            case 7:
                yield place(rng, 4)
                yield "ds_add_u32 v1, v4"
            case _:
                yield f"v_add_u32 v{rng.randrange(8, 12)}, {number}, v{rng.randrange(8, 12)}"
        if some:
            yield "s_mov_b64 exec, -1"


IN_GFX12: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\bds_write_", "ds_store_"), (r"\bds_read_", "ds_load_"), (r"\bv_add_u32\b", "v_add_nc_u32"),
    (r"s_bfm_b64 exec, (\d+)", lambda found: f"s_bfm_b32 exec_lo, {int(found[1]) // 2}"), (r"s_mov_b64 exec", "s_mov_b32 exec_lo"),
    (r"s_waitcnt lgkmcnt\((\d)\)", r"s_wait_dscnt \1"), (r"\bs_barrier$", "s_barrier_signal -1\ns_barrier_wait -1"),
    (r"v_and_b32 v2, 63", "v_and_b32 v2, 31"),
)  # fmt: skip
"""What CDNA's texts become in waves of 32 lanes."""


def program(arch: str, seed: int) -> str:
    """A kernel. v0 is the work-item's number, v2 the lane's, v3 that of the first of four lanes, v[4:7] are the values that are stored."""
    begin = "s_mov_b32 m0, -1\nv_and_b32 v0, 0x3ff, v0\nv_and_b32 v2, 63, v0\nv_and_b32 v3, 60, v2\n"
    values = "v_mov_b32 v4, v0\nv_mov_b32 v5, v2\nv_mov_b32 v6, 7\nv_mov_b32 v7, 7\n"
    text = begin + values + "\n".join(statements(random.Random(seed))) + "\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    for pattern, instead in IN_GFX12 if arch in WAVE32 else ():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return kernel_text(f"k{seed}", text, arch=arch, lds=TILE)


@pytest.mark.promise("A careful run of an emulator leaves the results, counts and findings of a fast one.")
@pytest.mark.parametrize("arch", SEEDS)
def test_random_programs_end_the_same(arch: str, tmp_path: Path) -> None:
    seeds = SEEDS[arch]
    kinds, lanes = Counter[str](), 32 if arch in WAVE32 else 64
    code = Program(link_assembly(arch, "".join(program(arch, seed) for seed in seeds), tmp_path))
    for seed in seeds:
        seen = code.launch(f"k{seed}", (1, 1, 1), (lanes * WAVES, 1, 1), np.zeros(1, np.uint32), seed=seed)
        kinds.update({finding["kind"] for finding in seen["findings"]})
    code.close()
    assert kinds.keys() == {"lds-race", "missing-wait", "uninitialised-lds", "uninitialised-register"}
    assert min(kinds.values()) >= 10, kinds

"""The state in which a kernel starts: ids, hidden arguments, dispatch packet, LDS, scratch, code addresses, MODE."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS
from fmha_amdgpu_emu_tests.support.machine import Program, Refused, compile_hip, device, kernel_text, link_assembly

SOURCE = """
struct Hidden { u32 bx, by, bz; u16 gx, gy, gz, rx, ry, rz; };
KERNEL void ids(u32* out) {
  const Hidden* h = (const Hidden*)__builtin_amdgcn_implicitarg_ptr();
  u32 item = TX + h->gx * (TY + h->gy * TZ), group = BX + (h->bx + !!h->rx) * (BY + (h->by + !!h->ry) * BZ);
  u32* o = out + 16 * (group * h->gx * h->gy * h->gz + item);
  o[0] = TX; o[1] = TY; o[2] = TZ; o[3] = BX; o[4] = BY; o[5] = BZ;
  o[6] = h->bx; o[7] = h->by; o[8] = h->bz; o[9] = h->gx; o[10] = h->gy; o[11] = h->gz;
  o[12] = h->rx; o[13] = h->ry; o[14] = h->rz; o[15] = 1;
}
KERNEL void packet(u32* out) {
  const u32* p = (const u32*)__builtin_amdgcn_dispatch_ptr();
  if (TX < 16) out[TX] = p[TX];
}
KERNEL void spill(u32* out, u32 n) {
  u32 a[64];
  for (u32 k = 0; k < 64; ++k) a[k] = k * n + TX;
  u32 s = 0;
  for (u32 k = 0; k < n; ++k) s += a[(k * 7 + TX) & 63];
  out[TX + 256 * BX] = s;
}
DEVICE __attribute__((noinline)) void through_pointer(u32* p, u32 x) { *p = *p * 3 + x; }
KERNEL void pointers(u32* out, u32 n) {
  u32 mine[4] = {TX, TX + 1, TX + 2, TX + 3};
  through_pointer(n > 9 ? out : &mine[n & 3], TX);
  out[TX] = mine[n & 3];
}
extern LDS u32 dynamic_lds[];
KERNEL void dynamic(u32* out, u32 n) {
  LDS static u32 fixed[4];
  if (TX < 4) fixed[TX] = 1000 * TX;
  dynamic_lds[TX] = TX * 3;
  SYNC;
  out[TX] = dynamic_lds[n - 1 - TX] + fixed[TX & 3];
}
DEVICE u32 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
DEVICE u32* pointer = table + 3;
__attribute__((constant)) u32 constants[4] = {10, 20, 30, 40};
KERNEL void data(u32* out) { out[TX] = pointer[TX & 3] + constants[TX & 3]; table[0] = 77; }
DEVICE __attribute__((noinline)) u32 twice(u32 x) { return x * 2 + 1; }
DEVICE __attribute__((noinline)) u32 thrice(u32 x) { return x * 3 + 1; }
typedef u32 (*F)(u32);
DEVICE F functions[2] = {twice, thrice};
KERNEL void calls(u32* out, u32 which) { out[TX] = functions[which](TX) + twice(7); }
KERNEL void hostcall(u32* out) {
  const u64* hidden = (const u64*)__builtin_amdgcn_implicitarg_ptr();
  out[TX] = *(const u32*)hidden[10];
}
KERNEL __attribute__((amdgpu_flat_work_group_size(1, 64))) void small(u32* out) { out[TX] = 1; }
KERNEL void preloaded(u32* out, u32 a, u32 b, u32* other) { out[TX] = a + 10 * b + other[0]; }
"""

IN_SCRATCH = ("-mllvm", "-disable-promote-alloca-to-vector", "-mllvm", "-disable-promote-alloca-to-lds")


@cache
def program(arch: str, flags: tuple[str, ...] = ()) -> Program:
    """The kernels above, compiled and loaded once."""
    with TemporaryDirectory() as folder:
        return Program(compile_hip(arch, SOURCE, Path(folder), *IN_SCRATCH, *flags))


def expected_ids(grid: tuple[int, int, int], block: tuple[int, int, int], items: tuple[int, int, int]) -> np.ndarray:
    """(groups * work-items, 16): one row each, all zero if the work-item does not exist."""
    full = [a // b for a, b in zip(items, block, strict=True)]
    rest = [a % b for a, b in zip(items, block, strict=True)]
    out = np.zeros((int(np.prod(grid)) * int(np.prod(block)), 16), np.uint32)
    row = 0
    for gz, gy, gx in np.ndindex(grid[2], grid[1], grid[0]):
        for z, y, x in np.ndindex(block[2], block[1], block[0]):
            there = all(g * b + t < n for g, b, t, n in zip((gx, gy, gz), block, (x, y, z), items, strict=True))
            if there:
                out[row] = [x, y, z, gx, gy, gz, *full, *block, *rest, 1]
            row += 1
    return out


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("grid", "block"),
    [((3, 2, 2), (5, 3, 7)), ((7, 1, 1), (64, 1, 1)), ((1, 1, 3), (33, 2, 1)), ((2, 1, 1), (256, 1, 1))],
)
def test_ids_and_hidden_arguments(arch: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    rows = int(np.prod(grid) * np.prod(block))
    with device(np.zeros((rows, 16), np.uint32)) as out:
        seen = program(arch).launch("ids", grid, block, out)
    items = (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])
    np.testing.assert_array_equal(out, expected_ids(grid, block, items))
    assert [f for f in seen["findings"] if f["kind"] == "out-of-bounds"] == []


@pytest.mark.parametrize("arch", ARCHS)
def test_last_workgroup_may_be_partial(arch: str) -> None:
    """If the blocks do not divide the grid, the last group has fewer waves and lanes, and correct remainders."""
    grid, block, items = (3, 1, 1), (96, 1, 1), (230, 1, 1)
    with device(np.zeros((288, 16), np.uint32)) as out:
        program(arch).launch("ids", grid, block, out, items=items)
    np.testing.assert_array_equal(out, expected_ids(grid, block, items))


@pytest.mark.parametrize("arch", ARCHS)
def test_dispatch_packet(arch: str) -> None:
    with device(np.zeros(16, np.uint32)) as out:
        program(arch).launch("packet", (4, 3, 1), (32, 2, 1), out)
    header, sizes, depth, *grid = (int(x) for x in out[:6])
    assert header & 0xFF == 2
    assert header >> 16 == 2
    assert (sizes & 0xFFFF, sizes >> 16, depth & 0xFFFF) == (32, 2, 1)
    assert grid == [128, 6, 1]
    assert int(out[8]) | int(out[9]) << 32 == program(arch).symbol("packet.kd")


@pytest.mark.parametrize("arch", ARCHS)
def test_scratch(arch: str) -> None:
    """Private arrays, through scratch or buffer instructions, are separate for each lane of each wave."""
    t = np.arange(256)
    with device(np.zeros(512, np.uint32)) as out:
        seen = program(arch).launch("spill", (2, 1, 1), (256, 1, 1), out, 50)
    expected = sum(((k * 7 + t) & 63) * 50 + t for k in range(50))
    np.testing.assert_array_equal(out, np.tile(expected, 2))
    assert seen["executed"][0]["scratch_written_bytes"] > 0
    assert seen["executed"][0]["global_written_bytes"] == 2048


@pytest.mark.parametrize("arch", ARCHS)
def test_private_memory_by_generic_pointer(arch: str) -> None:
    """Flat accesses through the private aperture see what scratch instructions wrote, and vice versa."""
    t = np.arange(64)
    with device(np.zeros(64, np.uint32)) as out:
        program(arch).launch("pointers", (1, 1, 1), (64, 1, 1), out, 2)
    np.testing.assert_array_equal(out, (t + 2) * 3 + t)


@pytest.mark.parametrize("arch", ARCHS)
def test_dynamic_lds(arch: str) -> None:
    t = np.arange(256)
    with device(np.zeros(256, np.uint32)) as out:
        seen = program(arch).launch("dynamic", (1, 1, 1), (256, 1, 1), out, 256, lds=1024)
    np.testing.assert_array_equal(out, (255 - t) * 3 + 1000 * (t & 3))
    assert [f["kind"] for f in seen["findings"]] == []
    with device(np.zeros(256, np.uint32)) as out:
        seen = program(arch).launch("dynamic", (1, 1, 1), (256, 1, 1), out, 256, lds=1020)
    assert {f["kind"] for f in seen["findings"]} >= {"out-of-bounds"}


@pytest.mark.parametrize("arch", ARCHS)
def test_variables_constants_and_relocated_pointers(arch: str) -> None:
    t = np.arange(32)
    with device(np.zeros(32, np.uint32)) as out:
        program(arch).launch("data", (1, 1, 1), (32, 1, 1), out)
        np.testing.assert_array_equal(out, 4 + (t & 3) + 10 * ((t & 3) + 1))
    assert program(arch).symbol("table")
    assert not program(arch).symbol("no such name")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("which", [0, 1])
def test_calls_and_function_pointers(arch: str, which: int) -> None:
    t = np.arange(64)
    with device(np.zeros(64, np.uint32)) as out:
        program(arch).launch("calls", (1, 1, 1), (64, 1, 1), out, which)
    np.testing.assert_array_equal(out, t * (2 + which) + 1 + 15)


def test_device_printf_is_not_offered() -> None:
    """A kernel that reads the hostcall buffer is stopped with a message."""
    with device(np.ones(64, np.uint32)) as out, pytest.raises(Refused, match="hostcalls are not offered"):
        program("gfx942").launch("hostcall", (1, 1, 1), (64, 1, 1), out)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_preloaded_arguments(arch: str) -> None:
    """Arguments arrive both when they are preloaded into SGPRs and when the prologue loads them."""
    with device(np.zeros(64, np.uint32)) as out, device(np.array([5], np.uint32), "other") as other:
        preloading = program(arch, ("-mllvm", "-amdgpu-kernarg-preload-count=8"))
        preloading.launch("preloaded", (1, 1, 1), (64, 1, 1), out, 3, 4, other)
    assert (out == 3 + 40 + 5).all()


@pytest.mark.parametrize(
    ("grid", "block", "lds", "words"),
    [
        ((1, 1, 1), (65, 1, 1), 0, "65 work-items in a workgroup; the kernel allows 64"),
        ((0, 1, 1), (64, 1, 1), 0, "empty grid"),
        ((1, 1, 1), (64, 1, 1), 1 << 18, "bytes of LDS; the architecture has 65536"),
    ],
)
def test_impossible_launches_are_refused(grid: tuple[int, ...], block: tuple[int, ...], lds: int, words: str) -> None:
    with device(np.zeros(64, np.uint32)) as out, pytest.raises(Refused, match=words):
        program("gfx942").launch("small", grid, block, out, lds=lds)


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_and_exec_at_start(arch: str, tmp_path: Path) -> None:
    """MODE's rounding and denormal fields come from the descriptor, and EXEC from the number of work-items."""
    load, wait = (
        ("s_load_dwordx2", "s_waitcnt lgkmcnt(0)") if arch[3] == "9" else ("s_load_b64", "s_waitcnt lgkmcnt(0)")
    )
    if arch == "gfx1201":
        wait = "s_wait_kmcnt 0"
    word = "global_store_dword" if arch[3] == "9" else "global_store_b32"
    mode = "HW_REG_WAVE_MODE" if arch == "gfx1201" else "HW_REG_MODE"
    body = f"""
    {load} s[2:3], s[0:1], 0x0
    s_getreg_b32 s4, hwreg({mode}, 0, 8)
    s_setreg_imm32_b32 hwreg({mode}, 4, 2), 1
    s_getreg_b32 s5, hwreg({mode}, 4, 4)
    s_mov_b32 s6, exec_lo
    {wait}
    v_mov_b32 v1, 0
    v_mov_b32 v2, s4
    {word} v1, v2, s[2:3]
    v_mov_b32 v2, s5
    {word} v1, v2, s[2:3] offset:4
    v_mov_b32 v2, s6
    {word} v1, v2, s[2:3] offset:8
    s_endpgm
    """
    text = kernel_text("modes", body, arch=arch).replace(
        ".end_amdhsa_kernel", ".amdhsa_float_round_mode_32 3\n.amdhsa_float_denorm_mode_32 2\n.end_amdhsa_kernel"
    )
    loaded = Program(link_assembly(arch, text, tmp_path))
    with device(np.zeros(3, np.uint32)) as out:
        loaded.launch("modes", (1, 1, 1), (5, 1, 1), out)
    assert [int(x) for x in out] == [0xE3, 0xD, 0x1F]

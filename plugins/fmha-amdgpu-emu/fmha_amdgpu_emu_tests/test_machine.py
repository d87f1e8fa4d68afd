"""The scheduling of waves: control flow, whole and split barriers, seeds, threads, spinning, faults."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS
from fmha_amdgpu_emu_tests.support.machine import Program, Refused, compile_hip, device, kernel_text, link_assembly

SOURCE = """
KERNEL void collatz(u32* out, const u32* in) {
  u32 x = in[BX * 128 + TX], steps = 0;
  while (x != 1) {
    if (x & 1) x = 3 * x + 1; else x >>= 1;
    if (++steps == 500) break;
  }
  switch (steps & 3) { case 0: steps += 1000; break; case 1: steps += 2000; break; case 2: steps ^= 5; break; default: break; }
  out[BX * 128 + TX] = steps;
}
KERNEL void rotate(u32* out, u32 rounds) {
  LDS static u32 a[512], b[512];
  a[TX] = TX;
  SYNC;
  for (u32 k = 0; k < rounds; ++k) {
    b[(TX + 65) & 511] = a[TX] + 1;
    SYNC;
    a[TX] = b[TX];
    SYNC;
  }
  out[TX] = a[TX];
}
KERNEL void early(u32* out) {
  LDS static u32 a[256];
  a[TX] = TX;
  if (TX >= 128) return;
  SYNC;
  out[TX] = a[127 - TX];
}
KERNEL void last_writer(u32* out) { if ((TX & 63) == 0) { out[BX] = TX / 64; } }
KERNEL void phases(u32* out) {
  LDS static u32 who[1];
  for (u32 k = 0; k < 8; ++k) {
    if ((TX & 63) == 0) who[0] = TX / 64;
    SYNC;
    if (TX == 0) out[BX * 8 + k] = who[0];
    SYNC;
  }
}
KERNEL void grid_barrier(u32* out, u32* count, u32 groups) {
  if (TX == 0) {
    __hip_atomic_fetch_add(count, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
    while (__hip_atomic_load(count, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < groups) SLEEP;
  }
  SYNC;
  out[BX * 64 + TX] = count[0];
}
KERNEL void group_spin(u32* out, u32 setter) {
  LDS static u32 flag[1];
  if (TX == 0) flag[0] = 0;
  SYNC;
  if (TX / 64 == setter) __hip_atomic_store(flag, 5u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
  else while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) != 5);
  out[TX] = flag[0];
}
KERNEL void gives_up(u32* out) { out[0] = 5; __builtin_trap(); }
KERNEL void endless(u32* out) { for (;;) __hip_atomic_fetch_add(out, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
KERNEL void reads(u32* out, const u32* in) { out[TX] = in[TX]; }
"""


@cache
def program(arch: str, sleep: str = "__builtin_amdgcn_s_sleep(1)", flags: tuple[str, ...] = ()) -> Program:
    """The kernels above, compiled and loaded once."""
    with TemporaryDirectory() as folder:
        return Program(compile_hip(arch, f"#define SLEEP {sleep}\n{SOURCE}", Path(folder), *flags))


def assembled(arch: str, body: str, folder: Path, **sizes: int) -> Program:
    """One kernel ``k`` in assembly. LOAD, STORE and WAIT are spelled for the architecture."""
    cdna = arch.startswith("gfx9")
    body = body.replace("LOAD", "s_load_dwordx2" if cdna else "s_load_b64")
    body = body.replace("STORE", "global_store_dword" if cdna else "global_store_b32")
    body = body.replace("WAIT", "s_wait_kmcnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)")
    return Program(link_assembly(arch, kernel_text("k", body, arch=arch, **sizes), folder))


def kinds(seen: dict[str, Any]) -> set[str]:
    """The kinds of the findings."""
    return {f["kind"] for f in seen["findings"]}


def collatz(x: int) -> int:
    steps = 0
    while x != 1 and steps < 500:
        x, steps = (3 * x + 1) & 0xFFFFFFFF if x & 1 else x >> 1, steps + 1
    return (steps + 1000, steps + 2000, steps ^ 5, steps)[steps & 3]


@pytest.mark.parametrize("arch", ARCHS)
def test_divergent_loops_and_branches(arch: str) -> None:
    start = np.random.default_rng(1).integers(1, 5000, 384, dtype=np.uint32)
    with device(np.zeros(384, np.uint32)) as out, device(start, "in"):
        seen = program(arch).launch("collatz", (3, 1, 1), (128, 1, 1), out, start)
    assert [int(x) for x in out] == [collatz(int(x)) for x in start]
    assert kinds(seen) == set()


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_waves_of_64_lanes_on_rdna(arch: str) -> None:
    """The same code object, with the same names, in waves twice as wide."""
    start = np.random.default_rng(2).integers(1, 5000, 384, dtype=np.uint32)
    wide = program(arch, flags=("-mwavefrontsize64",))
    with device(np.zeros(384, np.uint32)) as out, device(start, "in"):
        seen = wide.launch("collatz", (3, 1, 1), (128, 1, 1), out, start)
        narrow = program(arch).launch("collatz", (3, 1, 1), (128, 1, 1), out, start)
    assert [int(x) for x in out] == [collatz(int(x)) for x in start]
    assert seen["executed"][0]["instructions"] < narrow["executed"][0]["instructions"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_barriers_order_lds(arch: str, seed: int) -> None:
    """Eight or sixteen waves pass values through LDS over many phases, in any order of waves."""
    t = np.arange(512)
    with device(np.zeros(512, np.uint32)) as out:
        seen = program(arch).launch("rotate", (1, 1, 1), (512, 1, 1), out, 20, seed=seed)
    np.testing.assert_array_equal(out, (t - 65 * 20) % 512 + 20)
    assert kinds(seen) == set()
    waves = 512 // (32 if arch in ("gfx1100", "gfx1201") else 64)
    assert seen["executed"][0]["barriers"] == waves * 41


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("seed", [0, 3])
def test_ended_waves_are_not_waited_for(arch: str, seed: int) -> None:
    """Ended waves count as arrived, and the barrier that they missed is a finding."""
    with device(np.zeros(128, np.uint32)) as out:
        seen = program(arch).launch("early", (1, 1, 1), (256, 1, 1), out, seed=seed)
    np.testing.assert_array_equal(out, 127 - np.arange(128))
    assert kinds(seen) == {"divergent-barrier"}
    assert "had ended" in seen["findings"][0]["text"]


def test_the_order_of_waves_follows_the_seed() -> None:
    """Without a seed, waves run in order. With one, the order is reproducible and differs from phase to phase."""

    def run(kernel: str, seed: int) -> tuple[int, ...]:
        with device(np.zeros(32, np.uint32)) as out:
            program("gfx942").launch(kernel, (4, 1, 1), (512, 1, 1), out, seed=seed)
        return tuple(int(x) for x in out[: 4 if kernel == "last_writer" else 32])

    assert run("last_writer", 0) == (7, 7, 7, 7)
    assert run("phases", 0) == (7,) * 32
    outcomes = {run("last_writer", seed) for seed in range(1, 9)}
    assert len(outcomes) > 4
    assert run("phases", 5) == run("phases", 5)
    assert len(set(run("phases", 5)[:8])) > 2


def test_short_turns_keep_waves_in_step(tmp_path: Path) -> None:
    """Each wave reads the next one's word 16 instructions after its own write; in step, all words are written."""
    body = """
    LOAD s[2:3], s[0:1], 0x0
    v_lshlrev_b32 v2, 2, v0
    v_add_u32 v3, 256, v2
    v_and_b32 v3, 0x3ff, v3
    ds_write_b32 v2, v0
    s_waitcnt lgkmcnt(0)
    .rept 16
    s_nop 0
    .endr
    ds_read_b32 v4, v3
    s_waitcnt lgkmcnt(0)
    STORE v2, v4, s[2:3]
    s_endpgm
    """
    loaded, found = assembled("gfx942", body, tmp_path, lds=1024), {}
    t = np.arange(256)
    for turn in (0, 1, 8, 100):
        with device(np.zeros(256, np.uint32)) as out:
            found[turn] = kinds(loaded.launch("k", (1, 1, 1), (256, 1, 1), out, turn=turn))
        in_step = np.array_equal(out, (t + 64) % 256)
        assert in_step == (turn in (1, 8))
        assert out[255] == 63
    assert found == {0: found[0], 1: {"lds-race"}, 8: {"lds-race"}, 100: found[0]}
    assert found[0] == {"lds-race", "uninitialised-lds"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sleep", ["__builtin_amdgcn_s_sleep(1)", ""])
def test_workgroups_that_wait_for_later_ones(threads: int, sleep: str) -> None:
    """A barrier over the whole grid completes, with and without s_sleep in the waiting loop."""
    with device(np.zeros(12 * 64, np.uint32)) as out, device(np.zeros(1, np.uint32), "count") as count:
        program("gfx942", sleep).launch("grid_barrier", (12, 1, 1), (64, 1, 1), out, count, 12, threads=threads)
    assert (out == 12).all()


@pytest.mark.parametrize("setter", [0, 3])
def test_waves_that_spin_for_each_other(setter: int) -> None:
    """A loop without sleep that waits for another wave of the work-group ends, whichever runs first."""
    with device(np.zeros(256, np.uint32)) as out:
        program("gfx942").launch("group_spin", (1, 1, 1), (256, 1, 1), out, setter)
    assert (out == 5).all()


def test_threads_share_the_grid() -> None:
    start = np.random.default_rng(3).integers(1, 5000, 128 * 40, dtype=np.uint32)
    with device(np.zeros(start.size, np.uint32)) as out, device(start, "in"):
        one = program("gfx90a").launch("collatz", (40, 1, 1), (128, 1, 1), out, start)
        first = out.copy()
        out[:] = 0
        two = program("gfx90a").launch("collatz", (40, 1, 1), (128, 1, 1), out, start, threads=2)
    np.testing.assert_array_equal(out, first)
    assert one["executed"] == two["executed"]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_trap_stops_the_launch(arch: str) -> None:
    with (
        device(np.zeros(1, np.uint32)) as out,
        pytest.raises(Refused, match=r"s_trap at 0x[0-9a-f]+ in gives_up: .*gave up"),
    ):
        program(arch).launch("gives_up", (1, 1, 1), (64, 1, 1), out)
    assert out[0] == 5


def test_a_limit_of_instructions_ends_an_endless_loop() -> None:
    with (
        device(np.zeros(1, np.uint32)) as out,
        pytest.raises(Refused, match=r"in endless: .*5000 instructions, the limit"),
    ):
        program("gfx950").launch("endless", (1, 1, 1), (64, 1, 1), out, limit=5000)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("s_nop 0\ns_rfe_b64 s[2:3]\ns_endpgm", r"s_rfe_b64 at 0x[0-9a-f]+4 in k: .*not implemented"),
        ("s_mov_b32 s2, 1\n.long 0xbeffffff\ns_endpgm", r"\.long at 0x[0-9a-f]+ in k: "),
        ("s_mov_b64 s[2:3], 64\ns_setpc_b64 s[2:3]\ns_endpgm", r"s_setpc_b64 at .* outside the code"),
        ("s_branch 1000\ns_endpgm", r"s_branch at .*"),
        ("s_nop 0", r"in k: .*"),
        ("s_sethalt 1\ns_endpgm", r"s_sethalt at .*halts"),
        ("s_getreg_b32 s2, hwreg(HW_REG_IB_STS)\ns_endpgm", r"s_getreg_b32 at .*HW_REG_IB_STS is not implemented"),
    ],
)
def test_what_cannot_be_executed_stops_with_mnemonic_address_and_kernel(body: str, words: str, tmp_path: Path) -> None:
    loaded = assembled("gfx942", body, tmp_path)
    with pytest.raises(Refused, match=words):
        loaded.launch("k", (2, 1, 1), (64, 1, 1), limit=100000)
    assert loaded.observed()["fault"]


def test_what_is_never_reached_does_not_matter(tmp_path: Path) -> None:
    body = "s_branch over\ns_rfe_b64 s[2:3]\n.long 0xbeffffff\nover: s_endpgm"
    seen = assembled("gfx942", body, tmp_path).launch("k", (1, 1, 1), (64, 1, 1))
    assert seen["executed"][0]["instructions"] == 2


@pytest.mark.parametrize("arch", ARCHS)
def test_a_null_pointer_is_a_finding_and_reads_zero(arch: str) -> None:
    with device(np.ones(64, np.uint32)) as out:
        seen = program(arch).launch("reads", (1, 1, 1), (64, 1, 1), out, 0, 0)
    assert (out == 0).all()
    assert kinds(seen) == {"out-of-bounds"}


def test_split_barrier(tmp_path: Path) -> None:
    """gfx12: a wave may work between its signal and its wait; only one wave is the first to signal."""
    body = """
    LOAD s[2:3], s[0:1], 0x0
    v_lshrrev_b32 v1, 5, v0
    v_lshlrev_b32 v2, 2, v0
    v_readfirstlane_b32 s6, v1
    ds_store_b32 v2, v0
    s_wait_dscnt 0
    s_barrier_signal_isfirst -1
    s_cselect_b32 s5, 1, 0
    s_mul_i32 s7, s6, 1000
    s_barrier_wait -1
    v_sub_nc_u32 v3, 508, v2
    ds_load_b32 v4, v3
    s_mulk_i32 s5, 0x4e20
    s_wait_dscnt 0
    v_add_nc_u32 v4, s5, v4
    v_add_nc_u32 v4, s7, v4
    WAIT
    STORE v2, v4, s[2:3]
    s_endpgm
    """
    loaded = assembled("gfx1201", body, tmp_path, lds=512)
    t = np.arange(128)
    for seed in range(4):
        with device(np.zeros(128, np.uint32)) as out:
            seen = loaded.launch("k", (1, 1, 1), (128, 1, 1), out, seed=seed)
        rest = out - (127 - t) - 1000 * (t // 32)
        assert kinds(seen) == set()
        assert sorted(set(rest.reshape(4, 32)[:, 0].tolist())) == [0, 20000]
        assert (rest == 20000).sum() == 32


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("s_barrier_wait -1\ns_endpgm", "without having signalled"),
        (
            "s_cbranch_scc1 done\ns_barrier_signal -1\ns_barrier_wait -1\ns_barrier_wait -1\ndone: s_endpgm",
            "without having",
        ),
    ],
)
def test_waiting_without_a_signal_is_a_finding(body: str, words: str, tmp_path: Path) -> None:
    seen = assembled("gfx1201", body, tmp_path).launch("k", (1, 1, 1), (64, 1, 1))
    assert kinds(seen) == {"divergent-barrier"}
    assert words in seen["findings"][0]["text"]


@pytest.mark.parametrize("seed", range(3))
def test_signalling_twice_is_a_finding(seed: int, tmp_path: Path) -> None:
    """The wave continues as if it had waited, so the launch ends whichever wave is first."""
    body = "s_barrier_signal -1\ns_barrier_signal -1\ns_barrier_wait -1\ns_endpgm"
    seen = assembled("gfx1201", body, tmp_path).launch("k", (1, 1, 1), (96, 1, 1), seed=seed)
    (finding,) = seen["findings"]
    assert (finding["kind"], finding["instruction"]) == ("divergent-barrier", "s_barrier_signal -1")
    assert "signals the workgroup's barrier again" in finding["text"]
    assert finding["count"] == 3
    assert seen["executed"][0]["barriers"] == 6


def test_named_barriers_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"s_barrier_signal at .*named barriers are not implemented"):
        assembled("gfx1201", "s_barrier_signal m0\ns_endpgm", tmp_path).launch("k", (1, 1, 1), (32, 1, 1))


def test_reads_outstanding_at_a_barrier_are_races_when_launches_are_strict(tmp_path: Path) -> None:
    """Waves 0 and 1 write their words, read each other's, and write their own again after a bare barrier."""
    body = """
    v_lshlrev_b32 v1, 2, v0
    v_xor_b32 v2, 0x100, v1
    ds_write_b32 v1, v0
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v3, v2
    WAIT
    s_barrier
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    s_endpgm
    """
    for wait, strict, expected in (("", False, set()), ("", True, {"lds-race"}), ("s_waitcnt lgkmcnt(0)", True, set())):
        loaded = assembled("gfx942", body.replace("WAIT", wait), tmp_path, lds=512)
        assert kinds(loaded.launch("k", (1, 1, 1), (128, 1, 1), strict=strict)) == expected, (wait, strict)

"""What the emulator reports: every misuse planted in hand-written PTX, next to the same code done right."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module

TILE = ".shared .align 16 .b8 tile[1024];"
SHARED = "mov.u32 %r31, tile; shl.b32 %r30, %r0, 2; add.s32 %r31, %r31, %r30;"
"""%r31: the thread's own word of the tile."""
OUT = "mad.wide.u32 %rd3, %r0, 4, %rd0;"


def run(body: str, threads: int = 32, blocks: int = 1, words: int = 64, head: str = TILE, **options: int) -> Seen:
    out = np.zeros(words, np.uint32)
    return launch(module(body, head=head), out, block=(threads, 1, 1), grid=(blocks, 1, 1), **options)


RIGHT = {
    "global": OUT + "st.global.u32 [%rd3], %r0;",
    "written": "mov.u32 %r5, 1;" + OUT + "st.global.u32 [%rd3], %r5;",
    "barrier": SHARED + "st.shared.u32 [%r31], %r0; bar.sync 0; ld.shared.u32 %r5, [tile+64];" + OUT + "st.global.u32 [%rd3], %r5;",
    "cp.async": SHARED + OUT + "cp.async.ca.shared.global [%r31], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"
    "ld.shared.u32 %r5, [tile+64]; st.global.u32 [%rd3], %r5;",
    "undefined lanes that nothing uses": "setp.eq.u32 %p1, %r0, 400; selp.b32 %r6, %r5, %r0, %p1;" + OUT + "st.global.u32 [%rd3], %r6;",
    "a branch on nothing that decides nothing": "setp.eq.s32 %p1, %r5, 1; @%p1 bra L; mov.u32 %r6, 1; bra E; L: mov.u32 %r6, 2; E:" + OUT + "st.global.u32 [%rd3], %r0;",
    "a part beside one that was never written": "mov.b64 %rd5, {%r0, %r5}; mov.b64 {%r6, _}, %rd5;" + OUT + "st.global.u32 [%rd3], %r6;",
    "a half beside one that was never written": "cvt.u16.u32 %h1, %r0; mov.b32 %r5, {%h2, %h1}; mov.b32 {_, %h3}, %r5; cvt.u32.u16 %r6, %h3;" + OUT + "st.global.u32 [%rd3], %r6;",
    "bytes beside one that was never written": "prmt.b32 %r6, %r0, %r5, 0x3340; prmt.b32 %r6, %r6, %r0, 0x4020;" + OUT + "st.global.u32 [%rd3], %r6;",
    "a half of bytes": "prmt.b32 %r6, %r0, %r5, 0x5410; mov.b32 {%h1, _}, %r6; cvt.u32.u16 %r7, %h1;" + OUT + "st.global.u32 [%rd3], %r7;",
    "bytes of a half": "cvt.u16.u32 %h1, %r0; mov.b32 %r5, {%h2, %h1}; prmt.b32 %r6, %r5, 0, 0x3232;" + OUT + "st.global.u32 [%rd3], %r6;",
    "the same value by two warps": "st.shared.u32 [tile], 7;",
    "other bytes of a word": "mov.u32 %r31, tile; add.s32 %r31, %r31, %r0; cvt.u16.u32 %h1, %r0; st.shared.b8 [%r31], %h1;",
    "atomics of two warps": "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], 0; bar.sync 0; atom.shared.add.u32 %r5, [tile], 1;",
}  # fmt: skip


@pytest.mark.promise("An undefined value is found where it decides something, and nowhere else.")
@pytest.mark.parametrize("name", RIGHT)
def test_no_finding_where_nothing_is_wrong(name: str) -> None:
    for seed in range(3):
        seen = run(RIGHT[name], threads=64, seed=seed)
        assert (seen.fault, seen.findings) == (None, [])


PLANTED = {
    "behind an array": ("out-of-bounds", OUT + "st.global.u32 [%rd3+256], %r0;", "at the end of array 0"),
    "before an array": ("out-of-bounds", OUT + "ld.global.u32 %r5, [%rd3+-4];", "4 bytes before the start of array 0"),
    "half outside": ("out-of-bounds", "mad.wide.u32 %rd3, %r0, 16, %rd0; ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd3];", "lane 16"),
    "shared": ("out-of-bounds", SHARED + "st.shared.u32 [%r31+1000], %r0;", "of 1024 bytes of shared memory"),
    "local": ("out-of-bounds", ".local .align 4 .b8 l[8]; st.local.u32 [l+8], %r0;", "of 8 bytes of local memory"),
    "cp.async reads": ("out-of-bounds", "cp.async.ca.shared.global [tile], [%rd0+256], 4; cp.async.wait_all;", "array 0"),
    "global, odd": ("misaligned", "ld.global.u32 %r5, [%rd0+2];", "not a multiple of 4"),
    "vector, odd": ("misaligned", "ld.global.v2.u32 {%r5, %r6}, [%rd0+4];", "not a multiple of 8"),
    "shared, odd": ("misaligned", "ld.shared.u64 %rd5, [tile+4];", "not a multiple of 8"),
    "ldmatrix, odd": ("misaligned", SHARED + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r31];", "not a multiple of 16"),
    "address": ("uninitialised-register", "mad.wide.u32 %rd3, %r5, 0, %rd0; ld.global.u32 %r6, [%rd3];", "an address"),
    "data": ("uninitialised-register", OUT + "add.s32 %r6, %r5, 1; st.global.u32 [%rd3], %r6;", "stored"),
    "the part that was never written": ("uninitialised-register", "mov.b64 %rd5, {%r0, %r5}; mov.b64 {_, %r6}, %rd5;" + OUT + "st.global.u32 [%rd3], %r6;", "stored"),
    "the byte that was never written": ("uninitialised-register", "prmt.b32 %r6, %r0, %r5, 0x3340; prmt.b32 %r6, %r6, %r0, 0x4010;" + OUT + "st.global.u32 [%rd3], %r6;", "stored"),
    "a half with a byte that was never written": ("uninitialised-register", "prmt.b32 %r6, %r0, %r5, 0x5140; mov.b32 {%h1, _}, %r6; cvt.u32.u16 %r7, %h1;" + OUT + "st.global.u32 [%rd3], %r7;", "stored"),
    "bytes that nothing chooses": ("uninitialised-register", "prmt.b32 %r6, %r0, %r0, %r5;" + OUT + "st.global.u32 [%rd3], %r6;", "stored"),
    "a register with such a part": ("uninitialised-register", "mov.b64 %rd5, {%r0, %r5}; st.global.u64 [%rd0], %rd5;", "stored"),
    "a part, and then nothing in all of it": (
        "uninitialised-register",
        "mov.b64 %rd5, {%r0, %r5}; add.s64 %rd5, %rd6, %rd6; mov.b64 {%r6, _}, %rd5;" + OUT + "st.global.u32 [%rd3], %r6;",
        "stored",
    ),
    "a part, and then another part": (
        "uninitialised-register",
        "mov.b64 %rd5, {%r0, %r5}; mov.b64 %rd5, {%r5, %r0}; mov.b64 {%r6, _}, %rd5;" + OUT + "st.global.u32 [%rd3], %r6;",
        "stored",
    ),
    "branch back": ("uninitialised-register", "L: setp.eq.s32 %p1, %r5, 1; @%p1 bra L;", "a branch"),
    "branch around a store": ("uninitialised-register", OUT + "setp.eq.s32 %p1, %r5, 1; @%p1 bra L; st.global.u32 [%rd3], %r0; L:", "in a branch before"),
    "branch around a value": (
        "uninitialised-register",
        OUT + "mov.u32 %r6, 0; setp.eq.s32 %p1, %r5, 1; @%p1 bra L; mov.u32 %r6, 1; L: st.global.u32 [%rd3], %r6;",
        "data that is stored",
    ),
    "branch to one of two values": (
        "uninitialised-register",
        OUT + "setp.eq.s32 %p1, %r5, 1; @%p1 bra L; mov.u32 %r6, 1; bra E; L: mov.u32 %r6, 2; E: st.global.u32 [%rd3], %r6;",
        "data that is stored",
    ),
    "written on one of two ways": (
        "uninitialised-register",
        OUT + "setp.eq.u32 %p1, %r0, 3; @%p1 bra L; mov.u32 %r6, 1; L: add.s32 %r7, %r6, 1; st.global.u32 [%rd3], %r7;",
        "lane 3",
    ),
    "written under a guard": ("uninitialised-register", OUT + "setp.ne.u32 %p1, %r0, 3; @%p1 mov.u32 %r6, 1; add.s32 %r7, %r6, 1; st.global.u32 [%rd3], %r7;", "lane 3"),
    "written at the end of a loop that reads it": (
        "uninitialised-register",
        OUT + "mov.u32 %r7, 0; mov.u32 %r8, 0; L: add.s32 %r8, %r8, %r6; mov.u32 %r6, 1; add.s32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 2; @%p1 bra L; st.global.u32 [%rd3], %r8;",
        "stored",
    ),
    "never stored to shared, through registers that are always written": (
        "uninitialised-register",
        "ld.shared.u32 %r5, [tile]; add.s32 %r6, %r5, 1; mul.lo.s32 %r7, %r6, 3;" + OUT + "st.global.u32 [%rd3], %r7;",
        "stored",
    ),
    "guard of a store": ("uninitialised-register", OUT + "setp.eq.s32 %p1, %r5, 1; @%p1 st.global.u32 [%rd3], %r0;", "executed"),
    "never stored to shared": ("uninitialised-register", "ld.shared.u32 %r5, [tile];" + OUT + "st.global.u32 [%rd3], %r5;", "stored"),
    "never stored to local": ("uninitialised-register", ".local .align 4 .b8 l[8]; ld.local.u32 %r5, [l];" + OUT + "st.global.u32 [%rd3], %r5;", "stored"),
    "lane that does not take part": (
        "uninitialised-register",
        "setp.lt.u32 %p1, %r0, 16; @!%p1 bra L; shfl.sync.idx.b32 %r6, %r0, 20, 31, 65535;" + OUT + "st.global.u32 [%rd3], %r6; L:",
        "stored",
    ),
    "atomic on nothing": ("uninitialised-shared", "atom.shared.add.u32 %r5, [tile], 1;", "never written"),
    "no wait": ("missing-wait", SHARED + OUT + "cp.async.ca.shared.global [%r31], [%rd3], 4; cp.async.commit_group; ld.shared.u32 %r5, [%r31];", "outstanding"),
    "wait for too few": (
        "missing-wait",
        SHARED + OUT + "cp.async.ca.shared.global [%r31], [%rd3], 4; cp.async.commit_group;"
        "cp.async.ca.shared.global [%r31+256], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r5, [%r31+256];",
        "outstanding",
    ),
    "store over it": ("missing-wait", SHARED + OUT + "cp.async.ca.shared.global [%r31], [%rd3], 4; st.shared.u32 [%r31], %r0; cp.async.wait_all;", "writes"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misuse_is_named(name: str) -> None:
    kind, body, word = PLANTED[name]
    seen = run(body)
    assert seen.fault is None
    assert seen.kinds == [kind], seen.findings
    assert word in seen.findings[0]["text"]
    assert seen.findings[0]["instruction"].endswith(";")


RACES = {
    "read after write": SHARED + "st.shared.u32 [%r31], %r0; xor.b32 %r6, %r31, 128; ld.shared.u32 %r5, [%r6];",
    "write after read": "st.shared.u32 [tile+512], 0; bar.sync 0; ld.shared.u32 %r5, [tile+512]; setp.eq.u32 %p1, %r0, 33; @%p1 st.shared.u32 [tile+512], %r0;",
    "write after write": "st.shared.u32 [tile], %r0;",
    "asynchronous, no barrier after the wait": SHARED + OUT + "cp.async.ca.shared.global [%r31], [%rd3], 4; bar.sync 0; cp.async.wait_all;"
    "xor.b32 %r6, %r31, 128; ld.shared.u32 %r5, [%r6];",
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_warps_race_in_every_order(name: str) -> None:
    """The order decides at which instruction a race shows, not whether it does."""
    for seed in range(6):
        seen = run(RACES[name], threads=64, seed=seed)
        assert set(seen.kinds) <= {"shared-race", "missing-wait"}
        assert "shared-race" in seen.kinds or name.startswith("asynchronous"), seen.findings
        assert seen.findings


def test_a_barrier_that_lanes_leave_out() -> None:
    seen = run("setp.lt.u32 %p1, %r0, 7; @%p1 bar.sync 0;")
    assert seen.kinds == ["divergent-barrier"]
    seen = run("setp.lt.u32 %p1, %r0, 7; @%p1 bra L; bar.sync 0; bra E; L: bar.sync 0; E:")
    assert "divergent-barrier" in seen.kinds


def test_lanes_that_come_later_are_waited_for() -> None:
    """The lanes of a shuffle arrive from two branches."""
    body = "setp.lt.u32 %p1, %r0, 7; @%p1 bra L; mov.u32 %r5, 3; bra S; L: mov.u32 %r5, 4; S: shfl.sync.bfly.b32 %r6, %r5, 31, 31, -1;"
    out = np.zeros(64, np.uint32)
    seen = launch(module(body + OUT + "st.global.u32 [%rd3], %r6;"), out)
    assert seen.findings == []
    assert out[:32].tolist() == [3] * 25 + [4] * 7


def test_a_deadlock_says_who_waits_where() -> None:
    seen = run("setp.lt.u32 %p1, %r0, 32; @%p1 bra L; bar.sync 1; bra E; L: bar.sync 2; E:", threads=64)
    assert seen.fault is not None
    assert "deadlock in k: warp 0 waits at line" in seen.fault
    assert "bar.sync 2" in seen.fault
    assert "bar.sync 1" in seen.fault


@pytest.mark.promise("An undefined value is found where it decides something, and nowhere else.")
def test_the_same_value_from_blocks_of_two_threads() -> None:
    """Whoever sees that another block wrote a word sees what it wrote."""
    body = "mov.u32 %r5, 7; mov.u32 %r6, %r0; L: mad.wide.u32 %rd3, %r6, 4, %rd0; st.global.u32 [%rd3], %r5;"
    body += "add.u32 %r6, %r6, 32; setp.lt.u32 %p1, %r6, 320000; @%p1 bra L;"
    text = module(body)
    for seed in range(8):
        assert launch(text, np.zeros(320000, np.uint32), grid=(2, 1, 1), seed=seed, threads=2).kinds == []


def test_blocks_that_overwrite_each_other() -> None:
    """Unless the value is the same, or an atomic operation on a counter orders the blocks."""
    block = "mov.u32 %r5, %ctaid.x;"
    assert run(block + OUT + "st.global.u32 [%rd3], %r5;", blocks=3).kinds == ["write-conflict"]
    assert run(OUT + "st.global.u32 [%rd3], %r0;", blocks=3).kinds == []
    ordered = (
        block
        + "atom.global.add.u32 %r6, [%rd0+128], 1;"
        + OUT
        + "st.global.u32 [%rd3], %r5; membar.gl; atom.global.add.u32 %r6, [%rd0+128], 1;"
    )
    assert run(ordered, blocks=3).kinds == []


def test_what_is_read_only_stays() -> None:
    out = np.zeros(64, np.uint32)
    seen = launch(module(OUT + "st.global.u32 [%rd3], 5;"), out, read_only=(0,))
    assert seen.kinds == ["out-of-bounds"]
    assert "read-only" in seen.findings[0]["text"]
    assert not out.any()


def test_without_checks_only_bounds_and_alignment_are_looked_at() -> None:
    assert run(RACES["write after write"], threads=64, checks=False).kinds == []
    assert run(PLANTED["data"][1], checks=False).kinds == []
    assert run(PLANTED["behind an array"][1], checks=False).kinds == ["out-of-bounds"]


@pytest.mark.parametrize(
    ("stride", "width", "cycles"),
    [
        (4, "u32", 0),
        (8, "u32", 1),
        (128, "u32", 31),
        (0, "u32", 0),
        (8, "u64", 0),
        (16, "v4.u32", 0),
        (32, "v4.u32", 4),
    ],
)
def test_bank_conflicts_are_counted(stride: int, width: str, cycles: int) -> None:
    """Cycles beyond those of the same access without conflicts: 32 banks of 4 bytes, wide accesses in phases."""
    vector = {"u32": "%r5", "u64": "%rd5", "v4.u32": "{%r5, %r6, %r7, %r8}"}[width]
    seen = run(
        f"mul.lo.u32 %r6, %r0, {stride}; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7; ld.shared.{width} {vector}, [%r6];",
        head=".shared .align 16 .b8 tile[4096];",
    )
    assert seen.executed["lds_conflict_cycles"] == cycles


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (32, 32), (0, 1)])
def test_sectors_are_counted(stride: int, sectors: int) -> None:
    out = np.zeros(512, np.uint8).repeat(2).view(np.uint32)
    seen = launch(module(f"mad.wide.u32 %rd3, %r0, {stride}, %rd0; ld.global.u32 %r5, [%rd3];"), out)
    aligned = out.ctypes.data % 32 == 0
    assert seen.executed["global_sectors"] in ({sectors} if aligned else {sectors, sectors + 1})


def test_counts_by_class_and_space() -> None:
    seen = run(
        SHARED
        + "st.shared.u32 [%r31], %r0; bar.sync 0; ld.shared.u32 %r5, [%r31];"
        + OUT
        + "st.global.u32 [%rd3], %r5;",
        threads=64,
    )
    counts = seen.executed
    assert counts["instructions"] == 2 * 11
    assert sum(counts["classes"].values()) == counts["instructions"]
    assert (counts["lds_read_bytes"], counts["lds_written_bytes"], counts["global_written_bytes"]) == (256, 256, 256)
    assert counts["barriers"] == 2

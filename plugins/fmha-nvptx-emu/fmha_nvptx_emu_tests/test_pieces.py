"""Accesses whose lanes use whole pieces of 16 bytes, alone or together, have the findings of single words; and rows that
registers share keep nothing of each other.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

HEAD = ".shared .align 16 .b8 tile[2048];"
LANE = (
    "and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5; setp.eq.u32 %p1, %r2, 0; mov.u32 %r31, tile; mul.lo.u32 %r4, %r0, 77;"
)
"""%r1: the lane, %p1: of warp 0, %r31: the tile, %r4: a value."""

ADDRESSES = {
    "pieces": ("shl.b32 %r30, %r1, 4;", "v4.u32", 4),
    "pairs": ("shl.b32 %r30, %r1, 3;", "v2.u32", 2),
    "fours": ("shl.b32 %r30, %r1, 2;", "u32", 1),
    "fours, turned": (
        "and.b32 %r30, %r1, 3; shl.b32 %r30, %r30, 4; shr.u32 %r29, %r1, 4; shl.b32 %r29, %r29, 6; add.s32 %r30, %r30, %r29;"
        "shr.u32 %r29, %r1, 2; and.b32 %r29, %r29, 3; shl.b32 %r29, %r29, 2; add.s32 %r30, %r30, %r29;",
        "u32",
        1,
    ),
    "words of several pieces": ("mul.lo.u32 %r30, %r1, 20;", "u32", 1),
    "two words of several pieces": ("mul.lo.u32 %r30, %r1, 24;", "v2.u32", 2),
    "half words": ("shl.b32 %r30, %r1, 1;", "u16", 1),
}  # fmt: skip


def own(words: int, first: str) -> str:
    """A register's name, or four of which the first is the lane's."""
    return first if words == 1 else "{" + ", ".join([first, "%r4", "%r4", "%r4"][:words]) + "}"


def into(words: int) -> str:
    return "%r5" if words == 1 else "{" + ", ".join(["%r5", "%r6", "%r7", "%r8"][:words]) + "}"


def run(body: str, blocks: int = 1, seed: int = 0) -> tuple[Seen, Array]:
    out = np.zeros(64, np.uint32)
    text = module(LANE + body, head=HEAD)
    return launch(text, out, block=(64, 1, 1), grid=(blocks, 1, 1), seed=seed), out


def written_and_read(name: str, between: str, value: str = "%r4", behind: str = "") -> str:
    """Warp 1 stores a value in each lane, and warp 0 loads them into its words of the output."""
    address, width, words = ADDRESSES[name]
    return (
        address + f"add.s32 %r31, %r31, %r30; @!%p1 st.shared.{width} [%r31], {own(words, value)};" + between
        + f"@%p1 ld.shared.{width} {into(words)}, [%r31];" + behind
        + "mad.wide.u32 %rd3, %r1, 4, %rd0; @%p1 st.global.u32 [%rd3], %r5;"
    )  # fmt: skip


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("seed", range(2))
def test_values_arrive_behind_a_barrier(name: str, seed: int) -> None:
    seen, out = run(written_and_read(name, "bar.sync 0;"), seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out[:32] == (np.arange(32, 64) * 77 & (0xFFFF if name == "half words" else 0xFFFFFFFF))).all()


@pytest.mark.promise("A race of one lane is found wherever the lanes of an access lie.")
@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("seed", range(2))
def test_one_lanes_race_is_that_lanes(name: str, seed: int) -> None:
    _, width, words = ADDRESSES[name]
    again = f"bar.sync 0; mov.u32 %r9, 5; setp.eq.u32 %p2, %r0, 43; @%p2 st.shared.{width} [%r31], {own(words, '%r9')};"
    seen, _ = run(written_and_read(name, again), seed=seed)
    assert seen.kinds == ["shared-race"], seen.findings
    assert seen.findings[0]["lane"] == (10 if name == "half words" else 11)  # the books are of words


@pytest.mark.parametrize("name", ADDRESSES)
def test_one_lanes_hole_is_that_lanes(name: str) -> None:
    hole = "setp.eq.u32 %p3, %r0, 43; selp.b32 %r10, %r11, %r4, %p3;"
    seen, _ = run(hole + written_and_read(name, "bar.sync 0;", "%r10"))
    assert seen.kinds == ["uninitialised-register"], seen.findings
    assert "lane 11" in seen.findings[0]["text"]


@pytest.mark.parametrize("name", [name for name in ADDRESSES if name != "half words"])
@pytest.mark.parametrize("seed", range(4))
def test_a_store_over_what_another_warp_reads(name: str, seed: int) -> None:
    _, width, words = ADDRESSES[name]
    over = f"@!%p1 st.shared.{width} [%r31], {own(words, '%r0')};"
    seen, _ = run(written_and_read(name, "bar.sync 0;", behind=over), seed=seed)
    assert seen.kinds == ["shared-race"], seen.findings
    assert seen.findings[0]["lane"] == 0
    right, _ = run(written_and_read(name, "bar.sync 0;", behind="bar.sync 0;" + over), seed=seed)
    assert right.findings == []


@pytest.mark.parametrize("seed", range(4))
def test_every_lane_that_reads_a_racing_word_counts(seed: int) -> None:
    seen, _ = run("@!%p1 st.shared.u32 [tile], %r2; @%p1 ld.shared.u32 %r5, [tile];", seed=seed)
    assert [(one["kind"], one["count"]) for one in seen.findings] == [("shared-race", 32)]


COPY = "shl.b32 %r30, %r1, 4; add.s32 %r31, %r31, %r30; @!%p1 cp.async.cg.shared.global [%r31], [%rd0], 16; cp.async.commit_group;"


@pytest.mark.parametrize("seed", range(4))
def test_a_block_remembers_no_waits_of_the_one_before(seed: int) -> None:
    """The second block leaves the wait out, and its copies have the same stamps as those of the first."""
    wait = (
        "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p4, %r20, 0; @!%p4 bra L; cp.async.wait_group 0; L: bar.sync 0;"
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r31];"
    )
    seen, _ = run(COPY + wait, blocks=2, seed=seed)
    assert seen.kinds == ["missing-wait"], seen.findings
    assert seen.findings[0]["group"][0] == 1
    right, _ = run(
        COPY + "cp.async.wait_group 0; bar.sync 0; ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r31];", blocks=2, seed=seed
    )
    assert right.findings == []


def test_an_operand_of_two_types_is_widened_twice() -> None:
    """Both products have the same registers as A, once of f16 and once of bf16."""
    operands = "mov.u32 %r5, 0x3c003c00; mov.f32 %f1, 0f00000000;" + "".join(
        f"mov.f32 %f{k}, %f1;" for k in range(2, 13)
    )
    fragments = "{%r5, %r5, %r5, %r5}, {%r6, %r6}, {%f1, %f1, %f1, %f1};"
    body = operands + "".join(
        f"mov.u32 %r6, {one}; mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%f{d}, %f{d + 1}, %f{d + 2}, %f{d + 3}}}, {fragments}"
        for kind, one, d in (("f16", "0x3c003c00", 4), ("bf16", "0x3f803f80", 8))
    )
    out = np.zeros(64, np.float32)
    stores = "mad.wide.u32 %rd3, %r0, 8, %rd0; st.global.v2.f32 [%rd3], {%f4, %f8};"
    seen = launch(module(body + stores), out, block=(32, 1, 1))
    assert (seen.fault, seen.findings) == (None, [])
    assert (out[0::2] == 16.0).all()
    assert (out[1::2] == 16 * 2.0**-7).all()


def test_an_operand_that_changed_is_widened_again() -> None:
    """A is 1, then 2 in a lane that has parts of two rows."""
    fragments = "{%r5, %r5, %r5, %r5}, {%r6, %r6}, {%f1, %f1, %f1, %f1};"
    body = "mov.u32 %r5, 0x3c003c00; mov.u32 %r6, 0x3c003c00; mov.f32 %f1, 0f00000000;"
    body += "setp.eq.u32 %p1, %r0, 9;" + "@%p1 mov.u32 %r5, 0x40004000;".join(
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f{d}, %f{d + 1}, %f{d + 2}, %f{d + 3}}}, {fragments}"
        for d in (4, 8)
    )
    out = np.zeros(64, np.float32)
    stores = "mad.wide.u32 %rd3, %r0, 8, %rd0; st.global.v2.f32 [%rd3], {%f4, %f8};"
    seen = launch(module(body + stores), out, block=(32, 1, 1))
    assert (seen.fault, seen.findings) == (None, [])
    assert (out[0::2] == 16.0).all()
    assert (out[1::2] == np.where(np.arange(32) // 4 == 2, 20.0, 16.0)).all()


FRAGMENTS = {"A": "{%r7, %r5, %r5, %r5}, {%r6, %r6}", "B": "{%r5, %r5, %r5, %r5}, {%r6, %r7}"}


@pytest.mark.parametrize("hole", FRAGMENTS)
@pytest.mark.parametrize("value", ["", "ld.shared.u32 %r7, [%r31];"], ids=["never written", "never stored"])
def test_a_product_of_a_hole_is_one(hole: str, value: str) -> None:
    body = f"mov.u32 %r31, tile; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.f32 %f1, 0f00000000; {value}"
    body += f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f4, %f5, %f6, %f7}}, {FRAGMENTS[hole]}, {{%f1, %f1, %f1, %f1}};"
    out = np.zeros(32, np.float32)
    seen = launch(module(body + "mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.f32 [%rd3], %f4;", head=HEAD), out)
    assert seen.kinds == ["uninitialised-register"], seen.findings
    assert "data that is stored" in seen.findings[0]["text"]


@pytest.mark.parametrize("words", [1, 4])
@pytest.mark.parametrize("first", [1, 4])
@pytest.mark.parametrize("same", [False, True])
def test_two_blocks_that_write_one_place(words: int, first: int, same: bool) -> None:
    """Block 0 writes the first words of 16 bytes, and block 1 the last one or all of them."""
    values = "mov.u32 %r5, 7;" if same else "mov.u32 %r5, %ctaid.x;"
    store = {1: "st.global.u32 [%rd3+12], %r5;", 4: "st.global.v4.u32 [%rd3], {%r5, %r5, %r5, %r5};"}
    body = values + "mov.u32 %r6, %ctaid.x; setp.eq.u32 %p1, %r6, 0; mad.wide.u32 %rd3, %r0, 16, %rd0; @!%p1 bra L;"
    body += store[first] + "bra E; L: " + store[words] + "E:"
    out = np.full(128, 7, np.uint32)
    seen = launch(module(body), out, grid=(2, 1, 1))
    assert seen.kinds == ([] if same else ["write-conflict"]), seen.findings
    if not same:
        assert seen.findings[0]["count"] == 32


def test_a_load_that_fails_leaves_no_other_registers_value() -> None:
    """%r5 is dead when %r6 is loaded from outside, and their rows must not be one."""
    body = "mov.u32 %r31, tile; mov.u32 %r5, 7; st.shared.u32 [%r31], %r5; ld.shared.u32 %r6, [%r31+4096]; mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r6;"
    out = np.zeros(32, np.uint32)
    seen = launch(module(body, head=HEAD), out)
    assert seen.kinds == ["out-of-bounds"]
    assert (out == 0xCDCDCDCD).all()


def test_a_register_that_was_never_written_holds_no_other_ones_value() -> None:
    body = "mov.u32 %r5, 7; add.s32 %r6, %r5, %r0; mad.wide.u32 %rd3, %r0, 8, %rd0; st.global.u32 [%rd3], %r6; st.global.u32 [%rd3+4], %r20;"
    out = np.zeros(64, np.uint32)
    seen = launch(module(body), out)
    assert seen.kinds == ["uninitialised-register"]
    assert (out[1::2] == 0xCDCDCDCD).all()


def test_registers_that_live_around_a_loop_keep_their_rows() -> None:
    """The loop reads %r5 before it writes %r8, and again in its next round."""
    body = (
        "mov.u32 %r5, %r0; mov.u32 %r6, 0; mov.u32 %r7, 0;"
        "L: add.s32 %r7, %r7, %r5; mul.lo.s32 %r8, %r6, 300; add.s32 %r7, %r7, %r8; add.s32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 4; @%p2 bra L;"
        "mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r7;"
    )
    out = np.zeros(32, np.int32)
    seen = launch(module(body), out)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == np.arange(32) * 4 + 1800).all()

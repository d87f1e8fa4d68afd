"""The front end: scopes, directives, variables, and what it refuses with its line."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import launch, module

OUT = "mad.wide.u32 %rd3, %r0, 4, %rd0;"
STORE = OUT + "st.global.u32 [%rd3], %r5;"


def lanes(body: str, head: str = "") -> list[int]:
    out = np.zeros(32, np.uint32)
    seen = launch(module(body, head=head), out)
    assert (seen.fault, seen.findings) == (None, [])
    return out.tolist()


def test_names_belong_to_their_block() -> None:
    """Inline assembly repeats its registers and labels; the innermost declaration counts."""
    block = "{ .reg .b32 t; .reg .pred q; mov.u32 t, 1; again: add.s32 t, t, 1; setp.lt.s32 q, t, LIMIT; @q bra again; add.s32 %r5, %r5, t; }"
    assert lanes("mov.u32 %r5, 0;" + block.replace("LIMIT", "4") + block.replace("LIMIT", "10") + STORE) == [14] * 32


def test_a_branch_out_of_a_block_and_to_a_table() -> None:
    body = "mov.u32 %r5, 0; rem.u32 %r6, %r0, 3; t: .branchtargets A, B, C; brx.idx %r6, t; A: add.s32 %r5, %r5, 1; B: add.s32 %r5, %r5, 10; { bra C; } C:"
    assert lanes(body + STORE) == [(11, 10, 0)[k % 3] for k in range(32)]


def test_loops_whose_lanes_leave_one_by_one() -> None:
    assert lanes("mov.u32 %r5, 0; L: add.s32 %r5, %r5, 2; setp.le.u32 %p1, %r5, %r0; @%p1 bra L;" + STORE) == [
        k // 2 * 2 + 2 for k in range(32)
    ]


def test_variables_have_their_values_and_addresses() -> None:
    head = """.global .align 8 .b8 t[12] = {1, 0x2, 0, 0, 3};
.const .align 4 .u32 c[2][2] = {{5, 6}, {7}};
.global .u64 where = generic(t)+4;
.global .f32 half = 0.5;
.shared .align 16 .b8 s[32];
.extern .shared .align 16 .b8 dyn[];"""
    body = """ld.global.u32 %r6, [t]; ld.const.u32 %r7, [c+8]; ld.global.u64 %rd5, [where]; ld.global.u32 %r8, [%rd5];
ld.global.u32 %r9, [half]; mov.u32 %r10, dyn; add.s32 %r5, %r6, %r7; add.s32 %r5, %r5, %r8; add.s32 %r5, %r5, %r9; add.s32 %r5, %r5, %r10;"""
    out = np.zeros(32, np.uint32)
    seen = launch(module(body + STORE, head=head), out, shared=64)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [0x201 + 7 + 3 + 0x3F000000 + 0] * 32  # s is not used, so the dynamic part begins at 0


def test_parameters_lie_at_their_alignment() -> None:
    text = module("ld.param.u8 %h1, [p1]; ld.param.u64 %rd5, [p2]; ld.param.v2.u32 {%r6, %r7}, [p3+8]; cvt.u32.u16 %r5, %h1; cvt.u32.u64 %r8, %rd5;"
                  "add.s32 %r5, %r5, %r8; add.s32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7;" + STORE,
                  ".param .u64 p0, .param .u8 p1, .param .u64 p2, .param .align 8 .b8 p3[16]")  # fmt: skip
    out = np.zeros(32, np.uint32)
    seen = launch(text, out, np.uint8(200), np.uint64(1000), np.uint64(0), np.uint64(3 | 4 << 32))
    assert (seen.fault, out[0]) == (None, 1207)


@pytest.mark.parametrize("align", [1, 16])
def test_the_alignment_behind_ptr_is_of_the_memory(align: int) -> None:
    """It says nothing of where the parameter lies (PTX ISA 9.1, 5.1.6.3). Triton writes it for each pointer."""
    parameters = f".param .u64 p0, .param .u32 p1, .param .u64 .ptr .global .align {align} p2"
    out, given = np.zeros(32, np.uint32), np.full(4, 9, np.uint32)
    seen = launch(
        module("ld.param.u64 %rd5, [p2]; ld.global.u32 %r5, [%rd5];" + STORE, parameters), out, np.uint32(1), given
    )
    assert (seen.fault, seen.findings, out[0]) == (None, [], 9)


def test_any_version_comments_and_debug_sections() -> None:
    text = module('/* a; { */ mov.u32 %r5, 3; // } \n.loc 1 2 3\n.pragma "nounroll";' + STORE).replace("8.7", "12.5")
    text += ".section .debug_info { .b32 1, 2 }\n"
    out = np.zeros(32, np.uint32)
    assert launch(text, out).fault is None
    assert out[0] == 3


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("frobnicate.s32 %r5, %r6;", "frobnicate is not implemented"),
        ("add.s32.wobble %r5, %r6, %r7;", ".wobble of add is not implemented"),
        ("add.s32 %r5, %r6;", "it has 2 operands"),
        ("add.s32 %rd5, %r6, %r7;", "does not fit its type"),
        ("add.s32 %r5, %r99, %r7;", "no register %r99"),
        ("bra NOWHERE;", "NOWHERE"),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 %r5, %r6, %r7, %r8;", "m16n8k64"),
        ("cp.async.cg.shared.global [%r5], [%rd0], 8;", "it copies 4, 8 or 16 bytes"),
        ("tcgen05.turn.cta_group::1.down [%r1];", "tcgen05"),
        ("fence.proxy.tensormap::generic.release.gpu;", "of the proxies, alias and async are implemented"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r5], [%rd0, {%r6, %r7}], [%r8];", ".im2col of cp is not implemented"),
        ("ld.global.u32 %r5, [%rd0;", "expected ']'"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_line(body: str, word: str) -> None:
    seen = launch(module(f"\n\n{body}"), np.zeros(32, np.uint32))
    assert seen.fault is not None
    assert word in seen.fault
    line = module(f"\n\n{body}").splitlines().index(body) + 1
    assert f"line {line}" in seen.fault
    assert not seen.executed


def test_a_call_stops_where_it_happens() -> None:
    body = "setp.eq.u32 %p1, %r0, 40; @%p1 call.uni __assertfail, (%r5); mov.u32 %r5, 1;" + STORE
    assert lanes(body) == [1] * 32
    seen = launch(module("call.uni (%r5), vprintf, (%r6);"), np.zeros(32, np.uint32))
    assert seen.fault is not None
    assert "vprintf" in seen.fault


@pytest.mark.parametrize("text", ["", "not PTX", ".version 8.0\n.target sm_80\n.visible .entry k() {"])
def test_what_is_no_module(text: str) -> None:
    assert launch(text, np.zeros(4, np.uint32)).fault

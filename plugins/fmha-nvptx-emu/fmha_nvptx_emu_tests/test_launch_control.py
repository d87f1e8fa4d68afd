"""clusterlaunchcontrol: blocks that take over the places of others, each place exactly once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

HEAD = ".shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];"
AXES = "; ".join(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %r{5 + k}, %whole" for k, axis in enumerate("xyz"))  # fmt: skip
ALL = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r5, %r6, %r7, _}, %whole"


def run(grid: tuple[int, int, int], seed: int, first: str = AXES, wait: str = "@!%p3 bra W;") -> tuple[Array, Seen]:
    """out[z, y, x]: 1 + the number of the block that did it."""
    out = np.zeros(grid[::-1], np.uint32)
    body = f""".reg .b128 %whole; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ctaid.z; mov.b32 %r9, 0;
mov.u32 %r11, %nctaid.x; mov.u32 %r12, %nctaid.y; mad.lo.u32 %r13, %r7, %r12, %r6; mad.lo.u32 %r13, %r13, %r11, %r5; add.s32 %r13, %r13, 1;
setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async.shared::cta; bar.sync 0;
LOOP: mad.lo.u32 %r14, %r7, %r12, %r6; mad.lo.u32 %r14, %r14, %r11, %r5; mad.wide.u32 %rd3, %r14, 4, %rd0; @%p1 st.global.u32 [%rd3], %r13;
bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; mov.u32 %r16, answer; mov.u32 %r17, bar;
@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r16], [%r17];
W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r9; {wait} xor.b32 %r9, %r9, 1;
ld.shared.v2.b64 {{%rd5, %rd6}}, [answer]; mov.b128 %whole, {{%rd5, %rd6}};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %whole; @!%p4 bra OUT; {first}; bra LOOP;
OUT:"""
    return out, launch(module(body, head=HEAD), out, grid=grid, block=(64, 1, 1), seed=seed)


@pytest.mark.promise("`clusterlaunchcontrol` gives each place of the grid to exactly one block.")
@pytest.mark.parametrize("first", [AXES, ALL])
@pytest.mark.parametrize("seed", range(4))
def test_each_place_is_done_once(first: str, seed: int) -> None:
    out, seen = run((5, 3, 2), seed, first)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out > 0).all()
    own = 1 + np.arange(30).reshape(2, 3, 5)
    assert (out != own).any()
    assert (out == own).any()


def test_an_answer_that_is_not_waited_for() -> None:
    _, seen = run((2, 1, 1), 0, wait="")
    assert "missing-wait" in seen.kinds
    assert any("no wait for the mbarrier" in one["text"] for one in seen.findings)

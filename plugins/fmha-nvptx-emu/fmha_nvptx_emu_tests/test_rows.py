"""Registers share rows of a warp's file only where no lane of one can meet a write to the other."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import launch, module

HEAD = ".shared .align 8 .b8 bar[8];"
HELD = range(8, 16)
"""Registers that lane 0 holds while it waits."""
FLAGS = range(4, 8)
"""Predicates that the other lanes write in that time."""


@pytest.mark.parametrize("order", ["holder first", "others first"])
@pytest.mark.parametrize("seed", range(4))
def test_predicates_of_some_lanes_leave_the_numbers_of_lane_0(seed: int, order: str) -> None:
    """A predicate is one word for all lanes, where a number has the value of lane 0."""
    held = "".join(f"add.u32 %r{k}, %r0, {k};" for k in HELD)
    total = "mov.u32 %r5, 0;" + "".join(f"add.u32 %r5, %r5, %r{k};" for k in HELD)
    holder = f"HOLD: {held} W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W; {total} bra END;"
    flags = "".join(f"setp.gt.u32 %p{k}, %r0, 1000;" for k in FLAGS)
    counted = "mov.u32 %r5, 0;" + "".join(f"selp.u32 %r6, 1, 0, %p{k}; add.u32 %r5, %r5, %r6;" for k in FLAGS)
    others = f"OTHERS: {flags} {counted} mbarrier.arrive.shared::cta.b64 _, [bar]; bra END;"
    ways = f"@!%p1 bra OTHERS; {holder} {others}" if order == "holder first" else f"@%p1 bra HOLD; {others} {holder}"
    start = "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], 31; bar.sync 0;"
    body = f"{start} {ways} END: mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r5;"
    out = np.full(32, 99, np.uint32)
    seen = launch(module(body, head=HEAD), out, block=(32, 1, 1), seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [sum(HELD), *[0] * 31]

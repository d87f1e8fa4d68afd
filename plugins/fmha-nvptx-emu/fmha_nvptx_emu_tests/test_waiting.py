"""Loops that wait for what another warp or a later block stores, on one thread of the emulator."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import launch, module

PATIENCE = 60
"""Seconds, of which a launch here takes less than two."""


def _in(answer: Connection, case: Callable[[], None]) -> None:
    case()
    answer.send("ended")


def ends(case: Callable[[], None]) -> bool:
    """Whether the case ends; in a process of its own, which may wait for ever."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_in, args=(there, case))
    child.start()
    there.close()
    try:
        return here.poll(PATIENCE) and here.recv() == "ended"
    except EOFError:
        return False
    finally:
        child.kill()
        child.join()


def a_chain_of_blocks() -> None:
    """Each block waits for the next one, and adds what that one stored to its own number."""
    blocks = 5
    out = np.zeros(2 * blocks, np.uint32)
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; add.s32 %r3, %r1, 1; mul.wide.u32 %rd1, %r1, 8; add.s64 %rd1, %rd0, %rd1; mov.u32 %r5, 0;
setp.eq.u32 %p1, %r3, %r2; @%p1 bra S; W: ld.acquire.gpu.global.u32 %r4, [%rd1+8]; setp.eq.u32 %p2, %r4, 0; @%p2 bra W; ld.global.u32 %r5, [%rd1+12];
S: add.s32 %r5, %r5, %r1; st.global.u32 [%rd1+4], %r5; st.release.gpu.global.u32 [%rd1], 1;"""
    seen = launch(module(body), out, grid=(blocks, 1, 1), block=(1, 1, 1))
    assert (seen.fault, seen.findings) == (None, [])
    assert out[1::2].tolist() == [10, 10, 9, 7, 4]


def two_warps() -> None:
    """Whichever warp comes first waits in a loop for the other one's store to shared memory."""
    out = np.zeros(64, np.uint32)
    body = """.shared .align 4 .b8 flags[8]; setp.lt.u32 %p1, %r0, 2; shl.b32 %r1, %r0, 2; mov.u32 %r2, flags; add.s32 %r1, %r1, %r2; @%p1 st.shared.u32 [%r1], 0; bar.sync 0;
shr.u32 %r3, %r0, 5; shl.b32 %r3, %r3, 2; add.s32 %r4, %r3, %r2; xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2; atom.shared.exch.b32 %r7, [%r4], 1;
W: atom.shared.or.b32 %r6, [%r5], 0; setp.eq.u32 %p2, %r6, 0; @%p2 bra W; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r6;"""
    for seed in range(4):
        seen = launch(module(body), out, block=(64, 1, 1), seed=seed)
        assert (seen.fault, seen.findings) == (None, [])
        assert (out == 1).all()


@pytest.mark.parametrize("case", [a_chain_of_blocks, two_warps])
def test_a_loop_that_waits_for_others_ends(case: Callable[[], None]) -> None:
    assert ends(case)

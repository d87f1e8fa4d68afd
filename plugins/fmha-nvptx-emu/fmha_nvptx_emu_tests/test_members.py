"""Lanes that execute an instruction whose mask does not name them: undefined in PTX ISA 9.1, 9.7.9.6 and 9.7.13.8, 11, 14."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module

INSTRUCTIONS = (
    "shfl.sync.bfly.b32 %r5, %r0, 1, 31, %r7;",
    "vote.sync.ballot.b32 %r5, %p1, %r7;",
    "redux.sync.add.u32 %r5, %r0, %r7;",
    "elect.sync %r5|%p3, %r7;",
)


def run(named: str, instruction: str) -> Seen:
    body = f"setp.lt.u32 %p1, %r0, 16; {named} {instruction}"
    return launch(module(body), np.zeros(32, np.uint32))


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
@pytest.mark.parametrize(("mask", "lane"), [("0", 0), ("0x7fffffff", 31), ("0xfffffffe", 0)])
def test_a_lane_outside_of_the_mask_is_named(instruction: str, mask: str, lane: int) -> None:
    seen = run(f"mov.u32 %r7, {mask};", instruction)
    assert seen.named("divergent-barrier", f"lane {lane} executes {instruction.split('.')[0]}.sync")


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_lanes_within_their_masks_are_right(instruction: str) -> None:
    """Also two halves, each with a mask of its own, that come there together."""
    assert run("mov.u32 %r7, -1;", instruction).findings == []
    assert run("selp.b32 %r7, 0xffff, 0xffff0000, %p1;", instruction).findings == []

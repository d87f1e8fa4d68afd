"""``setmaxnreg``: what a warp releases another one may take, and it waits for that (PTX ISA 9.1, 9.7.19.5)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module

RELEASES = "setmaxnreg.dec.sync.aligned.u32 24;"


def run(first: str, take: int, seed: int = 0, registers: int = 64) -> Seen:
    """Two warps, of which the second one asks for registers."""
    body = f"setp.lt.u32 %p1, %r0, 32; @%p1 bra A; setmaxnreg.inc.sync.aligned.u32 {take}; bra B; A: {first} B:"
    directives = f".maxnreg {registers}" if registers else ""
    return launch(module(body, directives=directives), np.zeros(64, np.uint32), block=(64, 1, 1), seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_warp_takes_what_another_one_releases(seed: int) -> None:
    assert run(RELEASES, 104, seed).fault is None
    assert run(f"bar.warp.sync -1; {RELEASES} setmaxnreg.inc.sync.aligned.u32 24;", 104, seed).fault is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("first", "take"), [(RELEASES, 112), ("", 72), ("setmaxnreg.dec.sync.aligned.u32 64;", 72)])
def test_a_warp_waits_for_ever_for_registers_that_nobody_releases(first: str, take: int, seed: int) -> None:
    fault = run(first, take, seed).fault
    assert fault is not None
    assert f"setmaxnreg.inc.sync.aligned.u32 {take}" in fault
    assert "other warps of the block have not released as many registers" in fault


def test_a_warp_may_take_again_what_it_released() -> None:
    again = f"{RELEASES} setmaxnreg.inc.sync.aligned.u32 64; {RELEASES}"
    assert run(again, 104).fault is None


def test_each_block_has_registers_of_its_own() -> None:
    body = f"setp.lt.u32 %p1, %r0, 32; @%p1 bra A; setmaxnreg.inc.sync.aligned.u32 104; bra B; A: {RELEASES} B:"
    text = module(body, directives=".maxnreg 64")
    assert launch(text, np.zeros(64, np.uint32), grid=(3, 1, 1), block=(64, 1, 1)).fault is None


def test_without_a_number_of_registers_nothing_is_counted() -> None:
    assert run("", 232, registers=0).fault is None

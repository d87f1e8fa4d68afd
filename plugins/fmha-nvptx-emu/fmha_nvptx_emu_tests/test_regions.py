"""What a branch on a value that was never written decides: nothing within its ways, everything where they meet."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module

NOTHING = "setp.eq.s32 %p1, %r5, 1;"
"""%p1: of %r5, which nothing ever writes."""
OWN = "mov.u32 %r31, tile; shl.b32 %r30, %r0, 2; add.s32 %r31, %r31, %r30; st.shared.u32 [%r31], %r0;"
"""%r31: the thread's own word of the tile, which holds a value."""
OUT = "mad.wide.u32 %rd3, %r0, 4, %rd0;"
MAXIMUM = (
    NOTHING + "@%p1 bra L; atom.shared.max.s32 %r6, [%r31], %r5; bra E; L: atom.shared.min.u32 %r6, [%r31], %r5; E:"
)
"""The larger of two floats, by the sign of one, as the memory-efficient kernels of CUTLASS compute it."""


def run(body: str, seed: int = 0) -> Seen:
    out = np.zeros(64, np.uint32)
    head = ".shared .align 16 .b8 tile[1024];"
    return launch(module(body, head=head), out, block=(32, 1, 1), grid=(1, 1, 1), seed=seed)


RIGHT = {
    "an address that each way computes": NOTHING + "@%p1 bra L;" + OUT + "ld.global.u32 %r6, [%rd3]; bra E; L: mad.wide.u32 %rd3, %r0, 8, %rd0;"
    "ld.global.u32 %r6, [%rd3]; E: st.global.u32 [%rd0], 7;",
    "a loop within a way": NOTHING + "@%p1 bra E; mov.u32 %r6, 0; H: add.s32 %r6, %r6, 1; setp.lt.s32 %p2, %r6, 4; @%p2 bra H; E: st.global.u32 [%rd0], 7;",
    "a maximum in shared memory that nobody stores": OWN + MAXIMUM + OUT + "st.global.u32 [%rd3], %r0;",
    "a second maximum in the same word": OWN + MAXIMUM + "atom.shared.add.u32 %r7, [%r31], 1;" + OUT + "st.global.u32 [%rd3], %r0;",
    "a word that a way writes and nobody stores": OWN + NOTHING + "@%p1 bra L; st.shared.u32 [%r31], 7; L:" + OUT + "st.global.u32 [%rd3], %r0;",
    "a word that is written again": OWN + MAXIMUM + "st.shared.u32 [%r31], 3; ld.shared.u32 %r7, [%r31];" + OUT + "st.global.u32 [%rd3], %r7;",
}  # fmt: skip


@pytest.mark.promise("An undefined value is found where it decides something, and nowhere else.")
@pytest.mark.parametrize("name", RIGHT)
def test_what_a_way_computes_is_as_good_as_its_operands(name: str) -> None:
    for seed in range(2):
        seen = run(RIGHT[name], seed)
        assert (seen.fault, seen.findings) == (None, [])


PLANTED = {
    "an address where the ways meet": (NOTHING + "@%p1 bra L; mov.u32 %r6, 1; bra E; L: mov.u32 %r6, 2; E: mad.wide.u32 %rd3, %r6, 4, %rd0; ld.global.u32 %r7, [%rd3];", "an address"),
    "an address where they meet, before the end": (
        "mov.u32 %r6, 1; setp.eq.u32 %p2, %r0, 99;" + NOTHING + "@%p1 bra L; mov.u32 %r6, 2; @%p2 bra M; L: mad.wide.u32 %rd3, %r6, 4, %rd0; ld.global.u32 %r7, [%rd3]; M:",
        "an address",
    ),
    "a value of the common part, behind it": (
        "mov.u32 %r6, 1; setp.eq.u32 %p2, %r0, 99;" + NOTHING + "@%p1 bra L; @%p2 bra M; L: mov.u32 %r6, 2; M: mad.wide.u32 %rd3, %r6, 4, %rd0; ld.global.u32 %r7, [%rd3];",
        "an address",
    ),
    "an address of nothing within a way": (NOTHING + "@%p1 bra L; mad.wide.u32 %rd3, %r5, 0, %rd0; ld.global.u32 %r6, [%rd3]; L:", "an address"),
    "an atomic operation within a way": (NOTHING + "@%p1 bra L; atom.global.add.u32 %r6, [%rd0], 1; L:", "in a branch before"),
    "nothing added to global memory": ("red.global.add.u32 [%rd0], %r5;", "stored"),
    "a maximum in shared memory that is stored": (OWN + MAXIMUM + "ld.shared.u32 %r7, [%r31];" + OUT + "st.global.u32 [%rd3], %r7;", "stored"),
    "what an atomic operation found there": (OWN + MAXIMUM + "atom.shared.add.u32 %r7, [%r31], 1;" + OUT + "st.global.u32 [%rd3], %r7;", "stored"),
    "a word that a way writes": (OWN + NOTHING + "@%p1 bra L; st.shared.u32 [%r31], 7; L: ld.shared.u32 %r7, [%r31];" + OUT + "st.global.u32 [%rd3], %r7;", "stored"),
    "local memory that a way writes": (
        ".local .align 4 .b8 l[8]; st.local.u32 [l], 1;" + NOTHING + "@%p1 bra L; st.local.u32 [l], 7; L: ld.local.u32 %r7, [l];" + OUT + "st.global.u32 [%rd3], %r7;",
        "stored",
    ),
    "a copy within a way": (NOTHING + "mov.u32 %r31, tile; @%p1 bra L; cp.async.ca.shared.global [%r31], [%rd0], 4; L: cp.async.wait_all;", "in a branch before"),
}  # fmt: skip


@pytest.mark.promise("An undefined value is found where it decides something, and nowhere else.")
@pytest.mark.parametrize("name", PLANTED)
def test_what_the_branch_decides_is_found_where_it_counts(name: str) -> None:
    body, word = PLANTED[name]
    seen = run(body)
    assert seen.fault is None
    assert set(seen.kinds) == {"uninitialised-register"}, seen.findings
    assert word in seen.findings[0]["text"]


def test_a_word_that_was_never_written_is_no_undefined_value() -> None:
    assert run("mov.u32 %r31, tile; atom.shared.add.u32 %r7, [%r31], 1;").kinds == ["uninitialised-shared"]

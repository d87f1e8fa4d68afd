"""Planted misuses of tensor memory and of a pair of blocks, each named by its finding, under several orders of the warps and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module
from fmha_nvptx_emu_tests.support.tensor_core import ALLOC, FREE, MEET, PAIR, TensorProduct, small
from fmha_nvptx_emu_tests.support.warpgroup import Layout
from fmha_nvptx_emu_tests.test_tensor_memory import copied, run

PLAIN = Layout(128)
SEEDS = range(4)
TWO = small("f16", 256, 32, PLAIN, PLAIN, pair=True)
FROM_TENSOR = small("f16", 128, 16, None, PLAIN)


def named(seen: Seen, kind: str, words: str) -> None:
    assert seen.fault is None, seen.fault
    found = [(one["kind"], one["text"]) for one in seen.findings]
    assert any(one == kind and words in text for one, text in found), found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12+2097152], {%r0};", "the quarter of warp"),
        ("tcgen05.st.sync.aligned.16x64b.x1.b32 [%r12+524288], {%r0};", "the quarter of warp"),
        ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r12+511], {%r0, %r0};", "not all of them are allocated"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%a0, %a1}, %a2, [%r12+2097152];", "the quarter of warp"),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_outside_of_what_is_a_warps(body: str, words: str, seed: int) -> None:
    named(
        run(body + " tcgen05.wait::st.sync.aligned;", np.zeros(1, np.uint32), seed=seed), "tensor-memory-misuse", words
    )


COPIES: dict[str, tuple[dict[str, str], str, str]] = {
    "not waited for": ({"@!%p2 bra W;": ""}, "missing-wait", "no wait for a tcgen05.commit lies between"),
    "no proxy fence": ({"fence.proxy.async.shared::cta;": ""}, "missing-fence", "no fence.proxy.async between"),
    "outside of what is allocated": ({"[%r10], %rd6": "[%r10+508], %rd6"}, "tensor-memory-misuse", "not all of them are allocated"),
    "outside of shared memory": ({"add.s64 %rd6, %rd6,": "add.s64 %rd6, %rd6, 384; add.s64 %rd6, %rd6,"}, "out-of-bounds", "a matrix descriptor leads to"),
    "its source is overwritten": ({"W: mbarrier": "@%p1 st.shared.b32 [%r32], %r0; W: mbarrier"}, "missing-wait", "no wait for a tcgen05.commit lies between"),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_misused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, kind, words = COPIES[name]

    def altered(body: str, *arrays: Array) -> Seen:
        for old, new in changed.items():
            assert old in body
            body = body.replace(old, new)
        return run(body, *arrays)

    monkeypatch.setattr("fmha_nvptx_emu_tests.test_tensor_memory.run", altered)
    _, seen = copied("128x256b", np.arange(1024, dtype=np.uint32))
    named(seen, kind, words)


FEW = {"alloc": ALLOC.replace("512", "256"), "free": FREE.replace("512", "256")}
OTHER = "setp.eq.u32 %p5, %r40, 0; and.pred %p3, %p3, %p5;"
PLANTED: dict[str, tuple[TensorProduct, dict[str, Any], str, str]] = {
    "A outside of what is allocated": (FROM_TENSOR, FEW, "tensor-memory-misuse", "not all of them are allocated"),
    "one block of a pair does not free": (TWO, {**PAIR, "free": MEET + OTHER + FREE}, "tensor-memory-misuse", "were not freed"),
    "one block of a pair frees twice": (TWO, {**PAIR, "free": MEET + FREE + OTHER + "@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;"}, "tensor-memory-misuse", "not allocated like this"),
    "one block of a pair frees while the other computes": (
        TWO, {**PAIR, "order": PAIR["order"] + "setp.eq.u32 %p6, %r40, 1; and.pred %p6, %p6, %p3; @%p6 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;" + MEET},
        "tensor-memory-misuse", "not all of them are allocated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_misuse_is_named(name: str, seed: int) -> None:
    it, changed, kind, words = PLANTED[name]
    _, seen = it.run(seed=seed, **changed)
    named(seen, kind, words)


SHIFT = """setp.lt.u32 %p3, %r0, 32; mov.u32 %r40, %cluster_ctarank; mad.lo.u32 %r41, %r40, 128, %r0; setp.eq.u32 %p1, %r0, 0; setp.eq.and.u32 %p9, %r40, 0, %p1;
@%p3 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [hold], 32; @%p1 mbarrier.init.shared::cta.b64 [hold+8], 1; bar.sync 0; ld.shared.b32 %r10, [hold];
shr.u32 %r11, %r0, 5; shl.b32 %r11, %r11, 21; add.s32 %r12, %r10, %r11; mad.wide.u32 %rd4, %r41, 4, %rd0;
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {%r41, %r41, %r41, %r41, %r41, %r41, %r41, %r41}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; MEET tcgen05.fence::after_thread_sync;
@%p9 tcgen05.shift.cta_group::2.down [%r10]; mov.u32 %r13, hold; add.s32 %r13, %r13, 8; mov.u16 %h1, 3;
@%p9 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r13], %h1;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [hold+8], 0; @!%p2 bra W; tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r12]; tcgen05.wait::ld.sync.aligned; st.global.b32 [%rd4], %r20; tcgen05.fence::before_thread_sync; MEET
@%p3 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32;""".replace("MEET", MEET)


def shifted(text: str, seed: int) -> tuple[Array, Seen]:
    out = np.zeros(256, np.uint32)
    whole = module(".reg .pred %p9;" + text, head=".shared .align 16 .b8 hold[16];", directives=".reqnctapercluster 2, 1, 1 .explicitcluster")  # fmt: skip
    return out, launch(whole, out, grid=(2, 1, 1), block=(128, 1, 1), seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shift_of_two_blocks(seed: int) -> None:
    out, seen = shifted(SHIFT, seed)
    assert (seen.fault, seen.findings) == (None, [])
    wanted = np.arange(256)
    for block in (0, 128):
        wanted[block + 1 : block + 32] -= 1
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shift_that_the_other_block_does_not_wait_for(seed: int) -> None:
    text = SHIFT.replace("W: mbarrier", MEET + "setp.eq.u32 %p5, %r40, 1; @%p5 bra NOW; W: mbarrier").replace(
        "@!%p2 bra W;", "@!%p2 bra W; NOW:"
    )
    _, seen = shifted(text, seed)
    named(seen, "missing-wait", "a product of the other block of the pair wrote")

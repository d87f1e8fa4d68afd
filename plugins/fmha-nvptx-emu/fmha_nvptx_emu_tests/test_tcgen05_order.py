"""tcgen05: what waits, fences and the blocks of a pair order. Each planted fault is found, and the right kernel has no finding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module
from fmha_nvptx_emu_tests.support.tensor_core import ALLOC, DONE, MEET, ORDER, PAIR, WAIT, plain, small
from fmha_nvptx_emu_tests.support.warpgroup import Layout
from fmha_nvptx_emu_tests.test_tensor_copy import encode

PLAIN = Layout(128)
ONE, TWO = small("f16", 128, 16, PLAIN, PLAIN), small("f16", 256, 32, PLAIN, PLAIN, pair=True)
MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{}}}, {{%r0, %r0, %r0, %r0}}, {{%r0, %r0}}, {{%r0, %r0, %r0, %r0}};"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
SEEDS = range(6)


def texts(seen: Seen, kind: str) -> str:
    return " ".join(one["text"] for one in seen.findings if one["kind"] == kind)


@pytest.mark.promise("`matrix_flops` counts 2 m n k of each product.")
@pytest.mark.parametrize(
    ("kind", "m", "n", "pair", "k"),
    [
        ("f16", 128, 16, False, 16),
        ("tf32", 64, 24, False, 8),
        ("e4m3", 128, 64, False, 32),
        ("bf16", 256, 32, True, 16),
    ],
)
def test_a_product_counts_its_operations(kind: str, m: int, n: int, pair: bool, k: int) -> None:
    it = small(kind, m, n, PLAIN, PLAIN, pair=pair)
    _, seen = it.run(**(PAIR if pair else {}))
    assert (seen.fault, seen.findings) == (None, [])
    assert seen.executed["matrix_flops"] == 2 * m * n * k


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
def test_a_register_of_a_load_may_be_used_before_the_wait() -> None:
    """PTX ISA 9.1, 9.7.16.6.4.5: a true register dependency is kept, whatever else is synchronised."""
    _, seen = ONE.run(loaded="")
    assert (seen.fault, seen.findings) == (None, [])


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r0};", "tcgen05.ld of warp"),
        ("bar.sync 0; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%a0};", "no tcgen05.wait::ld between"),
        ("mov.b32 %a0, 0;", "it writes a register of a tcgen05.ld"),
        (
            MMA.format("%r50, %r51, %r52, %r53") + MMA.format("%a0, %a1, %a2, %a3"),
            "it writes a register of a tcgen05.ld",
        ),
    ],
)
def test_what_a_register_does_not_order_needs_the_wait(loaded: str, words: str) -> None:
    """The same section: accesses of tensor memory and anti-dependencies."""
    _, seen = ONE.run(loaded=loaded)
    assert words in texts(seen, "missing-wait")
    _, seen = ONE.run(loaded=f"tcgen05.wait::ld.sync.aligned; {loaded}")
    assert "missing-wait" not in seen.kinds


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize(
    ("changed", "which"),
    [
        ({"order": ORDER.replace(BEFORE, "")}, "before"),
        ({"order": ORDER.replace(AFTER, "")}, "after"),
        ({"wait": WAIT.replace(AFTER, "")}, "after"),
    ],
)
def test_a_fence_that_is_left_out_is_found(changed: dict[str, Any], which: str) -> None:
    _, seen = ONE.run(**changed)
    assert set(seen.kinds) == {"missing-fence"}
    assert f"no tcgen05.fence::{which}_thread_sync" in texts(seen, "missing-fence")


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
def test_a_kernel_without_any_fence_is_not_asked_for_them() -> None:
    """As Triton compiles them."""
    without = {"order": ORDER.replace(BEFORE, "").replace(AFTER, ""), "wait": WAIT.replace(AFTER, ""), "free": PAIR["free"].replace(MEET, "").replace(BEFORE, "")}  # fmt: skip
    _, seen = ONE.run(**without)
    assert (seen.fault, seen.findings) == (None, [])


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_in_the_other_block_are_read_before_its_commit_is_waited_for(seed: int) -> None:
    hurries = MEET + "setp.eq.u32 %p5, %r40, 1; @%p5 bra NOW;" + WAIT + "NOW:"
    _, seen = TWO.run(seed=seed, **{**PAIR, "wait": hurries})
    assert "a product of the other block of the pair wrote" in texts(seen, "missing-wait")


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
def test_a_wait_for_the_wrong_phase_in_the_other_block() -> None:
    """The second block's parity is one ahead. As the order of the blocks decides, it reads too early or waits for ever."""
    shown = set()
    for seed in range(10):
        d, seen = TWO.run(seed=seed, **{**PAIR, "wait": WAIT.replace(f"[tile+{DONE}], 0", f"[tile+{DONE}], %r40")})
        if seen.fault is None:
            assert "of the other block read, and nothing orders the two" in texts(seen, "shared-race")
        shown.add(
            "deadlock" if seen.fault and "deadlock" in seen.fault
            else "wrong" if seen.fault is None and (d != plain(TWO) + TWO.c).any() else "nothing"
        )  # fmt: skip
    assert shown == {"deadlock", "wrong"}


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("order", "kind", "words"),
    [
        (ORDER, "shared-race", "of the other block wrote, and nothing orders the two"),
        (ORDER.replace("tcgen05.wait::st.sync.aligned;", "") + MEET, "missing-wait", "no tcgen05.wait::st between"),
    ],
)
def test_what_the_other_block_stored_lies_before_the_product(order: str, kind: str, words: str, seed: int) -> None:
    """C of both blocks. Where the blocks do not meet, the first one's product reads what the second one stored or is storing."""
    late = "mov.u32 %r50, 0; AGAIN: mbarrier.test_wait.parity.shared::cta.b64 %p7, [tile+65560], 0; add.s32 %r50, %r50, 1; setp.lt.u32 %p7, %r50, 60; @%p7 bra AGAIN;"
    _, seen = TWO.run(
        seed=seed, **{**PAIR, "order": order, "before": f"setp.eq.u32 %p6, %r40, 1; @%p6 bra GO; {late} GO:"}
    )
    assert words in texts(seen, kind)


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_an_arrival_at_the_issuing_block_orders_what_the_other_block_stored(seed: int) -> None:
    """In place of barrier.cluster: one arrival of the second block, behind a barrier of its warps."""
    ready = DONE + 16
    arrive = f"""mov.u32 %r51, tile; add.s32 %r51, %r51, {ready}; mapa.shared::cluster.u32 %r52, %r51, 0; setp.eq.and.u32 %p6, %r40, 1, %p1;
@%p6 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r52]; setp.eq.u32 %p6, %r40, 1; @%p6 bra GO;
HEAR: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [tile+{ready}], 0; @!%p7 bra HEAR; tcgen05.fence::after_thread_sync; GO:"""
    alloc = f"@%p1 mbarrier.init.shared::cta.b64 [tile+{ready}], 1; fence.mbarrier_init.release.cluster; {MEET}" + ALLOC
    d, seen = TWO.run(seed=seed, **{**PAIR, "alloc": alloc, "order": ORDER + arrive})
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d, plain(TWO) + TWO.c)


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
def test_shared_memory_of_the_other_block_is_overwritten_under_its_product() -> None:
    """The second block stores to B as soon as the product was issued."""
    issued = f"{MEET} setp.eq.and.u32 %p5, %r40, 1, %p1; @%p5 st.shared.u32 [tile+32768], %r0;"
    for seed in SEEDS:
        _, seen = TWO.run(seed=seed, **{**PAIR, "commit": PAIR["commit"] + issued})
        assert "a product of the other block of the pair reads it" in texts(seen, "missing-wait")
        _, seen = TWO.run(seed=seed, **{**PAIR, "wait": WAIT + issued})
        assert (seen.fault, seen.findings) == (None, [])


INVALIDATE = f"@%p1 mbarrier.inval.shared::cta.b64 [tile+{DONE}];"


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_that_is_invalidated_ahead_of_the_closing_cluster_barrier(seed: int) -> None:
    """Each block invalidates its barrier; the second one does so before the commit of the first is known to have reached it."""
    _, seen = TWO.run(seed=seed, **{**PAIR, "free": MEET + INVALIDATE + PAIR["free"]})
    assert (seen.fault, seen.findings) == (None, [])
    early = f"setp.eq.and.u32 %p5, %r40, 1, %p1; @%p5 mbarrier.inval.shared::cta.b64 [tile+{DONE}];"
    _, seen = TWO.run(seed=seed, **{**PAIR, "commit": PAIR["commit"] + early, "wait": MEET})
    words = texts(seen, "mbarrier-misuse")
    assert "there is no initialised mbarrier" in words or "nothing orders this behind an arrival from block 0" in words


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_that_leaves_while_its_partner_still_signals_it(seed: int) -> None:
    """It neither waits for the commit nor meets its partner at the end."""
    leaves = "setp.eq.u32 %p5, %r40, 1; @%p5 bra GONE;" + WAIT + "GONE:"
    _, seen = TWO.run(seed=seed, **{**PAIR, "wait": leaves, "free": PAIR["free"].replace(MEET, "")})
    words = texts(seen, "cluster-misuse")
    assert "which has ended" in words or "the block ended, and nothing orders this" in words


HEAD = ".shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 bar[8];"
BOX = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
BEGIN = f"""ld.param.u64 %rd2, [p2]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, %cluster_ctarank; mul.lo.u32 %r7, %r6, 16;
mov.u32 %r10, bar; and.b32 %r10, %r10, 0xfefffff8; mov.u32 %r11, tile; setp.eq.and.u32 %p4, %r6, 0, %p1;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1; {MEET} @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;"""
COPY = "@{who} cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes{cast} [%r11], [%rd2, {{0, %r7}}], [%r10]{mask};"
END = f"""setp.ne.u32 %p5, %r6, 0; @%p5 bra E; W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W; E: {MEET}
mad.lo.u32 %r8, %r0, 4, %r11; ld.shared.u32 %r5, [%r8+256]; mad.lo.u32 %r9, %r6, 32, %r0; mad.wide.u32 %rd3, %r9, 4, %rd0; st.global.u32 [%rd3], %r5; {MEET}"""


def copied(copy: str, seed: int, end: str = END) -> tuple[Any, Seen]:
    answer, map_ = encode(BOX, (16, 32))
    assert answer == 0
    out = np.zeros((2, 32), np.int32)
    text = module(BEGIN + copy + end, ".param .u64 p0, .param .u64 p1, .param .u64 p2", head=HEAD, directives=".reqnctapercluster 2, 1, 1 .explicitcluster")  # fmt: skip
    return out, launch(text, out, BOX, map_, grid=(2, 1, 1), block=(32, 1, 1), seed=seed)


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_both_blocks_load_for_the_mbarrier_of_the_first(seed: int) -> None:
    """The mbarrier's address has the bit of the second block cleared, as CUTLASS and Triton do it."""
    out, seen = copied(COPY.format(who="%p1", cast="", mask=""), seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [BOX[2].tolist(), BOX[18].tolist()]


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_multicast_signals_the_mbarrier_of_the_same_parity(seed: int) -> None:
    cast = COPY.format(who="%p4", cast=".multicast::cluster", mask=", %h1")
    out, seen = copied("mov.u16 %h1, 3;" + cast, seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [BOX[2].tolist()] * 2
    _, seen = copied("mov.u16 %h1, 7;" + cast, seed)
    assert "the cluster has no block 2" in texts(seen, "cluster-misuse")


def test_without_cta_group_2_the_mbarrier_lies_beside_the_data() -> None:
    _, seen = copied(COPY.format(who="%p1", cast="", mask="").replace(".cta_group::2", ""), 0)
    assert seen.fault is not None
    assert "the data and the mbarrier lie in different blocks" in seen.fault

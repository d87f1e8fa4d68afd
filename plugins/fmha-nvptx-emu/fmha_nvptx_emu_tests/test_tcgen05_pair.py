"""tcgen05 of two blocks (cta_group::2): one product over both, commits that reach both, and blocks that leave too early."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

import numpy as np

from fmha_nvptx_emu_tests.support.tensor_core import MEET, PAIR, TensorProduct, plain, small
from fmha_nvptx_emu_tests.support.warpgroup import KINDS, Layout

PLAIN = Layout(128)


def run(it: TensorProduct, seed: int = 0, **changed: Any) -> Any:
    return it.run(seed=seed, **{**PAIR, **changed})


def assert_product(it: TensorProduct, wanted: Any, seed: int = 0) -> None:
    d, seen = run(it, seed)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d.astype(np.float32), wanted)


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("from_tensor_memory", [False, True])
def test_each_type_and_shape(kind: str, m: int, from_tensor_memory: bool) -> None:
    it = small(kind, m, 64, None if from_tensor_memory else PLAIN, Layout(64), pair=True)
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize(("m", "n"), [(128, 32), (128, 256), (256, 32), (256, 256)])
@pytest.mark.parametrize("seed", range(3))
def test_each_width_in_any_order_of_the_blocks(m: int, n: int, seed: int) -> None:
    it = small("bf16", m, n, PLAIN, Layout(128, across=n % 128 == 0), pair=True)
    assert_product(it, plain(it) + it.c, seed)


def test_sums_of_halves() -> None:
    it = small("f16", 256, 32, PLAIN, PLAIN, sums="f16", pair=True)
    assert_product(it, plain(it) + it.c)


def test_lanes_of_d_that_are_left_out() -> None:
    it = small("f16", 256, 32, PLAIN, PLAIN, pair=True, left_out=", {%r30, %r31, %r30, %r30, %r30, %r30, %r30, %r32}")
    wanted = plain(it) + it.c
    wanted[[33, 224]] = it.c[[33, 224]]
    d, seen = run(it, before="mov.b32 %r30, 0; mov.b32 %r31, 2; mov.b32 %r32, 1;")
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d, wanted)


IT = small("f16", 256, 32, PLAIN, PLAIN, pair=True)
ONE = PAIR["commit"].replace("mov.u16 %h1, 3;", "mov.u16 %h1, 1;")


def test_a_commit_that_does_not_reach_the_other_block_is_a_deadlock() -> None:
    _, seen = run(IT, commit=ONE)
    assert seen.fault is not None
    assert "block 1 of the cluster: warp 0 waits at line" in seen.fault


def test_a_commit_to_a_block_that_the_cluster_does_not_have() -> None:
    _, seen = run(IT, commit=PAIR["commit"].replace("%h1, 3", "%h1, 7"))
    assert seen.fault is None
    assert seen.kinds == ["cluster-misuse"]
    assert "the cluster has no block 2" in seen.findings[0]["text"]


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
def test_a_block_that_leaves_while_the_other_still_signals_it() -> None:
    """The other block frees its memory and ends; then the first one computes and commits for both."""
    leaves = f"setp.eq.u32 %p5, %r40, 0; @%p5 bra STAYS; bar.sync 0; @%p3 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 512; ret; STAYS: {'nanosleep.u32 9; ' * 4}"
    held = "mov.u32 %r50, 0; AGAIN: mbarrier.test_wait.parity.shared::cta.b64 %p7, [tile+65560], 0; add.s32 %r50, %r50, 1; setp.lt.u32 %p7, %r50, 200; @%p7 bra AGAIN;"
    _, seen = run(IT, before=leaves + held, wait="", free="bar.sync 0;")
    assert "cluster-misuse" in seen.kinds
    assert any("reaches block 1 of the cluster, which has ended" in one["text"] for one in seen.findings)


def test_a_barrier_that_is_invalidated_before_the_other_block_committed() -> None:
    """The second block frees its barrier without waiting; the commit of the first one finds none."""
    gone = "setp.ne.u32 %p5, %r40, 0; and.pred %p5, %p5, %p1; @%p5 mbarrier.inval.shared::cta.b64 [tile+65560]; " + MEET
    _, seen = run(IT, before=gone, wait="", free="")
    assert "mbarrier-misuse" in seen.kinds
    assert any("there is no initialised mbarrier" in one["text"] for one in seen.findings)


def test_a_block_without_a_partner() -> None:
    alone = small("f16", 128, 32, PLAIN, PLAIN)
    _, seen = alone.run(descriptor=alone.descriptor, alloc="@%p3 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [tile+65552], 512;", before="@%p1 tcgen05.mma.cta_group::2.kind::f16 [%r10], %rd6, %rd7, %r20, %p4;")  # fmt: skip
    assert seen.fault is not None
    assert "has no other of its pair" in seen.fault

"""Clusters: their registers, their barrier, addresses of other blocks, arrivals there, and copies to several blocks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module
from fmha_nvptx_emu_tests.test_tensor_copy import encode

HEAD = ".shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 bar[8];"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
OUT = """mov.u32 %r50, %ctaid.x; mov.u32 %r51, %ntid.x; mad.lo.u32 %r50, %r50, %r51, %r0; mad.wide.u32 %rd3, %r50, 4, %rd0;
st.global.u32 [%rd3], %r5;"""


def run(
    body: str, blocks: int = 4, size: int = 2, threads: int = 64, seed: int = 0, more: tuple[Array, ...] = ()
) -> tuple[Array, Seen]:
    out = np.zeros((blocks, threads), np.uint32)
    parameters = ", ".join(f".param .u64 p{k}" for k in range(1 + len(more)))
    text = module(body + OUT, parameters, directives=f".reqnctapercluster {size}, 1, 1 .explicitcluster", head=HEAD)
    return out, launch(text, out, *more, grid=(blocks, 1, 1), block=(threads, 1, 1), seed=seed)


def test_registers_of_a_cluster() -> None:
    body = "mov.u32 %r6, %cluster_ctarank; mov.u32 %r7, %clusterid.x; mov.u32 %r8, %cluster_nctarank; mov.u32 %r9, %nclusterid.x; mad.lo.u32 %r5, %r7, 10, %r6; mad.lo.u32 %r5, %r8, 100, %r5; mad.lo.u32 %r5, %r9, 1000, %r5;"
    out, seen = run(body, blocks=6)
    assert (seen.fault, seen.findings) == (None, [])
    assert out[:, 0].tolist() == [3200 + 10 * (k // 2) + k % 2 for k in range(6)]


def test_blocks_of_a_grid_of_three_axes() -> None:
    out = np.zeros((2, 4, 4), np.uint32)
    body = """mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %ctaid.z; mad.lo.u32 %r9, %r8, 4, %r7; mad.lo.u32 %r9, %r9, 4, %r6; mad.wide.u32 %rd3, %r9, 4, %rd0;
mov.u32 %r10, %cluster_ctarank; mov.u32 %r11, %cluster_ctaid.y; mad.lo.u32 %r5, %r11, 100, %r10; add.s32 %r5, %r5, 1; st.global.u32 [%rd3], %r5;"""
    assert launch(module(body, directives=".reqnctapercluster 2, 2, 1"), out, grid=(4, 4, 2)).fault is None
    assert (out == np.array([[1, 2], [103, 104]])[np.arange(4)[:, None] % 2, np.arange(4) % 2]).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("space", "map_"), [
    (".shared::cluster", "mapa.shared::cluster.u32 %r20, %r21, %r22;"), ("", "cvt.u64.u32 %rd5, %r21; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r22;"),
])  # fmt: skip
def test_each_block_reads_and_writes_its_neighbours_word(space: str, map_: str, seed: int) -> None:
    base = "%r20" if space else "%rd6"
    body = f"""mov.u32 %r6, %cluster_ctarank; xor.b32 %r22, %r6, 1; mov.u32 %r21, tile; {map_}
setp.eq.u32 %p1, %r0, 0; add.s32 %r7, %r6, 70; @%p1 st{space}.u32 [{base}+64], %r7; @%p1 st.shared.u32 [tile+128], %r7; {SYNC}
ld{space}.u32 %r8, [{base}+128]; ld.shared.u32 %r9, [tile+64]; mad.lo.u32 %r5, %r8, 1000, %r9; {SYNC}"""
    out, seen = run(body, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == np.array([71071, 70070, 71071, 70070])[:, None]).all()


@pytest.mark.parametrize("seed", range(4))
def test_an_arrival_in_another_block(seed: int) -> None:
    body = f"""setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], 2; fence.mbarrier_init.release.cluster; {SYNC}
mov.u32 %r21, bar; mapa.shared::cluster.u32 %r23, %r21, 0; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];
mov.u32 %r6, %cluster_ctarank; setp.ne.u32 %p2, %r6, 0; @%p2 bra E; W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W; E: mov.u32 %r5, 4; {SYNC}"""
    out, seen = run(body, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == 4).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_box_goes_to_every_block_of_a_multicast(seed: int) -> None:
    tensor = np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    answer, map_ = encode(tensor, (16, 32))
    assert answer == 0
    body = f"""ld.param.u64 %rd2, [p2]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, %cluster_ctarank; setp.eq.u32 %p2, %r6, 0; and.pred %p2, %p1, %p2; mov.u16 %h1, 3;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1; {SYNC} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd2, {{0, 0}}], [bar], %h1;
W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W; mad.lo.u32 %r7, %r0, 4, 256; mov.u32 %r8, tile; add.s32 %r8, %r8, %r7; ld.shared.u32 %r5, [%r8]; {SYNC}"""
    out, seen = run(body, seed=seed, more=(tensor, map_))
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == np.arange(64, 128)).all()


def test_matrices_of_another_block_are_out_of_bounds() -> None:
    body = f"""mov.u32 %r21, tile; mapa.shared::cluster.u32 %r20, %r21, 0; shl.b32 %r7, %r0, 4; add.u32 %r20, %r20, %r7; add.u32 %r8, %r21, %r7;
st.shared.v4.b32 [%r8], {{%r0, %r0, %r0, %r0}}; {SYNC} ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r20]; mov.u32 %r5, 0; {SYNC}"""
    _, seen = run(body, blocks=2)
    assert (seen.fault, seen.kinds) == (None, ["out-of-bounds"])
    assert seen.findings[0]["count"] == 64  # block 0 loads its own


def test_copies_to_another_block_are_out_of_bounds() -> None:
    body = f"""ld.param.u64 %rd2, [p1]; shl.b32 %r7, %r0, 4; cvt.u64.u32 %rd4, %r7; add.s64 %rd4, %rd4, %rd2; mov.u32 %r21, tile; mapa.shared::cluster.u32 %r20, %r21, 0; add.u32 %r20, %r20, %r7;
ld.global.u32 %r8, [%rd4]; cp.async.cg.shared.global [%r20], [%rd4], 16; cp.async.wait_all; mov.u32 %r5, 0; {SYNC}"""
    _, seen = run(body, blocks=2, more=(np.arange(256, dtype=np.uint32),))
    assert (seen.fault, seen.kinds) == (None, ["out-of-bounds"])
    assert seen.findings[0]["count"] == 64  # block 0 copies to its own


def test_a_deadlock_names_the_blocks() -> None:
    body = "mov.u32 %r6, %cluster_ctarank; setp.eq.u32 %p1, %r6, 0; @%p1 bra E; barrier.cluster.arrive; barrier.cluster.wait; bra F; E: bar.sync 3, 96; F: mov.u32 %r5, 0;"
    _, seen = run(body, blocks=2)
    assert seen.fault is not None
    assert "block 0 of the cluster: warp 0 waits at line" in seen.fault
    assert "other warps of the cluster have not arrived" in seen.fault


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("mapa.shared::cluster.u32 %r5, %r0, 2;", "the cluster has no block 2"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "arrives twice"),
        ("barrier.cluster.wait;", "has not arrived"),
        (f"{SYNC} barrier.cluster.wait;", "has not arrived"),
        ("mov.u32 %r6, 67108864; ld.shared::cluster.u32 %r5, [%r6];", "lies in no block of the cluster"),
    ],
)
def test_what_a_cluster_does_not_have_stops(body: str, word: str) -> None:
    _, seen = run(body)
    assert seen.fault is not None
    assert word in seen.fault

"""Atomic operations, asynchronous stores and reductions, and copies that reach another block of the cluster."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array
from fmha_nvptx_emu_tests.test_cluster import SYNC, run

SEEDS = range(4)
BEGIN = f"""mov.u32 %r6, %cluster_ctarank; xor.b32 %r7, %r6, 1; setp.eq.u32 %p1, %r0, 0;
mov.u32 %r20, tile; mapa.shared::cluster.u32 %r21, %r20, %r7; mov.u32 %r22, bar; mapa.shared::cluster.u32 %r23, %r22, %r7;
shl.b32 %r8, %r0, 2; add.s32 %r24, %r20, %r8; add.s32 %r25, %r21, %r8; st.shared.u32 [%r24], %r0;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async; {SYNC}"""
"""tile is %r20, the lane's word in it %r24; the neighbour's are %r21 and %r25; its mbarrier is %r23. Each word holds the thread."""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};"
END = f"ld.shared.u32 %r5, [%r24]; {SYNC}"
LANES = np.arange(64)


def words(body: str, seed: int) -> Array:
    """The words of the first of four blocks, each of which does the same to its neighbour's."""
    out, seen = run(body, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == out[0]).all()
    return out[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("space", [".shared::cluster", ""])
def test_an_atomic_operation_changes_the_neighbours_word_and_returns_the_old_one(space: str, seed: int) -> None:
    base = "%r25" if space else "%rd6"
    generic = "" if space else "cvt.u64.u32 %rd5, %r24; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r7;"
    body = f"{BEGIN} {generic} atom{space}.add.u32 %r9, [{base}], 1000; red{space}.or.b32 [{base}], 65536; {SYNC} ld.shared.u32 %r10, [%r24]; shl.b32 %r9, %r9, 20; or.b32 %r5, %r9, %r10; {SYNC}"
    assert (words(body, seed) == (LANES << 20 | (LANES + 1000) | 65536)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_asynchronous_store_is_there_when_the_mbarrier_counted_it(seed: int) -> None:
    store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r25], %r9, [%r23];"
    assert (words(BEGIN + EXPECT.format(256) + "add.s32 %r9, %r0, 7;" + store + WAIT + END, seed) == LANES + 7).all()


def test_an_asynchronous_store_of_four_words() -> None:
    body = BEGIN + EXPECT.format(16) + "@%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r21+16], {%r22, %r22, %r6, %r7}, [%r23];" + WAIT + END  # fmt: skip
    out, seen = run(body)
    assert (seen.fault, seen.findings) == (None, [])
    assert out[0, 6:8].tolist() == [1, 0]
    assert out[1, 6:8].tolist() == [0, 1]
    assert out[0, [3, 8]].tolist() == [3, 8]


REDUCTIONS = {
    "add.u32": lambda a, b: a + b,
    "min.s32": lambda a, b: np.minimum(a.astype(np.int32), b.astype(np.int32)).astype(np.uint32),
    "max.u32": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "inc.u32": lambda a, b: np.where(a >= b, 0, a + 1),
    "dec.u32": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_an_asynchronous_reduction(op: str) -> None:
    operand = (LANES * 0x9E3779B1 % 2**32).astype(np.uint32)
    body = BEGIN + EXPECT.format(256) + f"mul.lo.u32 %r9, %r0, 0x9E3779B1; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op} [%r25], %r9, [%r23];" + WAIT + END  # fmt: skip
    assert (words(body, 1) == REDUCTIONS[op](LANES.astype(np.uint32), operand)).all()


def test_reductions_of_many_lanes_at_one_word() -> None:
    body = BEGIN + EXPECT.format(512) + "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r21+8], %rd1, [%r23];" + WAIT + END  # fmt: skip
    out, seen = run("mov.u64 %rd1, 4294967298;" + body)
    assert (seen.fault, seen.findings) == (None, [])
    assert out[0, 2:4].tolist() == [2 + 2 * 64, 3 + 64]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bulk_copy_to_the_neighbour(seed: int) -> None:
    copy = (
        "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21+512], [%r20+64], 64, [%r23];"
    )
    body = BEGIN + "bar.sync 0;" + EXPECT.format(64) + copy + WAIT + f"and.b32 %r9, %r0, 15; shl.b32 %r9, %r9, 2; add.s32 %r9, %r9, %r20; ld.shared.u32 %r5, [%r9+512]; {SYNC}"  # fmt: skip
    assert (words(body, seed) == 16 + LANES % 16).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_expected_in_another_block(seed: int) -> None:
    body = BEGIN + f"@%p1 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r23], 8; {SYNC} @%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r23], 8; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];" + WAIT + END  # fmt: skip
    assert (words(body, seed) == LANES).all()


STORE = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r25], %r9, [%r23];"
COPY = "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21+512], [%r20+{}], 64, [%r23];"
MISUSES = {
    "read before the wait": ("missing-wait", EXPECT.format(256) + "mov.u32 %r9, 1;" + STORE + SYNC + "ld.shared.u32 %r5, [%r24];" + WAIT + SYNC),
    "bytes that nobody expects": ("mbarrier-misuse", "mov.u32 %r9, 1; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];" + SYNC + STORE + SYNC),
    "a value that was never written": ("uninitialised-register", EXPECT.format(256) + STORE + WAIT + END),
    "a reduction of a word that was never written": (
        "uninitialised-shared",
        EXPECT.format(256) + "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r25+1024], %r0, [%r23];" + WAIT + END,
    ),
    "a copy of words that were never written": ("uninitialised-shared", EXPECT.format(64) + COPY.format(1024) + WAIT + END),
    "a copy of another warp's words, with no barrier": (
        "shared-race",
        f"{EXPECT.format(64)} setp.eq.u32 %p2, %r0, 33; @%p2 st.shared.u32 [tile+256], %r0; @%p2 bra W; @%p1 nanosleep.u32 9; {COPY.format(256)} {WAIT} {END}",
    ),
    "out of bounds": ("out-of-bounds", "mov.u32 %r9, 1;" + STORE.replace("%r25", "%r25+4096") + SYNC),
    "an atomic operation out of bounds": ("out-of-bounds", f"red.shared::cluster.add.u32 [%r25+4096], 1; {SYNC}"),
    "an atomic operation on a word that was never written": ("uninitialised-shared", f"red.shared::cluster.add.u32 [%r25+1024], 1; {SYNC}"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_a_planted_misuse_is_named(name: str) -> None:
    kind, body = MISUSES[name]
    kinds = set()
    for seed in SEEDS:
        _, seen = run(BEGIN + body, seed=seed)
        kinds.update(seen.kinds)
    assert kind in kinds


def test_data_and_mbarrier_lie_in_one_block() -> None:
    _, seen = run(BEGIN + "mov.u32 %r9, 1;" + re.sub(r"%r23", "%r22", STORE) + SYNC)
    assert seen.fault is not None
    assert "different blocks" in seen.fault

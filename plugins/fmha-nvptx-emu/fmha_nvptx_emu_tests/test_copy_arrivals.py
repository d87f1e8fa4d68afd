"""cp.async.mbarrier.arrive: who may read what cp.async copied, and when; and how a relaxed barrier.cluster orders mbarriers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module
from fmha_nvptx_emu_tests.test_cluster import run as run_cluster
from fmha_nvptx_emu_tests.test_mbarrier import FIRST, HEAD, OUT, init, wait

ADDRESS = "and.b32 %r30, %r0, 31; shl.b32 %r31, %r30, 2; mov.u32 %r32, tile; add.s32 %r31, %r31, %r32; mad.wide.u32 %rd5, %r30, 4, %rd0;"
COPY = "cp.async.ca.shared.global [%r31], [%rd5], 4;"
ARRIVE = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
READ = "ld.shared.u32 %r5, [%r31];"


def run(first: str, second: str, count: int = 32, seed: int = 0) -> tuple[Array, Seen]:
    """Two warps, of which each executes its text behind the mbarrier's initialisation. The array holds 100 and up."""
    out = np.arange(100, 164, dtype=np.uint32)
    body = (
        init(count)
        + ADDRESS
        + "mov.u32 %r5, 7; @!%p2 bra SECOND;"
        + first
        + "bra END; SECOND:"
        + second
        + "END: bar.sync 1;"
    )
    return out, launch(module(body + OUT, head=HEAD), out, block=(64, 1, 1), seed=seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("count", "arrive"),
    [
        (32, ARRIVE),
        (32, ARRIVE.replace(".shared::cta", ".shared")),
        (1, ARRIVE.replace(".noinc", "") + "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];"),
        (32, "cp.async.commit_group;" + ARRIVE),
    ],
)
def test_who_waits_for_the_phase_reads_the_copies(count: int, arrive: str, seed: int) -> None:
    out, seen = run(COPY + arrive, wait() + READ, count, seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [7] * 32 + list(range(100, 132))


def test_the_thread_that_copies_waits_too() -> None:
    out, seen = run(COPY + ARRIVE + wait(name="X") + READ, "")
    assert (seen.fault, seen.findings) == (None, [])
    assert out[:32].tolist() == list(range(100, 132))


def test_more_copies_than_the_books_keep_batches() -> None:
    """Each of 600 copies is waited for before the next one; the books keep 256."""
    loop = "mov.u32 %r7, 0; P: and.b32 %r8, %r7, 1;" + COPY + ARRIVE + wait("%r8", "X") + READ
    loop += "add.s32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 600; @%p4 bra P;"
    out, seen = run(loop, "")
    assert (seen.fault, seen.findings) == (None, [])
    assert out[:32].tolist() == list(range(100, 132))


MORE = "cp.async.ca.shared.global [%r31+512], [%rd5], 4;"
TOO_EARLY = {
    "its own copy": (COPY + ARRIVE + READ, ""),
    "a barrier instead of the wait": (COPY + ARRIVE + "bar.sync 2;", "bar.sync 2;" + READ),
    "a copy behind the arrival": (COPY + ARRIVE + MORE + "bar.sync 2;", wait() + "bar.sync 2; ld.shared.u32 %r5, [%r31+512];"),
    "a copy behind the arrival, in one group with the first": (
        COPY + ARRIVE + MORE + "cp.async.commit_group; bar.sync 2;",
        wait() + "bar.sync 2; ld.shared.u32 %r5, [%r31+512];",
    ),
    "a group that is not waited for": (
        COPY + ARRIVE + "cp.async.commit_group;" + MORE + "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r5, [%r31+512];",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_EARLY)
@pytest.mark.parametrize("seed", range(3))
def test_a_read_that_nothing_orders_behind_the_copy(name: str, seed: int) -> None:
    first, second = TOO_EARLY[name]
    _, seen = run(first, second, seed=seed)
    assert seen.fault is None
    assert seen.kinds == ["missing-wait"], seen.findings
    assert "outstanding" in seen.findings[0]["text"]


def test_an_arrival_is_no_group() -> None:
    """wait_group 1 leaves one group open, however many arrivals lie between."""
    first = COPY + ARRIVE + "cp.async.commit_group;" + MORE + "cp.async.commit_group; cp.async.wait_group 1;" + READ
    out, seen = run(first + "cp.async.wait_all;", "")
    assert (seen.fault, seen.findings) == (None, [])
    assert out[:32].tolist() == list(range(100, 132))


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.shared::cta;"])
def test_the_asynchronous_proxy_needs_a_fence_behind_the_wait(fence: str) -> None:
    bulk = "@!%p4 bra END; cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    _, seen = run(COPY + ARRIVE, "setp.eq.u32 %p4, %r0, 32;" + wait() + fence + bulk)
    assert seen.fault is None
    assert seen.kinds == ([] if fence else ["missing-fence"]), seen.findings


def test_lanes_at_several_mbarriers_stop_the_launch() -> None:
    both = "selp.u32 %r40, 0, 8, %p1; mov.u32 %r41, bar; add.s32 %r40, %r40, %r41;"
    both += COPY + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r40];"
    _, seen = run("@%p1 mbarrier.init.shared::cta.b64 [bar+8], 31;" + both, "")
    assert seen.fault is not None
    assert "lanes of one warp that name several mbarriers" in seen.fault


START = FIRST.replace("%r0, 32", "%r0, 64") + "@%p1 mbarrier.init.shared::cta.b64 [bar], 64; FENCE "
START += (
    "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; mbarrier.arrive.shared::cta.b64 _, [bar];"
)
FENCE = "fence.mbarrier_init.release.cluster;"


@pytest.mark.parametrize("seed", range(4))
def test_a_relaxed_arrival_behind_the_fence_orders_the_initialisation(seed: int) -> None:
    """How CUTLASS starts a cluster."""
    _, seen = run_cluster("mov.u32 %r5, 0;" + START.replace("FENCE", FENCE), seed=seed)
    assert (seen.fault, seen.findings) == (None, [])


@pytest.mark.parametrize(
    "text",
    [
        START.replace("FENCE", ""),
        FENCE + START.replace("FENCE", ""),
        START.replace("FENCE", "").replace("barrier.cluster.wait.aligned;", FENCE + "barrier.cluster.wait.aligned;"),
        START.replace("FENCE", FENCE).replace("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;", ""),
    ],
    ids=["no fence", "a fence before it", "a fence behind the arrival", "no barrier"],
)  # fmt: skip
def test_an_initialisation_that_nothing_orders_is_named(text: str) -> None:
    for seed in range(3):
        _, seen = run_cluster("mov.u32 %r5, 0;" + text, seed=seed)
        assert "mbarrier-misuse" in seen.kinds, seen.findings


def test_a_relaxed_arrival_passes_nothing_else_on() -> None:
    body = "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], 5;" + FENCE
    body += "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r5, [tile];"
    _, seen = run_cluster(body)
    assert seen.kinds == ["shared-race"]


def test_a_prefetch_of_a_tensor_map_is_a_hint() -> None:
    out = np.zeros(32, np.uint32)
    text = "prefetch.tensormap [%rd0]; prefetch.param.tensormap [p0]; mov.u32 %r5, 3;"
    seen = launch(module(text + OUT), out)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [3] * 32

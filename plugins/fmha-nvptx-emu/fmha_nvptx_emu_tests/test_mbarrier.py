"""mbarriers and barriers with a number of threads: what they order, what is misuse, and deadlocks with who waits for what."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

HEAD = ".shared .align 8 .b8 bar[32]; .shared .align 16 .b8 tile[1024];"
OUT = "mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r5;"
FIRST = "setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32;"
INIT = FIRST + "@%p1 mbarrier.init.shared::cta.b64 [bar], COUNT; bar.sync 0;"


def run(body: str, threads: int = 64, seed: int = 0) -> tuple[Array, Seen]:
    out = np.zeros(threads, np.uint32)
    seen = launch(module(body, head=HEAD), out, block=(threads, 1, 1), seed=seed)
    return out, seen


def wait(parity: str = "0", name: str = "W", bar: str = "bar") -> str:
    return f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [{bar}], {parity}; @!%p3 bra {name};"


def init(count: int) -> str:
    return INIT.replace("COUNT", str(count))


PASS_ON = "@!%p2 bra GET; st.shared.u32 [tile], 77; ARRIVE bra END; GET: WAIT ld.shared.u32 %r5, [tile]; END: mov.u32 %r6, 0; @%p2 mov.u32 %r5, 77;"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("count", "arrive"),
    [
        (32, "mbarrier.arrive.shared::cta.b64 _, [bar];"),
        (32, "mbarrier.arrive.shared.b64 %rd9, [bar];"),
        (1, "@%p1 mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];"),
        (64, "mbarrier.arrive.shared::cta.b64 %rd9, [bar], 2;"),
        (32, "mbarrier.arrive_drop.shared::cta.b64 _, [bar];"),
        (1, "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar]; @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;"),
        (1, "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; @%p1 mbarrier.complete_tx.shared::cta.b64 [bar], 16;"),
    ],
)  # fmt: skip
def test_a_value_passes_from_warp_to_warp(count: int, arrive: str, seed: int) -> None:
    out, seen = run(init(count) + PASS_ON.replace("ARRIVE", arrive).replace("WAIT", wait()) + OUT, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [77] * 64


@pytest.mark.parametrize("seed", range(4))
def test_lanes_that_wait_for_two_mbarriers_know_what_lies_before_both(seed: int) -> None:
    """The store lies between the arrivals at the two, for which even and odd lanes wait."""
    two = INIT.replace("COUNT;", "1; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 1;")
    arrive = "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];"
    passed = PASS_ON.replace("st.shared", arrive + " st.shared").replace("ARRIVE", arrive.replace("[bar]", "[bar+8]"))
    lane = "and.b32 %r7, %r0, 1; shl.b32 %r7, %r7, 3; mov.u32 %r8, bar; add.u32 %r7, %r7, %r8;"
    out, seen = run(two + lane + passed.replace("WAIT", wait(bar="%r7")) + OUT, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [77] * 64


@pytest.mark.parametrize("seed", range(4))
def test_every_lane_that_asks_without_a_barrier_counts(seed: int) -> None:
    """The other warp initialises it before or behind. Nothing arrived in the phase before, so nobody learns of it."""
    ask = "@!%p2 mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 1;"
    _, seen = run(
        INIT.replace("COUNT", "1").replace("bar.sync 0;", ask) + "mov.u32 %r5, 0; bar.sync 0;" + OUT, seed=seed
    )
    assert [(one["kind"], one["count"]) for one in seen.findings] == [("mbarrier-misuse", 32)]


@pytest.mark.promise("A wait for an mbarrier is tried twice at most, unless nothing else can go on.")
def test_a_wait_counts_twice_at_most_however_long_it_lasts() -> None:
    """The consumer comes first under some seeds. The work before the arrival is as long as many turns."""
    late = "mov.u32 %r7, 0; L: add.s32 %r7, %r7, 1; bar.sync 1, 32; setp.lt.u32 %p4, %r7, 50; @%p4 bra L; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];"
    body = init(1) + PASS_ON.replace("ARRIVE", late).replace("WAIT", wait())
    counts = [run(body + OUT, seed=seed)[1].executed["instructions"] for seed in range(8)]
    assert max(counts) - min(counts) <= 2, "more than one more try and its branch"


@pytest.mark.promise("A wait for an mbarrier is tried twice at most, unless nothing else can go on.")
def test_the_time_limit_of_a_wait_passes_when_nothing_else_can_go_on() -> None:
    """The warp waits for an arrival that it makes itself once the wait has answered false a second time."""
    body = init(32) + (
        "mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;" * 2
        + "selp.u32 %r5, 1, 2, %p3; mbarrier.arrive.shared::cta.b64 _, [bar];"
        + wait()
    )
    out, seen = run(body + OUT, threads=32)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [2] * 32


@pytest.mark.promise("A wait for an mbarrier is tried twice at most, unless nothing else can go on.")
def test_a_test_wait_answers_at_once() -> None:
    """A warp that tests a phase and goes on is not held up by it."""
    body = (
        init(64)
        + "mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0; selp.u32 %r5, 1, 2, %p3; mbarrier.arrive.shared::cta.b64 _, [bar];"
    )
    for seed in range(4):
        out, seen = run(body + OUT, seed=seed)
        assert (seen.fault, seen.findings) == (None, [])
        assert out.tolist() == [2] * 64


def test_a_wait_by_state_and_the_count_that_is_pending() -> None:
    body = (
        init(64)
        + "mbarrier.arrive.shared::cta.b64 %rd9, [bar]; mbarrier.pending_count.b64 %r5, %rd9; S: mbarrier.test_wait.shared::cta.b64 %p3, [bar], %rd9; @!%p3 bra S;"
    )
    out, seen = run(body + OUT)
    assert (seen.fault, seen.findings) == (None, [])
    assert sorted(out.tolist()) == list(range(1, 65))


@pytest.mark.parametrize("seed", range(4))
def test_phases_of_a_ring(seed: int) -> None:
    """A producer and a consumer take turns ten times over one word: full at bar, empty at bar+8."""
    body = (
        FIRST + "@%p1 mbarrier.init.shared::cta.b64 [bar], 1; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 32; bar.sync 0; mov.u32 %r7, 0; mov.u32 %r5, 0; @!%p2 bra C;"
        "P: and.b32 %r8, %r7, 1; xor.b32 %r9, %r8, 1;" + wait("%r9", "WE", "bar+8") +
        "@%p1 st.shared.u32 [tile], %r7; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar]; add.s32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 10; @%p4 bra P; bra E;"
        "C: and.b32 %r8, %r7, 1;" + wait("%r8", "WF") +
        "ld.shared.u32 %r6, [tile]; add.s32 %r5, %r5, %r6; mbarrier.arrive.shared::cta.b64 _, [bar+8]; add.s32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 10; @%p4 bra C; E:"
    )  # fmt: skip
    out, seen = run(body + OUT, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [0] * 32 + [45] * 32


def test_lanes_of_one_warp_wait_for_others_of_it() -> None:
    body = (
        init(1)
        + "@%p1 bra G; mov.u32 %r9, 0; setp.eq.u32 %p4, %r0, 5; @!%p4 bra G2; mbarrier.arrive.shared::cta.b64 _, [bar]; G2: bra D; G:"
        + wait()
        + "D: mov.u32 %r5, 9;"
    )
    out, seen = run(body + OUT, threads=32)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [9] * 32


MISUSE = {
    "no init": (FIRST + "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];", "no initialised mbarrier"),
    "used after inval": (init(1) + "@%p1 mbarrier.inval.shared::cta.b64 [bar]; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];", "no initialised mbarrier"),
    "twice": (init(1) + "@%p1 mbarrier.init.shared::cta.b64 [bar], 1;", "initialised again"),
    "a count of 0": (init(0), "a count of 0"),
    "too many arrivals": (init(3) + "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar], 4;", "4 arrivals, and the phase waits for 3 of 3"),
    "bytes that never come": (init(2) + "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;", "64 bytes of the mbarrier at"),
    "bytes that nobody expects": (
        init(1) + "@%p1 mbarrier.complete_tx.shared::cta.b64 [bar], 64; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];", "64 bytes more came than were expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_a_planted_misuse_is_named(name: str) -> None:
    body, words = MISUSE[name]
    _, seen = run(body)
    assert seen.fault is None
    assert set(seen.kinds) == {"mbarrier-misuse"}, seen.findings
    assert any(words in found["text"] for found in seen.findings), seen.findings


def test_an_init_that_no_barrier_follows() -> None:
    """In every order of the warps: either there is none yet, or nothing says that there is."""
    for seed in range(4):
        _, seen = run(
            FIRST + "@%p1 mbarrier.init.shared::cta.b64 [bar], 32; @!%p2 mbarrier.arrive.shared::cta.b64 _, [bar];",
            seed=seed,
        )
        assert seen.kinds == ["mbarrier-misuse"]
    _, seen = run(init(32) + "@!%p2 mbarrier.arrive.shared::cta.b64 _, [bar];")
    assert (seen.fault, seen.findings) == (None, [])


def test_a_wait_for_the_wrong_phase_uses_the_word_too_early() -> None:
    _, seen = run(
        init(1) + PASS_ON.replace("ARRIVE", "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];").replace("WAIT", wait("1"))
    )
    assert "shared-race" in seen.kinds


def test_an_arrival_that_releases_nothing() -> None:
    _, seen = run(
        init(1)
        + PASS_ON.replace("ARRIVE", "@%p1 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];").replace(
            "WAIT", wait()
        )
    )
    assert "shared-race" in seen.kinds


def test_a_deadlock_says_what_each_mbarrier_lacks() -> None:
    _, seen = run(init(2) + "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 48;" + wait())
    assert seen.fault is not None
    assert "deadlock in k: warp 0 waits at line" in seen.fault
    assert "phase 0: 1 of 2 arrivals and 48 bytes are missing" in seen.fault


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("root", ["bar", "barrier"])
def test_warps_that_only_arrive(root: str, seed: int) -> None:
    body = (
        FIRST
        + f"@!%p2 bra C; st.shared.u32 [tile], 77; {root}.arrive 3, 64; bra E; C: {root}.sync 3, 64; ld.shared.u32 %r5, [tile]; E: @%p2 mov.u32 %r5, 77;"
    )
    out, seen = run(body + OUT, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [77] * 64


def test_a_barrier_whose_numbers_differ_stops() -> None:
    _, seen = run(FIRST + "@%p2 bra A; bar.sync 3, 96; bra E; A: bar.sync 3, 64; E:")
    assert seen.fault is not None
    assert "barrier 3 has a number of" in seen.fault


def test_one_lane_is_elected() -> None:
    out, seen = run(
        "mov.u32 %r5, 0; elect.sync %r6|%p3, -1; @%p3 add.s32 %r5, %r6, 100; elect.sync _|%p4, -1; @%p4 add.s32 %r5, %r5, 1;"
        + OUT
    )
    assert (seen.fault, seen.findings) == (None, [])
    assert sorted(out.tolist()) == [0] * 62 + [101] * 2


def test_setmaxnreg_takes_steps_of_eight() -> None:
    assert run("setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.inc.sync.aligned.u32 232;", 128)[1].fault is None
    for count in (20, 44, 264):
        fault = run(f"setmaxnreg.inc.sync.aligned.u32 {count};", 128)[1].fault
        assert fault is not None
        assert "a multiple of 8" in fault


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_gives_back_what_ldmatrix_takes(count: int, transposed: bool) -> None:
    words = "{" + ", ".join(f"%r{10 + k}" for k in range(count)) + "}"
    sets = "".join(f"mad.lo.u32 %r{10 + k}, %r0, 131074, {65536 + 256 * k + 256 * 65536 * k};" for k in range(count))
    loads = "".join(
        f"mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3+{128 * k}], %r{20 + k};" for k in range(count)
    )
    trans = ".trans" if transposed else ""
    body = (
        f"{sets} mov.u32 %r6, tile; shl.b32 %r7, %r0, 4; add.s32 %r6, %r6, %r7; stmatrix.sync.aligned.m8n8.x{count}{trans}.shared::cta.b16 [%r6], {words};"
        f"bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {words.replace('%r1', '%r2')}, [%r6];{loads}"
    )
    out = np.zeros((count, 32), np.uint32)
    seen = launch(module(body, head=HEAD), out)
    assert (seen.fault, seen.findings) == (None, [])
    lane = np.arange(32)
    for k in range(count):
        np.testing.assert_array_equal(out[k], lane * 131074 + 65536 + 256 * k + 256 * 65536 * k)

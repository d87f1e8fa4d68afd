"""Faults in PTX texts: what is changed, and what the outcome of a run is called. Nothing is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.planted.outcomes import Caught, sampled, summary
from tests.support.planted.ptx import faults
from tests.support.planted.ptx_rows import GUARD_FALSE, rows
from tests.support.planted.statements import Fault, Planted, planted, statements, trapped
from tests.support.planted.workers import Seen


def changes(line: str, kind: Planted) -> list[str]:
    """What a fault of one class makes of a line."""
    return [fault.after for fault in faults(f"{line}\n", row_bytes=128) if fault.kind is kind]


@pytest.mark.parametrize(
    ("line", "kind", "after"),
    [
        ("\tcp.async.wait_group 1;", Planted.WAIT_DROPPED, ""),
        ("cp.async.wait_group 1;", Planted.WAIT_RAISED, "cp.async.wait_group 2;"),
        ("wgmma.wait_group.sync.aligned 0;", Planted.WAIT_RAISED, "wgmma.wait_group.sync.aligned 1;"),
        ("mbarrier.try_wait.parity.shared::cta.b64 P1, [%r46], %r712; ", Planted.WAIT_SKIPPED, "setp.eq.u32 P1, 0, 0;"),
        ("mbarrier.try_wait.parity.shared::cta.b64 P1, [%r46], %r7;", Planted.PARITY,
         "{ .reg .b32 %planted; xor.b32 %planted, %r7, 1; mbarrier.try_wait.parity.shared::cta.b64 P1, [%r46], %planted; }"),
        ("wgmma.commit_group.sync.aligned;", Planted.COMMIT, ""),
        ("fence.proxy.async.shared::cta;", Planted.FENCE, ""),
        ("fence.mbarrier_init.release.cluster;", Planted.FENCE, ""),
        ("setmaxnreg.dec.sync.aligned.u32 32;", Planted.REGISTERS, ""),
        ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5];", Planted.ARRIVAL, ""),
        ("cp.async.cg.shared.global.L2::128B [%r1], [%rd2], 16, %r3;", Planted.LOST, ""),
        ("bar.sync \t0;", Planted.BARRIER, ""),
        ("bar.arrive %r1, %r2;", Planted.BARRIER_COUNT,
         "{ .reg .b32 %planted; add.s32 %planted, %r2, 32; bar.arrive %r1, %planted; }"),
        ("@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %r2;", Planted.BYTES,
         "{ .reg .b32 %planted; add.s32 %planted, %r2, 16; @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %planted; }"),
        ("mbarrier.init.shared::cta.b64 [%r6], 1;", Planted.ARRIVAL_COUNT,
         "{ .reg .b32 %planted; add.s32 %planted, 1, 1; mbarrier.init.shared::cta.b64 [%r6], %planted; }"),
        ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [ %rd47 + 32 ];", Planted.BY_AN_ELEMENT, "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd47+48];"),
        ("st.global.f32 [%rd92+-4], %f5;", Planted.BY_A_ROW, "st.global.f32 [%rd92+124], %f5;"),
        ("st.shared.b32 [%r9], %r1;", Planted.FAR_AWAY, "st.shared.b32 [%r9+16777216], %r1;"),
        ("st.shared.b32 [%r9+8], %r1;", Planted.SWIZZLE,
         "{ .reg .b32 %planted; xor.b32 %planted, %r9, 16; st.shared.b32 [%planted+8], %r1; }"),
        ("@%p1 bra $L;", Planted.NEGATED, "@!%p1 bra $L;"),
        ("@!%p1 bra $L;", Planted.NEGATED, "@%p1 bra $L;"),
        ("@%p1 bra $L;", Planted.UNGUARDED, "bra $L;"),
        ("sub.ftz.f32 %f1, %f2, %f3;", Planted.SWAPPED, "sub.ftz.f32 %f1, %f3, %f2;"),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", Planted.SWAPPED, "fma.rn.f32 %f1, %f2, %f4, %f3;"),
        ("selp.b32 %r1, %r2, 0, %p1;", Planted.SWAPPED, "selp.b32 %r1, 0, %r2, %p1;"),
        ("setp.lt.s32 %p1, %r1, 5;", Planted.SWAPPED, "setp.lt.s32 %p1, 5, %r1;"),
        ("add.s32 %r1, %r2, 7;", Planted.CONSTANT, "add.s32 %r1, %r2, 8;"),
        ("mul.f32 %f1, %f2, 0f3F800000;", Planted.CONSTANT, "mul.f32 %f1, %f2, 0f3F000000;"),
        ("cvt.rn.f16.f32 %rs1, %f1;", Planted.ROUNDING, "cvt.rz.f16.f32 %rs1, %f1;"),
        ("cvt.rn.bf16x2.f32 %r1, %f2, %f1;", Planted.VECTOR, "cvt.rn.bf16x2.f32 %r1, %f1, %f2;"),
        ("ld.shared.v2.b32 {%r1, %r2}, [%r3];", Planted.VECTOR, "ld.shared.v2.b32 {%r2, %r1}, [%r3];"),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 2, 31, -1;", Planted.SHUFFLE,
         "{ .reg .b32 %planted; xor.b32 %planted, 2, 1; shfl.sync.bfly.b32 %r1|%p1, %r2, %planted, 31, -1; }"),
        ("add.s32 %r1, %r2, %r9;", Planted.RENUMBERED, "add.s32 %r1, %r2, %r8;"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, {%r1, %r2}, %rd2, p, 1, 1;", Planted.KEPT,
         "{ .reg .pred %planted; not.pred %planted, p; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, {%r1, %r2}, %rd2, %planted, 1, 1; }"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, %rd1, %rd2, 1, 1, 1;", Planted.SWAPPED,
         "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, %rd2, %rd1, 1, 1, 1;"),
    ],
)  # fmt: skip
def test_a_fault_changes_one_thing(line: str, kind: Planted, after: str) -> None:
    assert changes(line, kind) == [after]


def test_both_fragments_of_a_product_are_exchanged() -> None:
    line = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1, %r2}, {%r3, %r4}, {%f1, %f2};"
    assert [after.split("32 ", 1)[1] for after in changes(line, Planted.FRAGMENT)] == [
        "{%f1, %f2}, {%r2, %r1}, {%r3, %r4}, {%f1, %f2};",
        "{%f1, %f2}, {%r1, %r2}, {%r4, %r3}, {%f1, %f2};",
    ]


def test_lines_that_are_no_single_statement_are_left_alone() -> None:
    text = ".reg .pred p;\n$L:\n// add.s32 %r1, %r2, 7;\n{ add.s32 %r1, %r2, 7; add.s32 %r1, %r1, 7; }\nret;\n"
    assert [s.opcode for s in statements(text)] == ["ret"]


def test_a_text_keeps_its_lines() -> None:
    text = "mov.u32 %r1, 1;\nbar.sync 0;\n@%p1 st.global.u32 [%rd1], %r1;\n"
    for fault in faults(text, 128):
        changed = planted(text, fault).splitlines()
        assert [n for n, line in enumerate(text.splitlines()) if changed[n] != line] == [fault.line]
    (barrier,) = (f for f in faults(text, 128) if f.kind is Planted.BARRIER)
    assert trapped(text, barrier).splitlines()[1] == "trap; bar.sync 0;"
    negated = next(f for f in faults(text, 128) if f.kind is Planted.NEGATED)
    assert trapped(text, negated, guarded=True).splitlines()[2].startswith("@%p1 trap; @%p1 st.global")


def test_a_sample_takes_as_many_of_each_class_and_depends_on_the_seed() -> None:
    every = faults("".join(f"bar.sync {n % 9};\nadd.s32 %r1, %r2, {n};\n" for n in range(40)), 128)
    drawn = sampled(every, 3, 0)
    assert set(Counter(f.kind for f in drawn).values()) == {3}
    assert drawn == sampled(every, 3, 0) != sampled(every, 3, 1)
    assert drawn == sorted(drawn, key=lambda f: (f.line, f.kind))


GOOD = Seen("PASSED", (), "", "same")
FINDING = ({"kind": "missing-wait", "address": 7, "count": 1},)


@dataclass
class Machine:
    """A kernel whose runs are answered by a function of the faults and the seed."""

    answer: Callable[[tuple[Fault, ...], int], Seen]
    reached: bool = True
    plain: Seen = field(default=GOOD)

    def run(self, *faults: Fault, seed: int = 0) -> Seen:
        return self.answer(faults, seed)

    def reaches(self, fault: Fault, *, guarded: bool = False) -> bool:
        return self.reached


WAIT = Fault(Planted.WAIT_DROPPED, 3, "cp.async.wait_group 0;", "")
OTHER = Fault(Planted.BARRIER, 5, "bar.sync 0;", "")
NUMBER = Fault(Planted.CONSTANT, 4, "add.s32 %r1, %r2, 7;", "add.s32 %r1, %r2, 8;")


def outcome(machine: Machine, fault: Fault) -> dict[str, Any]:
    (row,) = rows(machine, [fault], [WAIT, OTHER, NUMBER])
    return row


@pytest.mark.promise("A fault planted in a real kernel's PTX is caught, or a further run explains it.")
@pytest.mark.parametrize(
    ("seen", "caught"),
    [
        (Seen("HAZARD", FINDING, ""), Caught.NAMED),
        (Seen("LAUNCH_FAILED", (), "deadlock: warp 0 waits at line 7"), Caught.NAMED),
        (Seen("WRONG", (), ""), Caught.NUMBERS),
        (Seen("CRASHED", (), ""), Caught.NUMBERS),
        (Seen("TIMED_OUT", (), ""), Caught.HANGS),
        (Seen("PASSED", (), "", "same"), Caught.NO_EFFECT),
        (Seen("PASSED", (), "", "other"), Caught.WITHIN_BUDGET),
    ],
)
def test_what_a_run_shows(seen: Seen, caught: Caught) -> None:
    assert outcome(Machine(lambda faults, seed: seen), NUMBER)["caught"] == caught


def test_a_place_that_nothing_reaches_is_an_explanation() -> None:
    assert outcome(Machine(lambda faults, seed: GOOD, reached=False), WAIT)["caught"] == Caught.NEVER_EXECUTED


@pytest.mark.parametrize(
    ("before", "after", "caught"),
    [
        ("@%p1 bar.sync 0;", "", Caught.NEVER_EXECUTED),
        ("@%p1 mbarrier.arrive [%r1];", "{ .reg .b32 %planted; @%p1 mbarrier.arrive [%planted]; }", Caught.NEVER_EXECUTED),
        ("@%p1 bra L;", "bra L;", Caught.NO_EFFECT),
        ("@%p1 bra L;", "@!%p1 bra L;", Caught.NO_EFFECT),
    ],
)  # fmt: skip
def test_a_statement_whose_predicate_is_false_is_not_executed(before: str, after: str, caught: Caught) -> None:
    """Unless the fault is in the predicate."""

    class Guarded(Machine):
        def reaches(self, fault: Fault, *, guarded: bool = False) -> bool:
            return not guarded

    row = outcome(Guarded(lambda faults, seed: GOOD), Fault(Planted.CONSTANT, 3, before, after))
    assert (row["caught"], row["why"]) == (caught, GUARD_FALSE if caught == Caught.NEVER_EXECUTED else "")


@pytest.mark.parametrize(
    "kind", [Planted.WAIT_DROPPED, Planted.PARITY, Planted.ARRIVAL, Planted.ARRIVAL_COUNT, Planted.BYTES]
)
def test_an_order_of_warps_may_show_a_fault(kind: Planted) -> None:
    fault = Fault(kind, 3, "a;", "b;")
    row = outcome(Machine(lambda faults, seed: Seen("HAZARD", FINDING, "") if seed == 2 else GOOD), fault)
    assert (row["caught"], row["why"], row["kinds"]) == (Caught.NAMED, "seed 2", ["missing-wait"])


def test_another_barrier_that_does_the_work_is_found_by_dropping_both() -> None:
    row = outcome(Machine(lambda faults, seed: Seen("HAZARD", FINDING, "") if len(faults) == 2 else GOOD), WAIT)
    assert (row["caught"], row["why"]) == (Caught.COVERED, "lines 6")


def test_a_wait_guards_nothing_if_no_bit_changes_alone_or_with_others_under_any_seed() -> None:
    assert outcome(Machine(lambda faults, seed: GOOD), WAIT)["caught"] == Caught.IDLE
    alone = Machine(lambda faults, seed: Seen("HAZARD", FINDING, "") if OTHER in faults else GOOD)
    assert outcome(alone, WAIT)["caught"] == Caught.IDLE
    other = Machine(lambda faults, seed: Seen("PASSED", (), "", "other") if seed == 2 else GOOD)
    assert outcome(other, WAIT)["caught"] == Caught.UNEXPLAINED


def test_others_whose_loss_never_ends_are_no_cover() -> None:
    """Nor is the fault run with them."""
    ran: list[tuple[Fault, ...]] = []

    def answer(faults: tuple[Fault, ...], seed: int) -> Seen:
        ran.append(faults)
        return Seen("TIMED_OUT", (), "") if OTHER in faults else GOOD

    assert outcome(Machine(answer), WAIT)["caught"] == Caught.IDLE
    assert (WAIT, OTHER) not in ran


KNOWN = Seen("HAZARD", ({"kind": "missing-fence", "address": 3, "count": 9},), "", "same")


@pytest.mark.parametrize(
    ("seen", "caught", "kinds"),
    [
        (KNOWN, Caught.NO_EFFECT, []),
        (Seen("HAZARD", (*KNOWN.findings, *FINDING), ""), Caught.NAMED, ["missing-wait"]),
        (Seen("HAZARD", ({"kind": "missing-fence", "address": 4, "count": 1},), ""), Caught.NAMED, ["missing-fence"]),
        (Seen("WRONG", KNOWN.findings, ""), Caught.NUMBERS, []),
        (Seen("HAZARD", KNOWN.findings, "", wrong=True), Caught.NUMBERS, []),
        (Seen("HAZARD", (), "", "same"), Caught.NO_EFFECT, []),
    ],
)
def test_a_finding_of_the_kernel_itself_catches_nothing(seen: Seen, caught: Caught, kinds: list[str]) -> None:
    row = outcome(Machine(lambda faults, seed: seen, plain=KNOWN), NUMBER)
    assert (row["caught"], row["kinds"]) == (caught, kinds)


def test_a_text_that_does_not_load_keeps_its_row_and_counts_nowhere() -> None:
    def refused(faults: tuple[Fault, ...], seed: int) -> Seen:
        raise ValueError("line 5: it is no PTX")

    row = {"kernel": "k", **outcome(Machine(refused), NUMBER)}
    assert (row["caught"], row["note"]) == (None, "line 5: it is no PTX")
    assert "| **all** | 0 | 0 | 0 | 0 | 0 |  |" in summary([row])
    assert (row["line"], row["after"]) == (5, NUMBER.after)

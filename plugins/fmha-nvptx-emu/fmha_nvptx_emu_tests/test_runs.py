"""Runs of products and of plain instructions, and accesses by all lanes at once: each ends as in a careful run (``launch`` compares)."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, library, module

KINDS = {"m16n8k8.row.col.f32.tf32.tf32.f32": (4, 4, 2, True), "m16n8k16.row.col.f16.f16.f16.f16": (2, 4, 2, True), "m16n8k16.row.col.f32.f16.f16.f32": (4, 4, 2, False), "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 4, 2, False), "m16n8k32.row.col.f32.e5m2.e5m2.f32": (4, 4, 2, False)}  # fmt: skip
"""Products by their modifiers: the registers of D, A and B, and whether a sum has the format of a factor."""

POOL = 24
"""Registers that the products use; few, so that many depend on each other. No number becomes so large that NaN would arise: its
bits are not the same in a careful run."""


def product(rng: random.Random, kind: str, lefts: list[int]) -> str:
    d, a, b, alike = KINDS[kind]
    sums, factors = (range(POOL), range(POOL)) if alike else (range(8, POOL), range(8))
    left = rng.choice(lefts)
    first = rng.randrange(sums.start, POOL, 4)
    own = rng.choice((range(first, first + d), range(first, first + d), rng.sample(sums, d)))
    groups = (own, range(left, left + a), rng.sample(factors, b), rng.choice((own, own, own, rng.sample(sums, d))))
    operands = ", ".join("{" + ", ".join(f"%r{10 + n}" for n in group) + "}" for group in groups)
    guard = "" if rng.randrange(6) else rng.choice(("@%p2 ", "@%p3 ", "@%p4 "))
    return f"{guard}mma.sync.aligned.{kind} {operands};"


def products(kind: str, seed: int) -> str:
    """Products, some of registers that hold nothing, with a guard, of all lanes or of none, or in a warp whose lanes are apart."""
    rng = random.Random(seed)
    lefts = rng.sample(range(POOL - 3 if KINDS[kind][3] else 5), rng.choice((1, 2, 5)))
    made = []
    for _ in range(rng.randrange(2, 24)):
        made.append(product(rng, kind, lefts))
        if not rng.randrange(12):
            made.append(f"xor.b32 %r{10 + rng.randrange(POOL)}, %r50, 0;")
    if not rng.randrange(3):  # some lanes come later
        made.insert(rng.randrange(len(made)), "@%p1 bra LATE; add.u32 %r51, %r51, 1; LATE:")
    never = rng.randrange(8) if seed % 4 == 2 and not KINDS[kind][3] else -1  # written
    loads = "\n".join(f"ld.global.b32 %r{10 + n}, [%rd2+{128 * n}];" for n in range(POOL) if n != never)
    stores = "\n".join(f"st.global.b32 [%rd3+{128 * n}], %r{10 + n};" for n in range(POOL))
    nothing = "" if seed % 4 else f"ld.shared.u32 %r{10 + rng.randrange(POOL)}, [tile];"
    return module(
        f"""ld.param.u64 %rd1, [p1]; mad.wide.u32 %rd2, %r0, 4, %rd1; mad.wide.u32 %rd3, %r0, 4, %rd0; mov.u32 %r51, 0; mov.u32 %r50, 0;
setp.lt.u32 %p1, %r0, {rng.randrange(1, 32)}; setp.lt.u32 %p2, %r0, 32; setp.gt.u32 %p3, %r0, 32; {"ld.shared.u32 %r52, [tile]" if seed % 2 else "mov.u32 %r52, 1"}; setp.ne.u32 %p4, %r52, 0;
{loads}
{nothing}
{chr(10).join(made)}
{stores}""",
        ".param .u64 p0, .param .u64 p1",
        head=".shared .align 16 .b8 tile[16];",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_products_in_runs_are_those_one_by_one(kind: str) -> None:
    kinds: Counter[str] = Counter()
    type_ = {"tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "e5m2": ml_dtypes.float8_e5m2}
    for seed in range(80):
        numbers = np.random.default_rng(seed).normal(0, 0.2, POOL * 128).astype(type_[kind.split(".")[4]])
        words = numbers.view(np.uint32)[: POOL * 32].copy()
        if not KINDS[kind][3]:
            words[8 * 32 :] = (
                np.random.default_rng(seed).normal(0, 1, (POOL - 8) * 32).astype(np.float32).view(np.uint32)
            )
        seen = launch(products(kind, seed), np.zeros((POOL, 32), np.uint32), words)
        assert seen.fault is None, seen.fault
        kinds.update(set(seen.kinds))
    assert set(kinds) == {"uninitialised-register"}, kinds
    assert kinds["uninitialised-register"] >= 10


def test_each_product_reports_lanes_that_are_missing() -> None:
    one, two = (
        f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{', '.join(f'%r{n + k}' for k in range(4))}}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {{%r1, %r1, %r1, %r1}};"
        for n in (10, 20)
    )
    text = module(
        f"""mov.u32 %r1, 0; setp.lt.u32 %p1, %r0, 9; @%p1 bra OTHERS; {one} bra DONE; OTHERS: {one} {two} DONE:
mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r10;"""
    )
    seen = launch(text, np.zeros(32, np.uint32))
    assert seen.kinds == ["divergent-barrier", "divergent-barrier"]


def values(rng: random.Random) -> Iterator[str]:
    """Instructions over four registers, of which %r43 may hold nothing, with loads of undefined words and short branches between."""
    for number in range(rng.randrange(6, 30)):
        to, one, other = (f"%r{rng.randrange(40, 44)}" for _ in range(3))
        match rng.randrange(10):
            case 0:
                yield f"ld.shared.u32 {to}, [%r31+{4 * rng.randrange(4) * 32}];"
            case 1:
                yield f"setp.lt.u32 %p1, {one}, {rng.randrange(64)}; @%p1 bra L{number}; add.u32 {to}, {one}, {other}; xor.b32 {other}, {to}, 3; L{number}: add.u32 {one}, {one}, 1;"
            case 2:
                yield f"mov.b32 {{%h1, %h2}}, {one}; mov.b32 {to}, {{%h2, %h1}};"
            case 3:
                yield f"@%p1 sub.u32 {to}, {one}, {other};"
            case _:
                yield f"{rng.choice(('add.u32', 'xor.b32', 'mul.lo.u32', 'min.u32'))} {to}, {one}, {other};"


def test_runs_of_plain_instructions_end_the_same() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(240):
        rng = random.Random(seed)
        body = "\n".join(values(rng))
        text = module(
            f"""setp.lt.u32 %p1, %r0, 9; mov.u32 %r40, %r0; mov.u32 %r41, 5; mov.u32 %r42, %r0; shl.b32 %r31, %r0, 2; mov.u32 %r30, tile;
add.u32 %r31, %r31, %r30; {"mov.u32 %r43, 9;" if seed % 3 else ""} st.shared.u32 [%r31], %r0; st.shared.u32 [%r31+256], %r0; bar.sync 0;
{body}
mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r40; st.global.u32 [%rd3+128], %r41;""",
            head=".shared .align 16 .b8 tile[512];",
        )
        seen = launch(text, np.zeros(64, np.uint32), seed=seed)
        assert seen.fault is None, seen.fault
        kinds.update(seen.kinds)
    assert kinds["uninitialised-register"] >= 40, kinds


@pytest.mark.parametrize("turn", [1, 3, 7])
def test_a_run_ends_with_its_warps_turn(turn: int) -> None:
    """Two warps add to one word; what they leave there tells how many instructions each executed at a time."""
    plain = "add.u32 %r40, %r40, 1; xor.b32 %r41, %r40, %r0; shl.b32 %r42, %r41, 1;"
    word = "ld.global.u32 %r44, [%rd0]; mad.lo.u32 %r44, %r44, 3, %r0; st.global.u32 [%rd0], %r44;"
    text = module(f"mov.u32 %r40, 0; {(plain * 4 + word) * 6}")
    library().emu_turn(ctypes.c_uint64(turn))
    try:
        for seed in range(6):
            seen = launch(text, np.zeros(1, np.uint32), block=(64, 1, 1), seed=seed)
            assert seen.fault is None
    finally:
        library().emu_turn(ctypes.c_uint64(0))


@pytest.mark.parametrize("only", ["first", "second"])
def test_each_block_begins_with_registers_that_hold_nothing(only: str) -> None:
    """One block writes the register, or meets a word that holds nothing; the other one begins as if it were the first."""
    relation = "eq" if only == "first" else "ne"
    text = module(
        f"""mov.u32 %r30, %ctaid.x; setp.{relation}.u32 %p1, %r30, 0; mov.u32 %r31, tile; mad.lo.u32 %r31, %r0, 4, %r31;
@%p1 mov.u32 %r40, 1; @%p1 bra DONE; ld.shared.u32 %r41, [%r31]; add.u32 %r42, %r41, 1; DONE: mov.u32 %r43, %r30; mov.u32 %r42, %r0;
mad.wide.u32 %rd3, %r0, 4, %rd0; @%p1 st.global.u32 [%rd3], %r40; add.u32 %r40, %r40, %r42; st.global.u32 [%rd3+128], %r40;""",
        head=".shared .align 16 .b8 tile[128];",
    )
    seen = launch(text, np.zeros(64, np.uint32), grid=(2, 1, 1))
    assert [found["count"] for found in seen.findings if found["kind"] == "uninitialised-register"] == [1]


def test_what_a_block_met_is_forgotten_by_the_next_one() -> None:
    """The first block moves a word that holds nothing into a register; the second one writes it, and meets such a word later."""
    text = module(
        """mov.u32 %r30, %ctaid.x; setp.eq.u32 %p1, %r30, 0; mov.u32 %r40, 5; mov.u32 %r41, %r40; mov.u32 %r45, %r0; mov.u32 %r46, %r45;
@%p1 ld.shared.u32 %r40, [tile]; @!%p1 ld.shared.u32 %r45, [tile+4]; mov.u32 %r46, %r45; mov.u32 %r47, 0;
setp.ne.u32 %p3, %r40, 7; @%p3 bra THERE; mov.u32 %r47, 1; THERE: mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r47;""",
        head=".shared .align 16 .b8 tile[128];",
    )
    counts = {blocks: launch(text, np.zeros(32, np.uint32), grid=(blocks, 1, 1)).findings for blocks in (1, 2)}
    assert counts[1]
    assert [(one["kind"], one["count"]) for one in counts[1]] == [(two["kind"], two["count"]) for two in counts[2]]


COPIES = {
    "all lanes": ("", "", []),
    "backwards": ("mul.lo.u32 %r34, %r0, 16; sub.u32 %r34, 496, %r34;", "", []),
    "one place for all": ("mov.u32 %r34, 32;", "", []),
    "half": ("", "cp.async.ca.shared.global [%r33], [%rd4], 8; st.shared.v2.u32 [%r33+8], {%r0, %r0};", []),
    "a wide address": ("", "cp.async.cg.shared.global [%rd5], [%rd4], 16;", []),
    "a part": ("", ", %r35", []),
    "misaligned source": ("add.u32 %r34, %r34, 4;", "", ["misaligned"]),
    "misaligned source that is there": ("shr.u32 %r34, %r34, 1;", "", ["misaligned"]),
    "source outside": ("add.u32 %r34, %r34, 512;", "", ["out-of-bounds"]),
    "misaligned place": ("add.u32 %r33, %r33, 8;", "", ["misaligned"]),
    "place outside": ("add.u32 %r33, %r33, 528;", "", ["out-of-bounds"]),
    "no place": ("setp.lt.u32 %p1, %r0, 40; @!%p1 mov.u32 %r36, 0; and.b32 %r36, %r36, 0; add.u32 %r33, %r33, %r36;", "", ["uninitialised-register"]),
    "no source": ("setp.lt.u32 %p1, %r0, 40; @!%p1 mov.u32 %r36, 0; and.b32 %r36, %r36, 0; add.u32 %r34, %r34, %r36;", "", ["uninitialised-register"]),
    "some lanes": ("setp.lt.u32 %p1, %r0, 7; @%p1 bra DONE;", "", []),
    "some lanes, all look": ("st.shared.v4.u32 [%r33], {%r0, %r0, %r0, %r0}; setp.ge.u32 %p1, %r0, 7;", "@%p1 cp.async.cg.shared.global [%r33], [%rd4], 16;", []),
}  # fmt: skip


@pytest.mark.parametrize("case", COPIES)
@pytest.mark.parametrize("checks", [True, False])
def test_copies_by_all_lanes_end_the_same(case: str, checks: bool) -> None:
    change, size, kinds = COPIES[case]
    text = module(
        f"""ld.param.u64 %rd1, [p1]; mov.u32 %r32, tile; mad.lo.u32 %r33, %r0, 16, %r32; shl.b32 %r34, %r0, 4; min.u32 %r35, %r0, 16;
cp.async.cg.shared.global [%r33+512], [%rd1], 16; cp.async.wait_all; // so that the range is known
{change}
cvt.u64.u32 %rd4, %r34; add.s64 %rd4, %rd4, %rd1;
cvt.u64.u32 %rd5, %r33; {size if size.endswith(";") else f"cp.async.cg.shared.global [%r33], [%rd4], 16{size};"} cp.async.commit_group; cp.async.wait_group 0;
ld.shared.v4.u32 {{%r40, %r41, %r42, %r43}}, [%r33]; mad.wide.u32 %rd3, %r0, 16, %rd0; st.global.v4.u32 [%rd3], {{%r40, %r41, %r42, %r43}};
DONE: ret;""",
        ".param .u64 p0, .param .u64 p1",
        head=".shared .align 16 .b8 tile[1024];",
    )
    seen = launch(text, np.zeros(128, np.uint32), np.arange(128, dtype=np.uint32), checks=checks)
    assert seen.fault is None
    memory = {"misaligned", "out-of-bounds"}
    assert set(seen.kinds) >= {kind for kind in kinds if checks or kind in memory}
    assert checks or set(seen.kinds) <= memory
    assert bool(seen.kinds) == bool(set(kinds) & (memory if not checks else {*memory, "uninitialised-register"}))


@pytest.mark.parametrize("wait", ["", "cp.async.wait_all; bar.sync 0;"])
def test_warps_that_copy_to_one_place_are_named_unless_they_wait(wait: str) -> None:
    """Lanes of the second warp copy to the pieces of the first one, which are still on their way without ``wait``."""
    text = module(
        f"""ld.param.u64 %rd1, [p1]; and.b32 %r31, %r0, 31; shl.b32 %r34, %r31, 4; mov.u32 %r32, tile; add.u32 %r33, %r32, %r34;
cvt.u64.u32 %rd4, %r34; add.s64 %rd4, %rd4, %rd1; mad.lo.u32 %r30, %r0, 16, %r32; cp.async.cg.shared.global [%r30+512], [%rd1], 16; cp.async.wait_all; bar.sync 0;
setp.ge.u32 %p1, %r0, 32; @%p1 bra SECOND; cp.async.cg.shared.global [%r33], [%rd4], 16; cp.async.commit_group; {wait} bra.uni BEHIND;
SECOND: {wait.replace("cp.async.wait_all;", "")} cp.async.cg.shared.global [%r33], [%rd4], 16; cp.async.commit_group;
BEHIND: cp.async.wait_all; bar.sync 1; ld.shared.v4.u32 {{%r40, %r41, %r42, %r43}}, [%r33]; mad.wide.u32 %rd3, %r31, 16, %rd0; add.u32 %r40, %r40, %r41; @!%p1 st.global.u32 [%rd3], %r40;""",
        ".param .u64 p0, .param .u64 p1",
        head=".shared .align 16 .b8 tile[1536];",
    )
    kinds = set()
    for seed in range(4):
        seen = launch(text, np.zeros(128, np.uint32), np.arange(128, dtype=np.uint32), block=(64, 1, 1), seed=seed)
        assert seen.fault is None
        kinds |= set(seen.kinds)
    assert kinds == (set() if wait else {"shared-race"})


def exponentials(ftz: str, guard: str) -> Array:
    values = np.concatenate(
        [
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -126.0, -126.5, -149.0, -149.5, -150.0, -161.0, 127.9, 128.0, 131.0], np.float32),
            np.frombuffer(np.random.default_rng(3).bytes(4 * 4081), np.uint32).view(np.float32),
        ]
    )  # fmt: skip
    values[2048:] = np.random.default_rng(4).uniform(-152, 129, 2048).astype(np.float32)
    text = module(
        f"""ld.param.u64 %rd1, [p1]; mov.u32 %r30, %ctaid.x; shl.b32 %r30, %r30, 5; add.u32 %r30, %r30, %r0; mad.wide.u32 %rd2, %r30, 4, %rd1;
mad.wide.u32 %rd3, %r30, 4, %rd0; setp.lt.u32 %p1, %r0, 17; mov.b32 %f2, 0f3F800000; ld.global.f32 %f1, [%rd2]; {guard}ex2.approx{ftz}.f32 %f2, %f1; st.global.f32 [%rd3], %f2;""",
        ".param .u64 p0, .param .u64 p1",
    )
    out = np.zeros(4096, np.float32)
    assert launch(text, out, values, grid=(128, 1, 1)).findings == []
    return np.stack([values, out])


@pytest.mark.parametrize("guard", ["", "@%p1 "])
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_powers_of_two_have_the_same_bits(ftz: str, guard: str) -> None:
    """``launch`` compares them with those of a careful run, which computes one after the other."""
    values, out = exponentials(ftz, guard)
    with np.errstate(all="ignore"):
        wanted = np.exp2(values.astype(np.float64)).astype(np.float32)
    if ftz:
        wanted[np.abs(wanted) < np.finfo(np.float32).tiny] = 0
    lanes = np.arange(4096) % 32 < (17 if guard else 32)
    np.testing.assert_array_max_ulp(out[lanes & np.isfinite(wanted)], wanted[lanes & np.isfinite(wanted)], 1)
    assert np.isnan(out[lanes & np.isnan(values)]).all()


PARAMETERS = {
    "one": ("ld.param.u32 %r40, [p1];", []),
    "two": ("ld.param.v2.u32 {%r40, %r41}, [p1];", []),
    "a half word": ("ld.param.u16 %h1, [p1]; cvt.u32.u16 %r40, %h1;", []),
    "into a wider register": ("ld.param.u32 %rd5, [p1]; cvt.u32.u64 %r40, %rd5;", []),
    "outside": ("ld.param.u32 %r40, [p1+8];", ["out-of-bounds"]),
    "misaligned": ("ld.param.u32 %r40, [p1+2];", ["misaligned"]),
    "some lanes": ("setp.lt.u32 %p1, %r0, 9; mov.u32 %r40, 3; @%p1 ld.param.u32 %r40, [p1];", []),
    "from a register": ("mov.u64 %rd4, p1; ld.param.u32 %r40, [%rd4];", []),
    "from a register without a value": ("mov.u64 %rd4, p1; setp.lt.u32 %p1, %r0, 40; @!%p1 mov.u64 %rd5, 0; and.b64 %rd5, %rd5, 0; add.u64 %rd4, %rd4, %rd5; ld.param.u32 %r40, [%rd4];", ["uninitialised-register"]),
    "lanes apart": ("mov.u64 %rd4, p1; and.b32 %r41, %r0, 1; mad.wide.u32 %rd4, %r41, 4, %rd4; ld.param.u32 %r40, [%rd4]; setp.eq.u32 %p1, %r41, 1; @%p1 sub.u32 %r40, %r40, 0x12345671;", []),
}  # fmt: skip


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_end_the_same(case: str) -> None:
    body, kinds = PARAMETERS[case]
    text = module(
        f"{body} mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r40;",
        ".param .u64 p0, .param .align 8 .b8 p1[8]",
    )
    out = np.zeros(32, np.uint32)
    seen = launch(text, out, np.uint64(0x1234567800000007))
    assert (seen.fault, seen.kinds) == (None, kinds)
    if not kinds:
        assert set(out.tolist()) == ({7, 3} if case == "some lanes" else {7})


def test_a_load_that_is_larger_than_all_parameters_is_named() -> None:
    seen = launch(
        module("ld.param.v4.u32 {%r40, %r41, %r42, %r43}, [p0]; st.global.u32 [%rd0], %r40;"), np.zeros(4, np.uint32)
    )
    assert (seen.fault, seen.kinds) == (None, ["out-of-bounds"])


@pytest.mark.parametrize("way", ["ascending", "descending", "one", "two in turn", "drawn"])
def test_sectors_of_any_order_are_counted(way: str) -> None:
    lanes = np.arange(32)
    rng = np.random.default_rng(5)
    places = {
        "ascending": lanes,
        "descending": lanes[::-1],
        "one": lanes * 0,
        "two in turn": lanes % 2 * 512,
        "drawn": rng.permutation(1024)[:32],
    }
    at = np.zeros(1024 + 40, np.uint32)
    first = (-at.ctypes.data // 4) % 8  # of a sector
    table = np.ascontiguousarray(places[way] + first, np.uint32)
    text = module(
        "ld.param.u64 %rd1, [p1]; mad.wide.u32 %rd2, %r0, 4, %rd1; ld.global.u32 %r1, [%rd2]; mad.wide.u32 %rd3, %r1, 4, %rd0; ld.global.u32 %r2, [%rd3];",
        ".param .u64 p0, .param .u64 p1",
    )
    own = len({(table.ctypes.data + 4 * lane) // 32 for lane in range(32)})
    seen = launch(text, at, table)
    assert seen.executed["global_sectors"] == own + len(set(places[way] // 8))


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (
            "setp.gt.u32 %p1, %r0, 99; @%p1 bra BEHIND;",
            "BEHIND:",
        ),  # a way that is never taken does not write the registers
        ("ld.shared.u32 %r40, [tile+1024]; mov.u32 %r41, %r40;", ""),  # a word that holds nothing, which is overwritten
    ],
)
@pytest.mark.parametrize("transposed", ["", ".trans"])
def test_four_matrices_write_registers(before: str, behind: str, transposed: str) -> None:
    text = module(
        f"""mov.u32 %r32, tile; mad.lo.u32 %r33, %r0, 16, %r32; st.shared.v4.u32 [%r33], {{%r0, %r0, %r0, %r0}}; bar.warp.sync -1;
{before}
ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{%r40, %r41, %r42, %r43}}, [%r33];
{behind} add.u32 %r44, %r40, %r41; xor.b32 %r44, %r44, %r42; add.u32 %r44, %r44, %r43; setp.ne.u32 %p2, %r44, 7; @%p2 add.u32 %r44, %r44, 1;
mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r44;""",
        head=".shared .align 16 .b8 tile[1040];",
    )
    seen = launch(text, np.zeros(32, np.uint32))
    assert (seen.fault, seen.findings) == (None, [])


def test_matrices_at_a_place_that_was_never_written_are_named() -> None:
    """The register gets the same number on both ways in fact; on one of them it comes from one that holds nothing."""
    text = module(
        """mov.u32 %r32, tile; mad.lo.u32 %r33, %r0, 16, %r32; st.shared.v4.u32 [%r33], {%r0, %r0, %r0, %r0}; bar.warp.sync -1;
setp.lt.u32 %p1, %r0, 40; @!%p1 mov.u32 %r36, 0; and.b32 %r36, %r36, 0; add.u32 %r33, %r33, %r36;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r40, %r41, %r42, %r43}, [%r33];
mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r40;""",
        head=".shared .align 16 .b8 tile[512];",
    )
    seen = launch(text, np.zeros(32, np.uint32))
    assert (seen.fault, seen.kinds) == (None, ["uninitialised-register"])

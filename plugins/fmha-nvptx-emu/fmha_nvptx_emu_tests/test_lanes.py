"""Exchange between lanes, atomics, and loads and stores of every space and width."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, module

OUT = "mad.wide.u32 %rd3, %r0, 4, %rd0;"
STORE = OUT + "st.global.u32 [%rd3], %r5;"


def lanes(body: str, head: str = "", threads: int = 32) -> Array:
    out = np.zeros(threads, np.uint32)
    seen = launch(module(body + STORE, head=head), out, block=(threads, 1, 1))
    assert (seen.fault, seen.findings) == (None, [])
    return out


def shuffled(mode: str, b: int, c: int) -> list[int]:
    """PTX ISA 9.7.9.6, the target lane of each lane's value."""
    out = []
    for lane in range(32):
        clamp, segment = c & 31, c >> 8 & 31
        last, first = (lane & segment) | (clamp & ~segment & 31), lane & segment
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | (b & ~segment & 31)}[mode]
        inside = j >= last if mode == "up" else j <= last
        out.append(j if inside else lane)
    return out


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(("b", "width"), [(1, 32), (3, 32), (16, 32), (2, 8), (5, 4)])
def test_shfl(mode: str, b: int, width: int) -> None:
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    got = lanes(f"shfl.sync.{mode}.b32 %r5|%p1, %r0, {b}, {c}, -1;")
    assert got.tolist() == shuffled(mode, b, c)


def test_votes_and_reductions() -> None:
    odd = "and.b32 %r6, %r0, 1; setp.ne.u32 %p1, %r6, 0;"
    assert (lanes(odd + "vote.sync.ballot.b32 %r5, %p1, -1;") == 0xAAAAAAAA).all()
    assert (lanes(odd + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r5, 1, 0, %p2;") == 1).all()
    assert (lanes(odd + "vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r5, 1, 0, %p2;") == 0).all()
    assert (lanes(odd + "@%p1 bra L; bra E; L: mov.u32 %r7, 0; E: activemask.b32 %r5;") == 0xFFFFFFFF).all()
    assert (lanes("redux.sync.add.u32 %r5, %r0, -1;") == 496).all()
    assert (lanes("sub.s32 %r6, %r0, 9; redux.sync.min.s32 %r5, %r6, -1;").view(np.int32) == -9).all()
    assert (lanes("redux.sync.xor.b32 %r5, %r0, -1;") == 0).all()


@pytest.mark.parametrize(("modifiers", "first", "wanted"), [
    ("max", "0fC1200000", 21.0), ("min", "0fC1200000", -10.0), ("max.abs", "0fC2000000", 32.0), ("min.abs", "0fC1200000", 0.0),
    ("max", "0f7FC00000", 21.0), ("max.NaN", "0f7FC00000", np.nan), ("min.abs.NaN", "0fFFC00000", np.nan),
])  # fmt: skip
def test_redux_of_floats(modifiers: str, first: str, wanted: float) -> None:
    """The values -10 to 21 of 32 lanes, and another one in lane 0."""
    value = (
        f"cvt.rn.f32.u32 %f1, %r0; sub.f32 %f1, %f1, 0f41200000; setp.eq.u32 %p1, %r0, 0; @%p1 mov.f32 %f1, {first};"
    )
    got = lanes(f"{value} redux.sync.{modifiers}.f32 %f2, %f1, -1; mov.b32 %r5, %f2;").view(np.float32)
    np.testing.assert_array_equal(got, np.float32(wanted))


def test_redux_of_floats_without_a_number_and_of_zeros() -> None:
    nan = "mov.f32 %f1, 0fFFC00001; redux.sync.max.f32 %f2, %f1, -1; mov.b32 %r5, %f2;"
    assert (lanes(nan) == 0x7FFFFFFF).all()
    zeros = "and.b32 %r6, %r0, 1; shl.b32 %r6, %r6, 31; mov.b32 %f1, %r6; redux.sync.{} %f2, %f1, -1; mov.b32 %r5, %f2;"
    assert (lanes(zeros.format("max.f32")) == 0).all()
    assert (lanes(zeros.format("min.f32")) == 0x80000000).all()


@pytest.mark.parametrize("seed", range(4))
def test_barriers_that_join_predicates(seed: int) -> None:
    """Warps may be one round ahead; each round's answer is its own."""
    body = (
        "mov.u32 %r5, 0; mov.u32 %r9, 0; L: setp.lt.u32 %p1, %r0, %r9; bar.red.popc.u32 %r6, 0, %p1; bar.red.or.pred %p2, 0, %p1;"
        "bar.red.and.pred %p3, 0, !%p1; selp.u32 %r7, 1000, 0, %p2; selp.u32 %r8, 100000, 0, %p3; add.s32 %r5, %r5, %r6;"
        "add.s32 %r5, %r5, %r7; add.s32 %r5, %r5, %r8; add.s32 %r9, %r9, 10; setp.lt.u32 %p4, %r9, 70; @%p4 bra L;"
    )
    out = np.zeros(96, np.uint32)
    seen = launch(module(body + STORE), out, block=(96, 1, 1), seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == sum(range(0, 70, 10)) + 6 * 1000 + 100000).all()


def test_special_registers() -> None:
    body = "mov.u32 %r6, %laneid; mov.u32 %r7, %warpid; shl.b32 %r7, %r7, 8; add.s32 %r5, %r6, %r7; mov.u32 %r8, %lanemask_lt; popc.b32 %r8, %r8; shl.b32 %r8, %r8, 16; add.s32 %r5, %r5, %r8;"
    t = np.arange(64)
    assert (lanes(body, threads=64) == t % 32 + (t // 32 << 8) + (t % 32 << 16)).all()
    out = np.zeros((3, 2), np.uint32)
    index = "mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %nctaid.x; mad.lo.s32 %r9, %r7, %r8, %r6; mul.wide.u32 %rd5, %r9, 4; add.s64 %rd6, %rd0, %rd5; shl.b32 %r7, %r7, 4; add.s32 %r5, %r6, %r7; st.global.u32 [%rd6], %r5;"
    for threads in (1, 3):
        out[:] = 0
        assert launch(module(index), out, grid=(2, 3, 1), threads=threads).fault is None
        assert out.tolist() == [[0, 1], [16, 17], [32, 33]]


ATOMICS = {
    "add.u32": (np.uint32, 5, lambda v: 5 + v.sum()), "min.s32": (np.int32, 3, lambda v: min(3, v.min())), "max.u32": (np.uint32, 3, lambda v: max(3, v.max())),
    "and.b32": (np.uint32, 0xFF, lambda v: np.bitwise_and.reduce(v) & 0xFF), "or.b32": (np.uint32, 64, lambda v: np.bitwise_or.reduce(v) | 64),
    "xor.b32": (np.uint32, 1, lambda v: np.bitwise_xor.reduce(v) ^ 1), "inc.u32": (np.uint32, 0, None), "add.f32": (np.float32, 2, lambda v: 2 + v.sum()),
    "exch.b32": (np.uint32, 0, None), "add.u64": (np.uint64, 7, lambda v: 7 + v.sum()),
}  # fmt: skip


@pytest.mark.parametrize("operation", ATOMICS)
@pytest.mark.parametrize("root", ["atom", "red"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics(operation: str, root: str, space: str) -> None:
    dtype, start, total = ATOMICS[operation]
    if total is None:
        if root == "red":
            return
        total = (lambda v: 0) if operation == "inc.u32" else (lambda v: v[-1])
    values = np.arange(1, 33).astype(dtype)
    size, kind = values.itemsize, {4: "%r", 8: "%rd"}[values.itemsize]
    result = np.array([start], dtype)
    old = f"{kind}9, " if root == "atom" else ""
    limit = 32 if operation == "inc.u32" else None
    load = f"mov.u32 %r10, {limit};" if limit else f"ld.global.b{8 * size} {kind}10, [%rd5];"
    where, before, after = "[%rd0]", "", ""
    if space == "shared":
        where = "[s]"
        before = f"setp.eq.u32 %p1, %r0, 0; ld.global.b{8 * size} {kind}11, [%rd0]; @%p1 st.shared.b{8 * size} [s], {kind}11; bar.sync 0;"
        after = f"bar.sync 0; ld.shared.b{8 * size} {kind}11, [s]; @%p1 st.global.b{8 * size} [%rd0], {kind}11;"
    body = f"ld.param.u64 %rd4, [p1]; mad.wide.u32 %rd5, %r0, {size}, %rd4; {load} {before} {root}.{space}.{operation} {old}{where}, {kind}10; {after}"
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1", head=".shared .align 8 .b8 s[8];"), result, values)
    assert (seen.fault, seen.findings) == (None, [])
    wanted = 32 if operation == "inc.u32" else total(values)
    assert result[0] == wanted


def test_cas_takes_one_lane_only() -> None:
    out = np.zeros(33, np.uint32)
    body = "add.s32 %r6, %r0, 100; atom.global.cas.b32 %r5, [%rd0+128], 0, %r6;" + STORE
    assert launch(module(body), out).findings == []
    assert out[32] == 100
    assert out[:32].tolist() == [0] + [100] * 31


@pytest.mark.parametrize(
    ("width", "kind"), [("b8", "%h"), ("s8", "%r"), ("u16", "%r"), ("b32", "%r"), ("s32", "%rd"), ("b64", "%rd")]
)
@pytest.mark.parametrize("space", ["global", "shared", "local", "generic shared", "generic local", "generic global"])
def test_a_value_survives_every_space(space: str, width: str, kind: str) -> None:
    size = int(width[1:]) // 8
    values = np.random.default_rng(size).integers(0, 256, (32, size)).astype(np.uint8)
    store, load = f"st.{width.replace('s', 'b') if size < 4 else 'b' + width[1:]}", f"ld.{width}"
    name = {"shared": "s", "local": "l", "global": ""}[space.split()[-1]]
    head = ".shared .align 8 .b8 s[256];"
    place = f"mul.lo.u32 %r6, %r0, {size}; cvt.u64.u32 %rd6, %r6;"
    if name:
        place += f"mov.u64 %rd7, {name};" + (f"cvta.{space.split()[-1]}.u64 %rd7, %rd7;" if "generic" in space else "")
        place += "add.s64 %rd6, %rd6, %rd7;" if name == "s" else "mov.u64 %rd6, %rd7;"
    else:
        place += "ld.param.u64 %rd7, [p2]; add.s64 %rd6, %rd6, %rd7;"
    at = "" if "generic" in space else "." + space
    ops = [op.replace(".", f"{at}.", 1) for op in (store, load)]
    body = f".local .align 8 .b8 l[8]; ld.param.u64 %rd4, [p1]; mad.wide.u32 %rd5, %r0, {size}, %rd4; mad.wide.u32 %rd3, %r0, {size}, %rd0; {place}" \
        f"ld.global.{width} {kind}9, [%rd5]; {ops[0]} [%rd6], {kind}9; {ops[1]} {kind}10, [%rd6]; st.global.b{8 * size} [%rd3], {kind}10;"  # fmt: skip
    out, room = np.zeros_like(values), np.zeros(256, np.uint8)
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1, .param .u64 p2", head=head), out, values, room)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out, values)


def test_loads_extend_by_their_sign() -> None:
    values = np.array([0x80FF, 0xFFFFFFFE], np.uint32)
    out = np.zeros(4, np.int32)
    body = "ld.param.u64 %rd4, [p1]; ld.global.s8 %r5, [%rd4]; ld.global.u8 %r6, [%rd4]; ld.global.s16 %r7, [%rd4]; ld.global.s32 %rd5, [%rd4+4]; cvt.u32.u64 %r8, %rd5; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r8, %rd5; setp.eq.u32 %p1, %r0, 0; @%p1 st.global.v4.b32 [%rd0], {%r5, %r6, %r7, %r8};"
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1"), out, values)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [-1, 255, np.int16(np.uint16(0x80FF).view(np.int16)), -1]


def test_cp_async_fills_with_zeros() -> None:
    source, out = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    body = "ld.param.u64 %rd4, [p1]; mad.wide.u32 %rd5, %r0, 16, %rd4; mad.wide.u32 %rd3, %r0, 16, %rd0; mov.u32 %r6, s; mad.lo.u32 %r6, %r0, 16, %r6; and.b32 %r7, %r0, 15;" \
        "cp.async.cg.shared.global.L2::128B [%r6], [%rd5], 16, %r7; cp.async.wait_all; ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r6]; st.global.v4.u32 [%rd3], {%r8, %r9, %r10, %r11};"  # fmt: skip
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1", head=".shared .align 16 .b8 s[512];"), out, source)
    assert (seen.fault, seen.findings) == (None, [])
    keep = np.arange(16)[None] < (np.arange(32) & 15)[:, None]
    np.testing.assert_array_equal(
        out.view(np.uint8).reshape(32, 16), np.where(keep, source.view(np.uint8).reshape(32, 16), 0)
    )


def test_sums_of_several_threads_lose_nothing() -> None:
    total = np.zeros(1, np.float32)
    body = "mov.u32 %r1, 0; L: red.global.add.f32 [%rd0], 0f3F800000; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 50; @%p1 bra L;"
    assert launch(module(body), total, grid=(64, 1, 1), block=(256, 1, 1), threads=2, checks=False).fault is None
    assert total[0] == 64 * 256 * 50


def test_lanes_that_read_different_places_of_the_parameters() -> None:
    out = np.zeros(32, np.uint32)
    half = "and.b32 %r2, %r0, 1; mul.wide.u32 %rd6, %r2, 4; mov.u64 %rd5, p0; add.s64 %rd5, %rd5, %rd6; ld.param.u32 %r5, [%rd5];"
    seen = launch(module(half + "mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r5;"), out, block=(32, 1, 1))
    assert (seen.fault, seen.findings) == (None, [])
    assert (out == [out.ctypes.data >> 32 * (lane & 1) & 0xFFFFFFFF for lane in range(32)]).all()

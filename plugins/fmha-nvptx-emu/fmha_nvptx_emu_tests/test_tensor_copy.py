"""Bulk copies: boxes of tensors in both directions with every swizzle and fill, bytes, and their misuse."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, library, module
from fmha_nvptx_emu_tests.support.warpgroup import aligned, permuted

TYPES = {np.uint8: 0, np.int32: 3, np.float16: 6, np.float32: 7, np.float64: 8}
SPANS = {16: 0, 32: 1, 64: 2, 128: 3}
HEAD = ".shared .align 1024 .b8 tile[16384]; .shared .align 8 .b8 bar[16];"
PARAMETERS = ".param .u64 p0, .param .u64 p1, .param .u64 p2"
LOAD = "cp.async.bulk.tensor.{n}d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd2, {{{at}}}], [bar];"
STORE = "cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group [%rd2, {{{at}}}], [tile]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
BEGIN = """ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2]; setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;"
OUT = """setp.lt.u32 %p3, %r0, COUNT; @!%p3 bra E; L: shl.b32 %r5, %r0, 4; mov.u32 %r6, tile; add.s32 %r6, %r6, %r5; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd0;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r6]; st.global.v4.b32 [%rd5], {%r10, %r11, %r12, %r13};
add.s32 %r0, %r0, 32; setp.lt.u32 %p3, %r0, COUNT; @%p3 bra L; E:"""


def encode(tensor: Array, box: tuple[int, ...], swizzle: int = 0, fill: int = 0, **changed: Any) -> tuple[int, Array]:
    """The driver's answer, and the map. Axes of numpy are the other way round."""
    held = library()
    held.emu_device(b"sm_90a")
    function = ctypes.c_void_p()
    held.cuGetProcAddress_v2(b"cuTensorMapEncodeTiled", ctypes.byref(function), 13000, ctypes.c_uint64(0), None)
    made = ctypes.CFUNCTYPE(
        ctypes.c_int, *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32), *(ctypes.c_void_p,) * 5, *(ctypes.c_int,) * 4
    )(function.value or 0)
    out, rank = aligned(np.zeros(128, np.uint8)), tensor.ndim
    sizes, strides = tensor.shape[::-1], changed.get("strides", tensor.strides[::-1][1:])
    steps = changed.get("steps", (1,) * rank)
    answer = made(
        out.ctypes.data + changed.get("shift", 0), TYPES[tensor.dtype.type], rank, tensor.ctypes.data, (ctypes.c_uint64 * 5)(*sizes),
        (ctypes.c_uint64 * 5)(*strides), (ctypes.c_uint32 * 5)(*box[::-1]), (ctypes.c_uint32 * 5)(*steps), 0, swizzle, 0, fill,
    )  # fmt: skip
    return answer, out


def boxed(tensor: Array, box: tuple[int, ...], at: tuple[int, ...], fill: Any) -> Array:
    """The box at coordinates, in numpy's order of axes."""
    out = np.full(box, fill, tensor.dtype)
    for place in np.ndindex(*box):
        here = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= x < size for x, size in zip(here, tensor.shape, strict=True)):
            out[place] = tensor[here]
    return out


def in_shared(box: Array, span: int) -> Array:
    """Rows one after another; the chunks of 16 bytes permuted within groups of ``span`` bytes by the row of 128 bytes."""
    raw = np.ascontiguousarray(box).view(np.uint8).reshape(-1)
    out = np.zeros_like(raw)
    for chunk in range(len(raw) // 16):
        group, row = chunk // (span // 16), chunk * 16 // 128
        inside = (chunk % (span // 16)) ^ (row % 8 & (span // 16 - 1))
        place = group * span + inside * 16
        out[place : place + 16] = raw[chunk * 16 : chunk * 16 + 16]
    return out


def load(
    tensor: Array, box: tuple[int, ...], at: tuple[int, ...], swizzle: int = 0, fill: int = 0
) -> tuple[Array, Seen]:
    answer, map_ = encode(tensor, box, swizzle, fill)
    assert answer == 0
    size = int(np.prod(box)) * tensor.itemsize
    go = LOAD.format(n=tensor.ndim, at=", ".join(map(str, at[::-1])))
    body = f"{BEGIN} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size}; @%p1 {go} {WAIT} {OUT.replace('COUNT', str(size // 16))}"
    out = np.zeros(max(size, 512), np.uint8)
    seen = launch(module(body, PARAMETERS, head=HEAD), out, tensor, map_, read_only=(1, 2))
    return out[:size], seen


CASES = [
    ((40,), (32,), (3,)), ((9, 24), (4, 16), (-1, 12)), ((3, 9, 24), (2, 4, 16), (2, 7, -4)), ((2, 3, 5, 16), (1, 2, 4, 16), (1, 1, 3, 0)),
    ((2, 2, 3, 5, 16), (2, 1, 2, 4, 8), (0, 1, -1, 2, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "box", "at"), CASES)
@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_a_box_of_each_rank_with_what_lies_outside(shape: Any, box: Any, at: Any, dtype: Any) -> None:
    tensor = np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)
    got, seen = load(tensor, box, at)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(got.view(dtype).reshape(box), boxed(tensor, box, at, 0))
    if dtype is np.float16:
        got, seen = load(tensor, box, at, fill=1)
        np.testing.assert_array_equal(got.view(dtype).reshape(box), boxed(tensor, box, at, np.nan))


@pytest.mark.parametrize("span", SPANS)
def test_each_swizzle_of_a_load(span: int) -> None:
    tensor = np.arange(64 * 64).astype(np.float16).reshape(64, 64)
    box = (16, span // 2 if span > 16 else 64)
    got, seen = load(tensor, box, (5, 8), swizzle=SPANS[span])
    assert (seen.fault, seen.findings) == (None, [])
    want = boxed(tensor, box, (5, 8), 0)
    np.testing.assert_array_equal(got, in_shared(want, span) if span > 16 else want.view(np.uint8).reshape(-1))


def test_rows_of_128_bytes_are_permuted_as_wgmma_reads_them() -> None:
    """Chunk c of row r lies at c xor r % 8."""
    tensor = np.arange(16 * 64).astype(np.float16).reshape(16, 64)
    got, _ = load(tensor, (16, 64), (0, 0), swizzle=3)
    chunks, raw = got.reshape(16, 8, 16), tensor.view(np.uint8).reshape(16, 8, 16)
    for row in range(16):
        for chunk in range(8):
            np.testing.assert_array_equal(chunks[row, chunk ^ permuted(row, 128)], raw[row, chunk])


FILL = "F: shl.b32 %r5, %r0, 2; mov.u32 %r6, tile; add.s32 %r6, %r6, %r5; st.shared.u32 [%r6], %r0; add.s32 %r0, %r0, 32; setp.lt.u32 %p3, %r0, COUNT; @%p3 bra F;"
PROXY = "fence.proxy.async.shared::cta;"


def store(
    go: str, tensor: Array, box: tuple[int, ...], at: tuple[int, ...], swizzle: int = 0, fill: bool = True
) -> Seen:
    answer, map_ = encode(tensor, box, swizzle)
    assert answer == 0
    text = STORE.format(n=tensor.ndim, at=", ".join(map(str, at[::-1])))
    before = FILL.replace("COUNT", str(np.prod(box) * tensor.itemsize // 4)) if fill else ""
    body = f"{BEGIN} {before} {go.replace('STORE', text)}"
    return launch(module(body, PARAMETERS, head=HEAD), np.zeros(64, np.uint32), tensor, map_)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("at", [(0, 0), (-3, 4), (30, 20)])
def test_each_swizzle_of_a_store(span: int, at: tuple[int, int]) -> None:
    tensor = np.full((32, 40), -1, np.int32)
    box = (16, span // 4)
    seen = store(f"{PROXY} @%p1 STORE", tensor, box, at, SPANS[span])
    assert (seen.fault, seen.findings) == (None, [])
    words = np.arange(np.prod(box), dtype=np.int32)
    shared = words.view(np.uint8)
    places = in_shared(words, span) if span > 16 else shared  # a permutation that undoes itself
    want = np.full_like(tensor, -1)
    for row, column in np.ndindex(*box):
        y, x = at[0] + row, at[1] + column
        if 0 <= y < 32 and 0 <= x < 40:
            want[y, x] = places.view(np.int32).reshape(box)[row, column]
    np.testing.assert_array_equal(tensor, want)


def test_bytes_go_both_ways() -> None:
    source, out = aligned(np.arange(256, dtype=np.uint32)), aligned(np.zeros(256, np.uint32))
    body = f"""{BEGIN} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%rd1], 1024, [bar], %rd1; {WAIT}
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"""
    seen = launch(module(body, PARAMETERS, head=HEAD), out, source, np.zeros(1, np.uint64))
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out, source)


PLANTED = {
    "no proxy fence": ("@%p1 STORE", "missing-fence", "no fence.proxy.async between"),
    "overwritten before it is read": (
        PROXY + "@%p1 STORE".replace("STORE", "HALF") + "@%p1 st.shared.u32 [tile], 7; cp.async.bulk.wait_group 0;", "missing-wait", "while a bulk copy",
    ),
    "not over as the block ends": (PROXY + "@%p1 HALF", "missing-wait", "the block ended"),
    "overwritten after a wait for another group": (
        PROXY + "@%p1 HALF cp.async.bulk.wait_group.read 1; @%p1 st.shared.u32 [tile], 7;", "missing-wait", "while a bulk copy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misuse_of_a_store_is_named(name: str) -> None:
    go, kind, words = PLANTED[name]
    half = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {0, 0}], [tile]; cp.async.bulk.commit_group;"
    seen = store(go.replace("HALF", half), np.zeros((32, 40), np.int32), (16, 8), (0, 0))
    assert seen.fault is None
    assert set(seen.kinds) == {kind}, seen.findings
    assert any(words in found["text"] for found in seen.findings)


STORED = """shl.b32 %r5, %r0, 4; mov.u32 %r6, tile; add.s32 %r6, %r6, %r5; and.b32 %r7, %r5, 511; mov.u32 %r8, tile; add.s32 %r8, %r8, %r7;
setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32; setp.ge.u32 %p3, %r0, 32;
st.shared.v4.b32 [%r6], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta; bar.sync 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 1024; cp.async.bulk.commit_group;"""
AGAIN = "st.shared.v4.b32 [%r8], {%r0, %r0, %r0, %r0};"
READ = "cp.async.bulk.wait_group.read 0;"
WRITTEN: dict[str, tuple[str, set[str]]] = {  # some kinds depend on the order of the warps
    "before it is read": (f"@%p2 {AGAIN}", {"missing-wait"}),
    "by the warp that waited": (f"{READ} @%p2 {AGAIN}", set()),
    "by another warp without a barrier": (f"{READ} @%p3 {AGAIN}", {"missing-fence", "shared-race"}),
    "by another warp behind a barrier": (f"{READ} bar.sync 0; @%p3 {AGAIN}", set()),
    "by another warp behind a barrier that nobody waited before": (
        f"bar.sync 0; @%p3 {AGAIN}",
        {"missing-wait", "shared-race"},
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_pieces_that_a_bulk_copy_read_are_written(name: str) -> None:
    go, kinds = WRITTEN[name]
    body = f"{STORED} {go} cp.async.bulk.wait_group 0;"
    seen = [
        launch(module(body, PARAMETERS, head=HEAD), np.zeros(256, np.uint32), np.zeros(1, np.uint64), np.zeros(1, np.uint64), block=(64, 1, 1), seed=seed)
        for seed in range(6)
    ]  # fmt: skip
    assert {one.fault for one in seen} == {None}
    assert {kind for one in seen for kind in one.kinds} == kinds, seen


def test_shared_memory_that_was_never_written_is_not_stored() -> None:
    seen = store("@%p1 STORE", np.zeros((32, 40), np.int32), (16, 8), (0, 0), fill=False)
    assert seen.kinds == ["uninitialised-shared"]


def test_a_map_that_reaches_behind_its_array() -> None:
    tensor = np.zeros((8, 64), np.float16)
    _, map_ = encode(np.lib.stride_tricks.as_strided(tensor, (12, 64), tensor.strides), (8, 64))
    body = f"{BEGIN} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024; @%p1 {LOAD.format(n=2, at='0, 4')} {WAIT}"
    seen = launch(module(body, PARAMETERS, head=HEAD), np.zeros(64, np.uint32), tensor, map_)
    assert seen.kinds == ["out-of-bounds"]
    assert "the end of array 1" in seen.findings[0]["text"]


def test_a_word_of_a_copy_that_is_not_waited_for() -> None:
    tensor = np.zeros((8, 64), np.float16)
    _, map_ = encode(tensor, (8, 64))
    body = f"{BEGIN} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024; @%p1 {LOAD.format(n=2, at='0, 0')} ld.shared.u32 %r5, [tile+64]; {WAIT}"
    seen = launch(module(body, PARAMETERS, head=HEAD), np.zeros(64, np.uint32), tensor, map_)
    assert seen.kinds == ["missing-wait"]
    assert "no wait for the mbarrier" in seen.findings[0]["text"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"strides": (130,)},
        {"steps": (1, 2)},
        {"box": (8, 300)},
        {"box": (8, 4)},
        {"shift": 16},
        {"swizzle": 1},
        {"fill": 1, "dtype": np.int32},
    ],
    ids=str,
)
def test_the_driver_refuses_what_hardware_cannot(wrong: dict[str, Any]) -> None:
    tensor = np.zeros((8, 64), wrong.pop("dtype", np.float16))
    box = wrong.pop("box", (8, 64))
    assert encode(tensor, box, **wrong)[0] != 0


def test_an_address_without_a_map_stops() -> None:
    body = f"{BEGIN} @%p1 {LOAD.format(n=2, at='0, 0')}"
    seen = launch(
        module(body, PARAMETERS, head=HEAD),
        np.zeros(64, np.uint32),
        np.zeros(64, np.uint32),
        aligned(np.zeros(128, np.uint8)),
    )
    assert seen.fault is not None
    assert "there is no tensor map" in seen.fault

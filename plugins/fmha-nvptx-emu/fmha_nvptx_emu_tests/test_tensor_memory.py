"""tcgen05.ld, st and cp: where each shape puts its words, and what becomes of tensor memory that was never written."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

HEAD = ".shared .align 128 .b8 hold[8192];"
BEGIN = """setp.lt.u32 %p3, %r0, 32;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [hold], 512;
bar.sync 0; ld.shared.b32 %r10, [hold]; shr.u32 %r11, %r0, 5; shl.b32 %r11, %r11, 21; add.s32 %r12, %r10, %r11;"""
FREE = "bar.sync 0; @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;"
SHAPES: dict[str, tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = {
    "32x32b": (32, ((32, 32),), ()),
    "16x64b": (64, ((2, 512), (2, 32), (8, 64)), ()),
    "16x128b": (128, ((4, 32), (8, 128)), ((2, 1024),)),
    "16x256b": (256, ((4, 64), (8, 256)), ((2, 32), (2, 2048))),
    "16x32bx2": (64, ((16, 64), (2, 32)), ()),
}  # fmt: skip
"""Bits of a row, then (count, stride in bits) of the threads and of the registers, as CUTLASS's copy_traits_sm100.hpp has them."""
SPLIT = 128


def registers_of(shape: str, times: int) -> int:
    return times * {"16x128b": 2, "16x256b": 4}.get(shape, 1)


def offset(number: int, axes: tuple[tuple[int, int], ...]) -> int:
    bits = 0
    for count, stride in axes:
        bits, number = bits + number % count * stride, number // count
    return bits


def place(shape: str, thread: int, register: int) -> tuple[int, int]:
    """The lane and the column of a register, from the address on."""
    width, threads, values = SHAPES[shape]
    ones = registers_of(shape, 1)
    bits = offset(thread, threads) + offset(register % ones, values)
    lane, column = bits // width, bits % width // 32
    if shape == "16x32bx2":
        return lane, column * SPLIT + register
    return lane, column + register // ones * (width // 32)


def cases() -> list[tuple[str, int, bool]]:
    """Every shape, from the first or the middle lane of a quarter; 32x32b needs the whole quarter."""
    every = product(SHAPES, (1, 2, 4, 8, 16, 32, 64, 128), (False, True))
    return [(s, n, upper) for s, n, upper in every if registers_of(s, n) <= 128 and not (upper and s == "32x32b")]


def vector(count: int) -> str:
    return "{" + ", ".join(f"%a{k}" for k in range(count)) + "}"


def run(body: str, out: Array, *more: Array, seed: int = 0) -> Seen:
    parameters = ", ".join(f".param .u64 p{k}" for k in range(1 + len(more)))
    text = module(f".reg .b32 %a<128>; {BEGIN}\n{body}\n{FREE}", parameters, head=HEAD)
    return launch(text, out, *more, block=(128, 1, 1), seed=seed)


def fill() -> str:
    """Column c of lane l gets 1000 l + c, for the first 256 columns."""
    lines = ["mul.lo.u32 %r20, %r0, 1000;"]
    for first in range(0, 256, 128):
        lines += [f"add.s32 %a{k}, %r20, {first + k};" for k in range(128)]
        lines.append(f"tcgen05.st.sync.aligned.32x32b.x128.b32 [%r12+{first}], {vector(128)};")
    return "\n".join([*lines, "tcgen05.wait::st.sync.aligned;"])


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize(("shape", "times", "upper"), cases())
def test_each_shape_loads_and_stores(shape: str, times: int, upper: bool) -> None:
    """Loaded from what 32x32b stored; and stored, and loaded by 32x32b."""
    count, lane = registers_of(shape, times), 16 * upper
    split = f", {SPLIT}" if shape == "16x32bx2" else ""
    out = np.zeros((2, 128, max(count, 256)), np.uint32)
    at = f"[%r12+{lane << 16}]"
    body = "\n".join([
        f"mad.wide.u32 %rd4, %r0, {4 * out.shape[2]}, %rd0;", fill(),
        f"tcgen05.ld.sync.aligned.{shape}.x{times}.b32 {vector(count)}, {at}{split}; tcgen05.wait::ld.sync.aligned;",
        *(f"st.global.b32 [%rd4+{4 * k}], %a{k};" for k in range(count)),
        *(f"mad.lo.u32 %a{k}, %r0, 1000, {500000 + k};" for k in range(count)),
        f"tcgen05.st.sync.aligned.{shape}.x{times}.b32 {at}{split}, {vector(count)}; tcgen05.wait::st.sync.aligned;",
        *(
            f"tcgen05.ld.sync.aligned.32x32b.x128.b32 {vector(128)}, [%r12+{first}]; tcgen05.wait::ld.sync.aligned;"
            + "".join(f"st.global.b32 [%rd4+{128 * 4 * out.shape[2] + 4 * (first + k)}], %a{k};" for k in range(128))
            for first in (0, 128)
        ),
    ])  # fmt: skip
    seen = run(body, out)
    assert (seen.fault, seen.findings) == (None, [])
    memory = 1000 * np.arange(128)[:, None] + np.arange(256)
    for thread, r in product(range(128), range(count)):
        row, column = place(shape, thread % 32, r)
        row += thread // 32 * 32 + lane
        assert out[0, thread, r] == 1000 * row + column
        memory[row, column] = 1000 * thread + 500000 + r
    np.testing.assert_array_equal(out[1, :, :256], memory)


def test_halves_of_two_columns_share_a_register() -> None:
    out = np.zeros((128, 12), np.uint32)
    body = "\n".join([
        "mad.wide.u32 %rd4, %r0, 48, %rd0; mul.lo.u32 %r20, %r0, 256;", *(f"add.s32 %a{k}, %r20, {k}; shl.b32 %r21, %a{k}, 16; or.b32 %a{k}, %a{k}, %r21; xor.b32 %a{k}, %a{k}, 0xffff0000;" for k in range(8)),
        f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {vector(8)}; tcgen05.wait::st.sync.aligned;",
        f"tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {vector(4)}, [%r12]; tcgen05.wait::ld.sync.aligned;",
        *(f"st.global.b32 [%rd4+{4 * k}], %a{k};" for k in range(4)),
        f"tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r12+64], {vector(4)}; tcgen05.wait::st.sync.aligned;",
        f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {vector(8)}, [%r12+64]; tcgen05.wait::ld.sync.aligned;",
        *(f"st.global.b32 [%rd4+{16 + 4 * k}], %a{k};" for k in range(8)),
    ])  # fmt: skip
    seen = run(body, out)
    assert (seen.fault, seen.findings) == (None, [])
    low = (256 * np.arange(128)[:, None] + np.arange(8)) & 0xFFFF
    np.testing.assert_array_equal(out[:, :4], low[:, ::2] | low[:, 1::2] << 16)
    np.testing.assert_array_equal(out[:, 4:], low)


CP = {
    "128x256b": (128, 8, [[r] for r in range(128)]),
    "4x256b": (4, 8, [[32 * r] for r in range(4)]),
    "128x128b": (128, 4, [[r] for r in range(128)]),
    "64x128b.warpx2::02_13": (64, 4, [[r, r + 64] for r in range(64)]),
    "64x128b.warpx2::01_23": (64, 4, [[r, r + 32] if r < 32 else [r + 32, r + 64] for r in range(64)]),
    "32x128b.warpx4": (32, 4, [[r, r + 32, r + 64, r + 96] for r in range(32)]),
}  # fmt: skip
"""Shape -> rows, words of a row, and the lanes that get each row."""


def copied(shape: str, values: Array, stored: range | list[int] = range(8)) -> tuple[Array, Seen]:
    """Eight columns of each lane behind a copy from shared memory, of whose rows of 32 bytes the words ``stored`` are written.

    No swizzle: groups of 8 rows of 16 bytes, 256 bytes apart; the second 16 bytes of a row 128 further on.
    """
    out, descriptor = np.zeros((128, 8), np.uint32), 128 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46
    body = "\n".join([
        "mad.wide.u32 %rd4, %r0, 32, %rd0; ld.param.u64 %rd1, [p1];", *(f"mov.b32 %a{k}, 0;" for k in range(8)),
        f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {vector(8)}; tcgen05.wait::st.sync.aligned;",
        "mov.u32 %r30, hold; add.s32 %r31, %r30, 1024; mad.lo.u32 %r32, %r0, 32, %r31; mad.wide.u32 %rd5, %r0, 32, %rd1;",
        *(f"ld.global.b32 %r33, [%rd5+{4 * k}]; st.shared.b32 [%r32+{4 * k}], %r33;" for k in stored),
        "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [hold+512], 1; fence.proxy.async.shared::cta; bar.sync 0;",
        f"shr.u32 %r31, %r31, 4; cvt.u64.u32 %rd6, %r31; add.s64 %rd6, %rd6, {descriptor};",
        f"@%p1 tcgen05.cp.cta_group::1.{shape} [%r10], %rd6; add.s32 %r34, %r30, 512; @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r34];",
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [hold+512], 0; @!%p2 bra W;",
        f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {vector(8)}, [%r12]; tcgen05.wait::ld.sync.aligned;", *(f"st.global.b32 [%rd4+{4 * k}], %a{k};" for k in range(8)),
    ])  # fmt: skip
    return out, run(body, out, values)


def placed(shape: str, image: Array) -> Array:
    """Eight columns of each lane, of the bytes of shared memory."""
    rows, words, lanes = CP[shape]
    wanted: Any = np.zeros((128, 8), np.uint32)
    for row in range(rows):
        for chunk in range(words // 4):
            first = row // 8 * 256 + row % 8 * 16 + chunk * 128
            for lane in lanes[row]:
                wanted[lane, 4 * chunk : 4 * chunk + 4] = image[first : first + 16].view(np.uint32)
    return wanted


@pytest.mark.parametrize("shape", CP)
def test_copies_from_shared_memory(shape: str) -> None:
    values = np.arange(1024, dtype=np.uint32) + 7
    out, seen = copied(shape, values)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out, placed(shape, values.view(np.uint8)))


def test_words_that_were_never_written_are_reported_where_they_are_stored() -> None:
    out = np.zeros(128, np.uint32)
    body = "mad.wide.u32 %rd4, %r0, 4, %rd0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%a0}, [%r12]; tcgen05.wait::ld.sync.aligned; st.global.b32 [%rd4], %a0;"
    seen = run(body, out)
    assert seen.kinds == ["uninitialised-register"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%a0}, [%r12+2097152];", "the quarter of warp"),
        ("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%a0}, [%r12+524288];", "the quarter of warp"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%a0, %a1}, [%r12+511];", "not all of them are allocated"),
        ("mov.u32 %r13, %laneid; add.s32 %r13, %r12, %r13; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%a0}, [%r13];", "has another address in tensor memory"),
    ],
)  # fmt: skip
def test_misuse_is_named(body: str, words: str) -> None:
    seen = run(body + " tcgen05.wait::ld.sync.aligned;", np.zeros(1, np.uint32))
    assert seen.fault is None
    assert set(seen.kinds) == {"tensor-memory-misuse"}
    assert any(words in one["text"] for one in seen.findings)


@pytest.mark.promise("An instruction that an emulator lacks stops the launch by its name.")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [hold+8], 48;",
            "48 columns; it is a power of 2",
        ),
        ("tcgen05.shift.cta_group::1.up [%r10];", "not implemented"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%a0}, [%r12];", "has not 2 registers"),
        ("tcgen05.ld.sync.aligned.8x8b.x2.b32 {%a0}, [%r12];", "its shape is not implemented"),
        ("tcgen05.mma.cta_group::1.kind::i4 [%r12], %rd0, %rd0, %r0, 1;", "its kind is not implemented"),
        ("tcgen05.mma.kind::f16 [%r12], %rd0, %rd0, %r0, 1;", "it needs .cta_group::1 or .cta_group::2"),
    ],
)
def test_what_is_not_implemented_stops_by_its_name(body: str, words: str) -> None:
    seen = run(body, np.zeros(1, np.uint32))
    assert seen.fault is not None
    assert words in seen.fault


def test_an_address_of_the_first_quarter_stands_for_the_warps_own() -> None:
    """As cuDNN's kernels use it."""
    out = np.zeros(128, np.uint32)
    body = """mad.wide.u32 %rd4, %r0, 4, %rd0; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {%r0}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%a0}, [%r12]; tcgen05.wait::ld.sync.aligned; st.global.b32 [%rd4], %a0;"""
    seen = run(body, out)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == list(range(128))

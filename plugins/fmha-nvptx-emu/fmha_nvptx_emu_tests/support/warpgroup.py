"""A wgmma on matrices of numpy: the layouts of operands in shared memory, and one kernel around the instruction.

The layouts are written from PTX ISA 9.1, 9.7.15.5.1: rows of ``span`` bytes in groups of eight, whose chunks of 16 bytes are
permuted by the row's number. The emulator permutes by address bits instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

KINDS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
SWIZZLE = {16: 0, 32: 3, 64: 2, 128: 1}
"""The field of a descriptor by the bytes of a swizzled row; 16: none."""
PLACE_B, BARRIER, BYTES = 32768, 65536, 65536


@dataclass(frozen=True)
class Layout:
    """``across``: m or n is contiguous, not k. ``at``: the first byte of k in a row of ``span`` bytes."""

    span: int
    across: bool = False
    at: int = 0


def permuted(row: int, span: int) -> int:
    """What the chunk's number is exclusive-or'ed with."""
    return row % 8 // {128: 1, 64: 2, 32: 4, 16: 8}[span]


def image(matrix: Array, layout: Layout, start: int) -> tuple[Array, int]:
    """Shared memory with rows along k (mn, k), and the descriptor."""
    item, span = matrix.dtype.itemsize, layout.span
    stride, leading = 8 * span, 16 * span if layout.across else 16
    if span == 16:
        stride, leading = 256, 128
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, item)
    out = np.zeros(PLACE_B, np.uint8)
    for mn in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            row, byte = (k, mn * item) if layout.across else (mn, k * item + layout.at)
            chunk, rest = byte // 16, byte % 16
            if span == 16 and layout.across:
                place = chunk * stride + row // 8 * leading + row % 8 * 16
            elif span == 16:
                place = row // 8 * stride + chunk * leading + row % 8 * 16
            else:
                inside = (chunk % (span // 16)) ^ permuted(row, span)
                place = (
                    row // 8 * stride
                    + row % 8 * span
                    + inside * 16
                    + (chunk // (span // 16) * leading if layout.across else 0)
                )
            out[place + rest : place + rest + item] = raw[mn, k]
    first = start + layout.at
    return out, first >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | SWIZZLE[span] << 62


SETUP = f"""setp.eq.u32 %p1, %r0, 0;
mov.u32 %r1, tile;
@%p1 mbarrier.init.shared::cta.b64 [tile+{BARRIER}], 1;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p1 bra COPIED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [tile+{BARRIER}], {BYTES};
add.s32 %r2, %r1, {BARRIER};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {BYTES}, [%r2];
COPIED:
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+{BARRIER}], 0;
@!%p2 bra WAIT;
"""
HEAD = f".shared .align 1024 .b8 tile[{BYTES + 64}];"
PARAMETERS = ", ".join(f".param .u64 p{k}" for k in range(5))


def names(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%a{first + k}" for k in range(count)) + "}"


@dataclass(frozen=True)
class Product:
    """``m64nNk``: a (64, k), b (n, k), c (64, n); the layouts of both in shared memory; a None: from registers."""

    kind: str
    a: Array
    b: Array
    c: Array
    layout_a: Layout | None
    layout_b: Layout
    sums: str = "f32"
    scale_d: str = "1"
    negated: tuple[int, int] = (1, 1)
    kind_b: str = ""  # where B has another type

    @property
    def registers(self) -> int:
        return self.b.shape[0] // (4 if self.sums == "f16" else 2)

    def instruction(self) -> str:
        n, k = self.b.shape
        left = names(4, 128) if self.layout_a is None else "%rd6"
        options = f", {self.negated[0]}, {self.negated[1]}"
        if self.kind in ("f16", "bf16"):
            options += "" if self.layout_a is None else f", {int(self.layout_a.across)}"
            options += f", {int(self.layout_b.across)}"
        return f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{self.sums}.{self.kind}.{self.kind_b or self.kind} {names(self.registers)}, {left}, %rd7, {self.scale_d}{options};"

    def run(self, before: str = "wgmma.fence.sync.aligned;", behind: str = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
            setup: str = SETUP, seed: int = 0) -> tuple[Array, Seen]:  # fmt: skip
        """D, and what was seen."""
        memory, words = np.zeros(BYTES, np.uint8), np.zeros(4 * 128, np.uint32)
        descriptors = np.zeros(2, np.uint64)
        if self.layout_a is not None:
            memory[:PLACE_B], descriptors[0] = image(self.a, self.layout_a, 0)
        else:
            words = a_fragments(self.a)
        memory[PLACE_B:], descriptors[1] = image(self.b, self.layout_b, PLACE_B)
        sums = d_fragments(self.c.astype(np.float16 if self.sums == "f16" else np.float32))
        out = np.zeros_like(sums)
        every = range(self.registers)
        body = "\n".join(
            (".reg .b32 %a<136>;", "ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2]; ld.param.u64 %rd3, [p3]; ld.param.u64 %rd4, [p4];",
             "ld.global.v2.u64 {%rd6, %rd7}, [%rd2]; mad.wide.u32 %rd3, %r0, 4, %rd3; mad.wide.u32 %rd4, %r0, 4, %rd4; mad.wide.u32 %rd5, %r0, 4, %rd0;",
             "mov.u32 %r9, tile; shr.u32 %r9, %r9, 4; cvt.u64.u32 %rd8, %r9; add.s64 %rd6, %rd6, %rd8; add.s64 %rd7, %rd7, %rd8;",
             *(f"ld.global.b32 %a{128 + k}, [%rd3+{512 * k}];" for k in range(4)), *(f"ld.global.b32 %a{k}, [%rd4+{512 * k}];" for k in every),
             setup, before, self.instruction(), behind, *(f"st.global.b32 [%rd5+{512 * k}], %a{k};" for k in every))
        )  # fmt: skip
        seen = launch(
            module(body, PARAMETERS, head=HEAD),
            out,
            memory,
            aligned(descriptors),
            words,
            sums,
            block=(128, 1, 1),
            seed=seed,
        )
        return from_fragments(out, self.b.shape[0], np.float16 if self.sums == "f16" else np.float32), seen


def aligned(array: Array, to: int = 64) -> Array:
    """A copy at a multiple of ``to`` bytes."""
    room = np.zeros(array.nbytes + to, np.uint8)
    first = -room.ctypes.data % to
    out = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def a_fragments(a: Array) -> Array:
    """(register, thread) words: row g + 8 (r % 2) of the warp's 16, bytes 4 t + 16 (r / 2) of k."""
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(64, 32)
    out = np.zeros((4, 128, 4), np.uint8)
    for r in range(4):
        for thread in range(128):
            row, byte = 16 * (thread // 32) + thread % 32 // 4 + 8 * (r % 2), 4 * (thread % 4) + 16 * (r // 2)
            out[r, thread] = raw[row, byte : byte + 4]
    return out.view(np.uint32).reshape(-1)


def _places(count: int, half: bool) -> Any:
    """(register, thread, half) -> row and column of D."""
    for r in range(count):
        for thread in range(128):
            for h in range(2 if half else 1):
                row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (r % 2 if half else r % 4 // 2)
                column = 8 * (r // 2 if half else r // 4) + 2 * (thread % 4) + (h if half else r % 2)
                yield r, thread, h, row, column


def d_fragments(d: Array) -> Array:
    half = d.dtype.itemsize == 2
    out = np.zeros((d.shape[1] // (4 if half else 2), 128, 2 if half else 1), d.dtype)
    for r, thread, h, row, column in _places(len(out), half):
        out[r, thread, h] = d[row, column]
    return out.reshape(-1).view(np.uint32)


def from_fragments(words: Array, n: int, dtype: Any) -> Array:
    half = np.dtype(dtype).itemsize == 2
    parts = words.view(dtype).reshape(n // (4 if half else 2), 128, 2 if half else 1)
    out = np.zeros((64, n), dtype)
    for r, thread, h, row, column in _places(len(parts), half):
        out[row, column] = parts[r, thread, h]
    return out

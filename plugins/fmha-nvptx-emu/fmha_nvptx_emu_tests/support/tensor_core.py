"""A tcgen05.mma on matrices of numpy: operands in shared or tensor memory, and one kernel around the instruction.

Layouts are written from PTX ISA 9.1, 9.7.16.4 to 9.7.16.6, by rows of ``span`` bytes in groups of eight whose chunks of 16
bytes are permuted by the row's number. The emulator permutes by address bits instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module
from fmha_nvptx_emu_tests.support.warpgroup import KINDS, PLACE_B, SETUP, Layout, aligned, permuted

SWIZZLE = {16: 0, 32: 6, 64: 4, 128: 2}
"""The field of a descriptor by the bytes of a swizzled row; 16: none."""
FORMATS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
KIND_OF = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "u8": "i8", "s8": "i8"}
"""Every other type: f8f6f4."""
SUMS: dict[str, tuple[int, Any, Any]] = {
    "f16": (0, np.float16, np.uint16),
    "f32": (1, np.float32, np.uint32),
    "s32": (2, np.int32, np.uint32),
}
"""Type of D -> its field of the instruction descriptor, numpy's type, and its bits."""
BYTES, HOLD, DONE, AT_A, AT_BESIDE = 65536, 65552, 65560, 256, 384
"""Shared memory: the operands, the address of tensor memory, the mbarrier of the commit; the columns of A, and of what else the
product reads."""
HEAD = f".shared .align 1024 .b8 tile[{BYTES + 64}];"
PARAMETERS = ", ".join(f".param .u64 p{k}" for k in range(5))
ALLOC = f"""@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile+{HOLD}], 512;
@%p3 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"""
ORDER = (
    "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
)
COMMIT = f"mov.u32 %r13, tile; add.s32 %r13, %r13, {DONE}; @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13];"
WAIT = f"LATER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+{DONE}], 0; @!%p2 bra LATER; tcgen05.fence::after_thread_sync;"
LOADED = "tcgen05.wait::ld.sync.aligned;"
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
FREE = "tcgen05.fence::before_thread_sync; bar.sync 0; @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;"


PAIR: dict[str, Any] = {
    "order": ORDER + MEET, "lead": "%p9", "free": MEET + FREE,
    "commit": f"mov.u32 %r13, tile; add.s32 %r13, %r13, {DONE}; mov.u16 %h1, 3; @%p9 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r13], %h1;",
}  # fmt: skip
"""What differs where two blocks make one product: the first block's first thread issues it, and the commit reaches both."""


def image(matrix: Array, layout: Layout) -> tuple[Array, int]:
    """Shared memory with a matrix (mn, k), and its descriptor less the address."""
    item, span = matrix.dtype.itemsize, layout.span
    depth = matrix.shape[1]
    stride, leading = (8 * span, depth * span) if layout.across else (8 * span, 16)
    if span == 16:
        stride, leading = (16 * depth, 128) if layout.across else (256, 128)
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, item)
    out = np.zeros(PLACE_B, np.uint8)
    for mn in range(matrix.shape[0]):
        for k in range(depth):
            row, byte = (k, mn * item) if layout.across else (mn, k * item + layout.at)
            chunk, rest = byte // 16, byte % 16
            if span == 16:
                far, near = (chunk, row // 8) if layout.across else (row // 8, chunk)
                place = far * stride + near * leading + row % 8 * 16
            else:
                inside = (chunk % (span // 16)) ^ permuted(row, span)
                turn = chunk // (span // 16) * leading if layout.across else 0
                place = row // 8 * stride + row % 8 * span + inside * 16 + turn
            out[place + rest : place + rest + item] = raw[mn, k]
    return out, layout.at >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | SWIZZLE[span] << 61


@dataclass(frozen=True)
class Places:
    """Where D lies: of one block, or of the two of a pair. ``rows[block, lane]``: -1 where a lane has none; ``columns``: of a
    lane, beginning at ``first[lane]`` of the matrix. Source: PTX ISA 9.1, 9.7.16.10.5."""

    rows: Array
    first: Array
    columns: int

    @classmethod
    def of(cls, m: int, n: int, pair: bool, stationary: bool = False) -> Places:
        lane = np.arange(128)
        if stationary:
            return cls((lane % m)[None], lane // m * (n * m // 128), n * m // 128)
        if pair and m == 128:
            return cls(np.stack([64 * block + lane % 64 for block in (0, 1)]), lane // 64 * (n // 2), n // 2)
        if pair:
            return cls(np.stack([lane, 128 + lane]), 0 * lane, n)
        rows = lane if m == 128 else np.where(lane % 32 < 16, lane // 32 * 16 + lane % 16, -1)
        return cls(rows[None], 0 * lane, n)

    def spread(self, d: Array, out: Array) -> None:
        for block, lane in np.argwhere(self.rows >= 0):
            out[block, lane] = d[self.rows[block, lane], self.first[lane] :][: out.shape[2]]

    def gather(self, words: Array, d: Array) -> None:
        for block, lane in np.argwhere(self.rows >= 0):
            d[self.rows[block, lane], self.first[lane] :][: self.columns] = words[block, lane]


@dataclass(frozen=True)
class TensorProduct:
    """a (m, k), b (n, k), c (m, n); the layouts of both in shared memory; a None: from tensor memory."""

    kind_a: str
    kind_b: str
    a: Array
    b: Array
    c: Array
    layout_a: Layout | None
    layout_b: Layout
    sums: str = "f32"
    adds: bool = True
    negated: tuple[bool, bool] = (False, False)
    saturates: bool = False
    scale: int | str | None = None
    """What stands behind ``enable-input-d``: scale-input-d, or the zero-column mask of ``.ws``."""
    pair: bool = False
    stationary: bool = False
    left_out: str = ""
    beside: Array | None = None
    """Eight or sixteen words of each (block, lane) for the columns from ``AT_BESIDE`` on."""

    @property
    def kind(self) -> str:
        return ("ws." if self.stationary else "") + "kind::" + KIND_OF.get(self.kind_a, "f8f6f4")

    @property
    def behind(self) -> str:
        """The operands between the instruction descriptor and ``enable-input-d``."""
        return self.left_out

    @property
    def descriptor(self) -> int:
        """The instruction descriptor, 9.7.16.4.2."""
        (m, _), n = self.a.shape, self.b.shape[0]
        across = (self.layout_a is not None and self.layout_a.across, self.layout_b.across)
        bits = self.saturates << 3 | SUMS[self.sums][0] << 4 | FORMATS[self.kind_a] << 7 | FORMATS[self.kind_b] << 10
        bits |= self.negated[0] << 13 | self.negated[1] << 14 | across[0] << 15 | across[1] << 16
        return bits | n // 8 << 17 | m // 16 << 24

    def run(self, *, alloc: str = ALLOC, order: str = ORDER, setup: str = SETUP, commit: str = COMMIT, wait: str = WAIT, loaded: str = LOADED, free: str = FREE,
            before: str = "", descriptor: int | None = None, lead: str = "%p1", seed: int = 0) -> tuple[Array, Seen]:  # fmt: skip
        """D, and what was seen. ``lead``: the predicate of the thread that issues the product."""
        (m, _), n, (_, numbers, patterns) = self.a.shape, self.b.shape[0], SUMS[self.sums]
        places, blocks = Places.of(m, n, self.pair, self.stationary), 2 if self.pair else 1
        width, descriptors = places.columns, np.zeros(2, np.uint64)
        memory, words = np.zeros((blocks, BYTES), np.uint8), np.zeros((blocks, 128, width + 8), np.uint32)
        if self.layout_a is None:
            whole = np.ascontiguousarray(self.a).view(np.uint32)
            for block, lane in np.argwhere(places.rows >= 0):
                words[block, lane, width:] = whole[places.rows[block, lane]]
        if self.beside is not None:
            words = np.concatenate([words, self.beside], axis=2)
        for block in range(blocks):
            if self.layout_a is not None:
                memory[block, :PLACE_B], descriptors[0] = image(
                    self.a[m // blocks * block :][: m // blocks], self.layout_a
                )
            memory[block, PLACE_B:], descriptors[1] = image(self.b[n // blocks * block :][: n // blocks], self.layout_b)
        descriptors[1] += np.uint64(PLACE_B >> 4)
        places.spread(self.c.astype(numbers).view(patterns), words[:, :, :width])
        out = np.zeros((blocks, 128, width), np.uint32)
        body = self.body(width, alloc, order, setup, commit, wait, loaded, free, before, descriptor, lead)
        seen = launch(
            module(body, PARAMETERS, head=HEAD, directives=".reqnctapercluster 2, 1, 1 .explicitcluster" if self.pair else ""),
            out, memory, aligned(descriptors), words, np.zeros(1, np.uint32), grid=(blocks, 1, 1), block=(128, 1, 1), seed=seed,
        )  # fmt: skip
        d = np.zeros((m, n), patterns)
        places.gather(out, d)
        return d.view(numbers), seen

    def body(self, width: int, alloc: str, order: str, setup: str, commit: str, wait: str, loaded: str, free: str, before: str, descriptor: int | None, lead: str) -> str:  # fmt: skip
        eight = "{" + ", ".join(f"%a{k}" for k in range(8)) + "}"
        left = f"[%r10+{AT_A}]" if self.layout_a is None else "%rd6"
        scale = "" if self.scale is None else f", {self.scale}"
        row = width + 8 + (0 if self.beside is None else self.beside.shape[2])
        columns = [*range(0, width, 8), AT_A, *range(AT_BESIDE, AT_BESIDE + row - width - 8, 8)]
        store = [
            "\n".join((*(f"ld.global.b32 %a{k}, [%rd4+{4 * (8 * at + k)}];" for k in range(8)), f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12+{place}], {eight};"))
            for at, place in enumerate(columns)
        ]  # fmt: skip
        load = [
            "\n".join((f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {eight}, [%r12+{place}];", loaded, *(f"st.global.b32 [%rd5+{4 * (place + k)}], %a{k};" for k in range(8))))
            for place in range(0, width, 8)
        ]  # fmt: skip
        body = "\n".join(
            (".reg .b32 %a<8>; .reg .pred %p9; mov.u32 %r40, %cluster_ctarank; mad.lo.u32 %r41, %r40, 128, %r0;",
             f"ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2]; ld.param.u64 %rd4, [p3]; mad.wide.u32 %rd1, %r40, {BYTES}, %rd1;",
             f"ld.global.v2.u64 {{%rd6, %rd7}}, [%rd2]; mad.wide.u32 %rd4, %r41, {4 * row}, %rd4; mad.wide.u32 %rd5, %r41, {4 * width}, %rd0;",
             "mov.u32 %r9, tile; shr.u32 %r9, %r9, 4; and.b32 %r9, %r9, 0x3fff; cvt.u64.u32 %rd8, %r9; add.s64 %rd6, %rd6, %rd8; add.s64 %rd7, %rd7, %rd8;",
             setup, "setp.lt.u32 %p3, %r0, 32;", alloc, f"@%p1 mbarrier.init.shared::cta.b64 [tile+{DONE}], 1; bar.sync 0; ld.shared.b32 %r10, [tile+{HOLD}];",
             "shr.u32 %r11, %r0, 5; shl.b32 %r11, %r11, 21; add.s32 %r12, %r10, %r11; setp.eq.and.u32 %p9, %r40, 0, %p1;", *store, order,
             f"mov.u32 %r20, {self.descriptor if descriptor is None else descriptor}; setp.eq.u32 %p4, {int(self.adds)}, 1;", before,
             f"@{lead} tcgen05.mma.cta_group::1.{self.kind} [%r10], {left}, %rd7, %r20{self.behind}, %p4{scale};", commit, wait, *load, free)
        )  # fmt: skip
        return body.replace("cta_group::1", "cta_group::2") if self.pair else body


def small(kind: str, m: int, n: int, layout_a: Layout | None, layout_b: Layout, kind_b: str | None = None, **more: Any) -> TensorProduct:  # fmt: skip
    """Small integers: every order of sums gives the same, so a wrong place is the only fault."""
    random, k = np.random.default_rng([m, n]), 32 // np.dtype(KINDS[kind]).itemsize
    a, b = (random.integers(-4, 5, (rows, k)).astype(KINDS[t]) for rows, t in ((m, kind), (n, kind_b or kind)))
    return TensorProduct(kind, kind_b or kind, a, b, random.integers(-8, 9, (m, n)).astype(np.float32), layout_a, layout_b, **more)  # fmt: skip


def plain(it: TensorProduct) -> Any:
    return it.a.astype(np.float32) @ it.b.astype(np.float32).T

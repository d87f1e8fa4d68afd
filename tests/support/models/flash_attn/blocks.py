"""The code that the kernels' thread blocks share, modelled from upstream's headers.

It covers template flags, ``BlockInfo``, predicated loads, masks, online softmax and dropout. Sources: ``block_info.h``,
``utils.h`` ``copy``, ``mask.h``, ``alibi.h``, ``softmax.h``, ``dropout.h`` and ``philox.cuh`` of flash-attn
2.8.3.post2. The only product code used is the layout of the parameter block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, Need
from fmha_cli.oracle.dropout import philox4x32
from tests.support.models.kernel_memory import Array, Memory, integer, tile, values

F32 = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
LOG2_E = np.float32(1.4426950408889634)
INF = np.float32(np.inf)


@dataclass(frozen=True)
class Flags:
    """Template arguments of a kernel, by upstream's names."""

    element: np.dtype[Any]
    m: int
    n: int
    d: int
    dropout: bool
    causal: bool
    local: bool
    alibi: bool
    even_mn: bool
    even_k: bool
    softcap: bool
    split: bool
    append: bool

    @staticmethod
    def of(kernel: KernelSpec) -> Flags:
        s, a = kernel.signature, kernel.algorithm
        assert isinstance(a, FaAlgorithm)
        return Flags(
            element=np.dtype(np.float16 if s.dtype.value == "fp16" else ml_dtypes.bfloat16),
            m=a.tile[0],
            n=a.tile[1],
            d=s.hdim,
            dropout=s.dropout is Need.YES,
            causal=s.mask is MaskKey.CAUSAL,
            local=s.mask is MaskKey.WINDOW,
            alibi=s.bias is BiasKey.ALIBI,
            even_mn=a.even_mn,
            even_k=a.even_k,
            softcap=s.softcap is Need.YES,
            split=s.split is Need.YES,
            append=s.append is Need.YES,
        )

    def columns(self, p: Any) -> int:
        """The columns of a row that are loaded and stored."""
        return self.d if self.even_k else p.d

    def rows(self, left: int, block: int) -> int:
        """The rows of a tile that are loaded and stored if ``left`` rows of the sequence remain."""
        return block if self.even_mn else max(0, min(left, block))


def quotient(a: int, b: int) -> int:
    """C++ integer division: rounds towards zero."""
    return a // b if a >= 0 else -(-a // b)


def ceil_div(a: int, b: int) -> int:
    """``cute::ceil_div``."""
    return quotient(a + b - 1, b)


class BlockInfo:
    """``BlockInfo<Varlen>``."""

    def __init__(self, p: Any, memory: Memory, b: int, *, varlen: bool) -> None:
        starts_q = p.cu_seqlens_q if varlen else None
        starts_k = p.cu_seqlens_k if varlen else None
        cumulative = p.is_seqlens_k_cumulative
        self.sum_q = integer(memory, starts_q, b) if starts_q else -1
        self.sum_k = integer(memory, starts_k, b) if starts_k and cumulative else -1
        self.q = integer(memory, starts_q, b + 1) - self.sum_q if starts_q else p.seqlen_q
        self.leftpad = integer(memory, p.leftpad_k, b) if p.leftpad_k else 0
        held = p.seqlen_k
        if starts_k:
            held = integer(memory, starts_k, b + 1) - self.sum_k if cumulative else integer(memory, starts_k, b)
        self.cached = held - self.leftpad
        if p.seqused_k:
            self.k = integer(memory, p.seqused_k, b) - self.leftpad
        else:
            self.k = self.cached + (p.seqlen_knew if p.knew_ptr else 0)

    def q_offset(self, batch: int, row: int, b: int) -> int:
        return b * batch if self.sum_q == -1 else self.sum_q * row

    def k_offset(self, batch: int, row: int, b: int) -> int:
        return b * batch + self.leftpad * row if self.sum_k == -1 else (self.sum_k + self.leftpad) * row


def load(
    f: Flags, p: Any, memory: Memory, address: int, stride: int, block: int, left: int, fill: float, full: bool = False
) -> F32:
    """``copy``: a (block, kHeadDim) tile of elements in single precision.

    Rows from ``left`` on keep the old content of shared memory, here ``fill``. Columns from ``p.d`` on are cleared.
    ``full``: ``Is_even_MN=true``.
    """
    out = np.full((block, f.d), fill, np.float32)
    rows, columns = (block if full else f.rows(left, block)), f.columns(p)
    out[:rows, columns:] = 0
    out[:rows, :columns] = tile(memory, address, f.element, rows, stride, columns)
    return out


def rounded(f: Flags, numbers: F32) -> F32:
    """Numbers rounded to the element type and back, as by ``convert_type``."""
    return numbers.astype(f.element).astype(np.float32)


def slope_of(f: Flags, p: Any, memory: Memory, b: int, h: int) -> np.float32:
    """``alibi_slope``, divided by ``scale_softmax``, which multiplies it again later."""
    if not f.alibi or not p.alibi_slopes_ptr:
        return np.float32(0)
    at = p.alibi_slopes_ptr + 4 * (b * p.alibi_slopes_batch_stride + h)
    return np.float32(values(memory, at, np.float32, 1)[0]) / np.float32(p.scale_softmax)


def add_alibi(f: Flags, scores: F32, slope: np.float32, rows: Array, columns: Array, info: BlockInfo) -> None:
    if f.causal:
        scores += slope * columns.astype(np.float32)
    else:
        scores -= slope * np.abs(rows + info.k - info.q - columns).astype(np.float32)


def apply_mask(
    f: Flags,
    p: Any,
    info: BlockInfo,
    scores: F32,
    row: int,
    column: int,
    slope: np.float32,
    *,
    causal_mask: bool,
    even_mn: bool,
) -> None:
    """``Mask::apply_mask`` for a tile at the given first row and column."""
    if not (f.alibi or causal_mask or f.local or not even_mn):
        return
    rows = row + np.arange(scores.shape[0])[:, None]
    columns = column + np.arange(scores.shape[1])[None, :]
    if f.alibi:
        add_alibi(f, scores, slope, rows, columns, info)
    shift = info.k - info.q
    hidden = np.zeros(scores.shape, np.bool_)
    if causal_mask or f.local:
        hidden |= columns >= np.minimum(info.k, rows + 1 + shift + p.window_size_right)
        if f.local:
            hidden |= columns < np.maximum(0, rows + shift - p.window_size_left)
    elif not even_mn:
        hidden |= columns >= info.k
    scores[hidden] = -INF


class Softmax:
    """``Softmax``: the running maximum, sum and output of a tile's rows."""

    def __init__(self, rows: int, d: int) -> None:
        self.top = np.full(rows, -INF)
        self.sum = np.zeros(rows, np.float32)
        self.out = np.zeros((rows, d), np.float32)
        self._first = True

    def rescale(self, scores: F32, scale_log2: np.float32, *, check_inf: bool) -> F32:
        """``softmax_rescale_o``: the weights of a tile's keys."""
        before = self.top
        here = scores.max(axis=1)
        self.top = here if self._first else np.fmax(before, here)
        if not self._first:
            now = np.where(self.top == -INF, np.float32(0), self.top) if check_inf else self.top
            shrink = np.exp2((before - now) * scale_log2)
            self.sum *= shrink
            self.out *= shrink[:, None]
        weights = exp2_of(scores, self.top, scale_log2, scale_log2)
        self.sum = weights.sum(axis=1) if self._first else self.sum + weights.sum(axis=1)
        self._first = False
        return weights

    def finish(self, scale: float, keep: float | None, *, split: bool) -> tuple[F32, F32]:
        """``normalize_softmax_lse``: output and LSE."""
        empty = (self.sum == 0) | np.isnan(self.sum)
        inverse = np.where(empty, np.float32(1), np.float32(1) / self.sum)
        lse = np.where(empty, -INF if split else INF, self.top * np.float32(scale) + np.log(self.sum))
        factor = inverse if keep is None else inverse * np.float32(keep)
        return self.out * factor[:, None], lse.astype(np.float32)


def exp2_of(scores: F32, top: F32, scale_log2: np.float32, top_scale: np.float32) -> F32:
    """``scale_apply_exp2``."""
    scaled = np.where(top == -INF, np.float32(0), top * top_scale)
    return np.exp2(scores * scale_log2 - scaled[:, None])


def softcapped(scores: F32, softcap: float) -> F32:
    """``apply_softcap``."""
    return np.tanh(scores * np.float32(softcap))


def _places() -> tuple[Array, Array]:
    """Row and column within a 16 x 32 tile of every (lane, byte), from the loops of ``apply_dropout``."""
    row, column = np.zeros((32, 16), np.int64), np.zeros((32, 16), np.int64)
    for lane in range(32):
        for j in range(2):
            for i in range(8):
                register, n = i % 4, 2 * j + i // 4
                row[lane, 8 * j + i] = lane // 4 + 8 * (register // 2)
                column[lane, 8 * j + i] = 8 * n + 2 * (lane % 4) + register % 2
    return row, column


_ROW, _COLUMN = _places()


def keep_tile(p: Any, seed: int, offset: int, b: int, h: int, row: int, column: int, shape: tuple[int, int]) -> Bools:
    """The elements of a tile that are kept; the tile begins at a multiple of 16 rows and 32 columns."""
    assert row % 16 == 0
    assert column % 32 == 0
    out = np.zeros(shape, np.bool_)
    lanes = np.arange(32, dtype=np.uint64) + np.uint64((offset + (b * p.h + h) * 32) % 2**64)
    low, high = lanes & np.uint64(0xFFFFFFFF), lanes >> np.uint64(32)
    key = (seed % 2**32, seed >> 32)
    for r in range(0, shape[0], 16):
        for c in range(0, shape[1], 32):
            block = np.uint64((row + r) // 16), np.uint64((column + c) // 32)
            words = np.stack(philox4x32((low, high, *map(np.asarray, block)), key, 7), axis=-1)
            drawn = np.ascontiguousarray(words).astype("<u4").view(np.uint8)
            out[r + _ROW, c + _COLUMN] = drawn <= p.p_dropout_in_uint8_t
    return out

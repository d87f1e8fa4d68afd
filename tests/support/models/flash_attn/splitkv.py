"""The model of the split-KV kernel and of the kernel that combines its parts.

It follows ``compute_attn_1rowblock_splitkv`` and ``combine_attn_seqk_parallel`` of ``flash_fwd_kernel.h``, and
``rotary.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.models.flash_attn.blocks import (
    F32,
    INF,
    BlockInfo,
    Flags,
    Softmax,
    apply_mask,
    load,
    quotient,
    rounded,
    slope_of,
    softcapped,
)
from tests.support.models.flash_attn.forward import Grid, key_blocks, masking_steps, store_rows
from tests.support.models.kernel_memory import Array, Memory, integer, tile


def run_splitkv(f: Flags, p: Any, grid: Grid, memory: Memory) -> None:
    for m_block in range(grid[0]):
        for y in range(grid[1]):
            for z in range(grid[2]):
                b, h = (z // p.h, z % p.h) if f.split else (y, z)
                _row_block(f, p, memory, b, h, m_block, y if f.split else 0, grid[1] if f.split else 1)


class _Keys:
    """Where the K and V tiles of one block of rows begin; in a paged cache, each tile lies in one page."""

    def __init__(self, f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, h: int) -> None:
        self.f, self.p, self.memory, self.info = f, p, memory, info
        self.group = quotient(h, p.h_h_k_ratio)
        self.batch = integer(memory, p.cache_batch_idx, b) if p.cache_batch_idx else b
        self.table = p.block_table + 4 * b * p.block_table_batch_stride if p.block_table else 0

    def at(self, name: str, n_block: int) -> int:
        """The address of row 0 of a K or V tile."""
        p, first = self.p, n_block * self.f.n
        batch, row, head = (getattr(p, f"{name}_{axis}_stride") for axis in ("batch", "row", "head"))
        if self.table:
            page = first // p.page_block_size
            place = integer(self.memory, self.table, page) * batch + (first - page * p.page_block_size) * row
        else:
            place = self.info.k_offset(batch, row, self.batch) + first * row
        return getattr(p, f"{name}_ptr") + self.f.element.itemsize * (place + self.group * head)


def _row_block(f: Flags, p: Any, memory: Memory, b: int, h: int, m_block: int, split: int, splits: int) -> None:
    info = BlockInfo(p, memory, b, varlen=not f.even_mn)
    row = m_block * f.m
    if row >= info.q:
        return
    per_split = ((p.seqlen_k + f.n - 1) // f.n + splits - 1) // splits
    first, end = key_blocks(f, p, info, m_block)
    first, end = max(split * per_split, first), min(end, (split + 1) * per_split)
    left = info.q - row
    part = ((split * p.b + b) * p.h + h) * p.seqlen_q + row
    if first >= end:
        lse = np.full(f.m, -INF if f.split else INF)
        _store(f, p, memory, info, b, h, row, part, part, np.zeros((f.m, f.d), np.float32), lse)
        return
    keys = _Keys(f, p, memory, info, b, h)
    if f.append:
        _append(f, p, memory, info, b, keys, first, end)
    q = _queries(f, p, memory, info, b, h, row)
    slope, state, steps = slope_of(f, p, memory, b, h), Softmax(f.m, f.d), masking_steps(f)
    for n_block in range(end - 1, first - 1, -1):
        step = end - 1 - n_block
        masking, left_k, full = step < steps, info.k - n_block * f.n, step > 0
        k = load(f, p, memory, keys.at("k", n_block), p.k_row_stride, f.n, left_k, np.nan, full)
        v = load(f, p, memory, keys.at("v", n_block), p.v_row_stride, f.n, left_k, 0.0, full)
        scores = q @ k.T
        if f.softcap:
            scores = softcapped(scores, p.softcap)
        apply_mask(
            f, p, info, scores, row, n_block * f.n, slope,
            causal_mask=masking and f.causal, even_mn=f.even_mn or not masking,
        )  # fmt: skip
        check = f.local or (masking and (f.causal or not f.even_mn))
        state.out += rounded(f, state.rescale(scores, np.float32(p.scale_softmax_log2), check_inf=check)) @ v
    out, lse = state.finish(p.scale_softmax, None, split=f.split)
    lse_row = part
    if not f.split and p.unpadded_lse:
        lse_row = h * p.total_q + info.q_offset(p.seqlen_q, 1, b) + row
    assert left > 0
    _store(f, p, memory, info, b, h, row, part, lse_row, out, lse)


def _store(
    f: Flags,
    p: Any,
    memory: Memory,
    info: BlockInfo,
    b: int,
    h: int,
    row: int,
    part: int,
    lse_row: int,
    out: F32,
    lse: F32,
) -> None:
    """Store a tile of O and LSE, or a part of them."""
    left = info.q - row
    rows = f.rows(left, f.m)
    if f.split:
        columns = f.columns(p)
        at = p.oaccum_ptr + 4 * part * p.d_rounded
        tile(memory, at, np.float32, rows, f.d, columns)[...] = out[:rows, :columns]
    else:
        place = info.q_offset(p.o_batch_stride, p.o_row_stride, b) + row * p.o_row_stride + h * p.o_head_stride
        store_rows(f, p, memory, p.o_ptr + f.element.itemsize * place, p.o_row_stride, rows, out)
    count = min(left, f.m)
    target = p.softmax_lseaccum_ptr if f.split else p.softmax_lse_ptr
    tile(memory, target + 4 * lse_row, np.float32, count, 1, 1)[:, 0] = lse[:count]


def _append(f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, keys: _Keys, first: int, end: int) -> None:
    """Append new keys and values to the cache; keys are rotated for their cache row."""
    item, columns = f.element.itemsize, f.columns(p)
    for n_block in range(end - 1, max(first, quotient(info.cached, f.n)) - 1, -1):
        low, high = (max(0, min(f.n, x - n_block * f.n)) for x in (info.cached, info.k))
        rows, new = high - low, n_block * f.n + low - info.cached
        if rows <= 0:
            continue
        for name in ("v", "k"):
            batch, row, head = (getattr(p, f"{name}new_{axis}_stride") for axis in ("batch", "row", "head"))
            at = getattr(p, f"{name}new_ptr") + item * (b * batch + new * row + keys.group * head)
            source = tile(memory, at, f.element, rows, row, columns)
            if name == "k" and p.rotary_dim:
                source = _rotated(f, p, memory, source, n_block * f.n + low + info.leftpad, 1)
            stride = getattr(p, f"{name}_row_stride")
            tile(memory, keys.at(name, n_block) + item * low * stride, f.element, rows, stride, columns)[...] = source


def _queries(f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, h: int, row: int) -> F32:
    place = info.q_offset(p.q_batch_stride, p.q_row_stride, b) + h * p.q_head_stride + row * p.q_row_stride
    at = p.q_ptr + f.element.itemsize * place
    if not f.append or not p.rotary_dim:
        return load(f, p, memory, at, p.q_row_stride, f.m, info.q - row, np.nan)
    rows, columns = min(info.q - row, f.m), f.columns(p)
    out = np.full((f.m, f.d), np.nan, np.float32)
    out[:rows, columns:] = 0
    by_row = f.causal or f.local
    source = tile(memory, at, f.element, rows, p.q_row_stride, columns)
    first = info.cached + info.leftpad + (row if by_row else 0)
    out[:rows, :columns] = _rotated(f, p, memory, source, first, int(by_row)).astype(np.float32)
    return out


def _rotated(f: Flags, p: Any, memory: Memory, source: Array, position: int, step: int) -> Array:
    """``copy_rotary_interleaved`` or ``copy_rotary_contiguous``: row r uses table row position + r * step."""
    dim, half, item = p.rotary_dim, p.rotary_dim // 2, f.element.itemsize
    tables = [
        tile(memory, at + item * position * half, f.element, len(source), step * half, half).astype(np.float32)
        for at in (p.rotary_cos_ptr, p.rotary_sin_ptr)
    ]
    cos, sin = tables
    out = source.astype(np.float32)
    a, b = (out[:, 0:dim:2], out[:, 1:dim:2]) if p.is_rotary_interleaved else (out[:, :half], out[:, half:dim])
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    a[...], b[...] = real, imaginary
    return out.astype(f.element)


def run_combine(f: Flags, p: Any, grid: Grid, memory: Memory, rows: int, max_splits: int) -> None:
    """Run the combine kernel; ``rows`` is ``kBlockM`` of the kernel itself."""
    count, columns = p.b * p.h * p.seqlen_q, f.columns(p)
    for block in range(grid[0]):
        first = block * rows
        held = min(rows, count - first)
        lse = np.full((max_splits, rows), -INF)
        assert p.num_splits <= max_splits
        for split in range(p.num_splits):
            at = p.softmax_lseaccum_ptr + 4 * (split * count + first)
            lse[split, :held] = tile(memory, at, np.float32, held, 1, 1)[:, 0]
        top = lse.max(axis=0)
        top = np.where(top == -INF, np.float32(0), top)
        total = np.exp(lse - top).sum(axis=0)
        whole = np.where((total == 0) | np.isnan(total), INF, np.log(total) + top)
        _store_lse(p, memory, first, rows, count, whole)
        factors = np.exp(lse - whole)
        out = np.zeros((held, columns), np.float32)
        for split in range(p.num_splits):
            at = p.oaccum_ptr + 4 * ((split * count + first) * p.d_rounded)
            out += factors[split, :held, None] * tile(memory, at, np.float32, held, f.d, columns)
        for row in range(held):
            index = first + row
            b, h, i = index // (p.h * p.seqlen_q), index // p.seqlen_q % p.h, index % p.seqlen_q
            at = p.o_ptr + f.element.itemsize * (b * p.o_batch_stride + h * p.o_head_stride + i * p.o_row_stride)
            tile(memory, at, f.element, 1, 0, columns)[0] = out[row].astype(f.element)


def _store_lse(p: Any, memory: Memory, first: int, rows: int, count: int, whole: F32) -> None:
    if not p.unpadded_lse:  # all rows of the block, also past the end
        tile(memory, p.softmax_lse_ptr + 4 * first, np.float32, rows, 1, 1)[:, 0] = whole
        return
    for row in range(min(rows, count - first)):
        index = first + row
        b, h, i = index // (p.h * p.seqlen_q), index // p.seqlen_q % p.h, index % p.seqlen_q
        place = h * p.seqlen_q * p.b + (i * p.b + b if p.seqlenq_ngroups_swapped else b * p.seqlen_q + i)
        tile(memory, p.softmax_lse_ptr + 4 * place, np.float32, 1, 0, 1)[...] = whole[row]

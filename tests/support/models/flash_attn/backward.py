"""The model of the backward kernels.

It follows ``compute_dot_do_o`` and ``convert_dQ`` of ``flash_bwd_preprocess_kernel.h``, and
``compute_dq_dk_dv_1colblock`` of ``flash_bwd_kernel.h``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.models.flash_attn.blocks import (
    F32,
    INF,
    LOG2_E,
    BlockInfo,
    Flags,
    add_alibi,
    ceil_div,
    exp2_of,
    keep_tile,
    load,
    quotient,
    rounded,
    slope_of,
    softcapped,
)
from tests.support.models.flash_attn.forward import Grid, store_rows
from tests.support.models.kernel_memory import Array, Memory, tile, values


def run_dot_do_o(f: Flags, p: Any, grid: Grid, memory: Memory, *, clear: bool) -> None:
    f = replace(f, even_mn=False, even_k=False)
    for m_block in range(grid[0]):
        for b in range(grid[1]):
            for h in range(grid[2]):
                info = BlockInfo(p, memory, b, varlen=True)
                row = m_block * f.m
                if row >= info.q:
                    continue
                do, o = (_row_tile(f, p, memory, info, name, b, h, row) for name in ("do", "o"))
                sums = (do * o).sum(axis=1) * np.float32(p.p_dropout)
                _d_rows(f, p, memory, info, b, h, row)[:, 0] = sums
                if clear:
                    _dq_accum(f, p, memory, info, b, h, row)[...] = 0


def run_convert_dq(f: Flags, p: Any, grid: Grid, memory: Memory, parts: int) -> None:
    f = replace(f, even_mn=False, even_k=False)
    for m_block in range(grid[0]):
        for b in range(grid[1]):
            for h in range(grid[2]):
                info = BlockInfo(p, memory, b, varlen=True)
                row = m_block * f.m
                if row >= info.q:
                    continue
                total = np.zeros((f.m, f.d), np.float32)
                for part in range(parts):
                    total += _dq_accum(f, p, memory, info, b, h, row, part * p.dq_accum_split_stride)
                total *= np.float32(p.scale_softmax_rp_dropout)
                _store(f, p, memory, info, "dq", b, h, row, f.rows(info.q - row, f.m), total)


def run_dq_dk_dv(f: Flags, p: Any, grid: Grid, memory: Memory) -> None:
    for x in range(grid[0]):
        for b in range(grid[1]):
            for h in range(grid[2]):
                for n_block in range(x, (p.seqlen_k + f.n - 1) // f.n, grid[0]):
                    _column_block(f, p, memory, b, h, n_block, x)


def _place(p: Any, info: BlockInfo, name: str, b: int, head: int, row: int) -> int:
    """The element offset of row ``row``, column 0 in one head of a tensor."""
    batch, stride, heads = (getattr(p, f"{name}_{axis}_stride") for axis in ("batch", "row", "head"))
    by_key = name in ("k", "v", "dk", "dv")
    first = info.k_offset(batch, stride, b) if by_key else info.q_offset(batch, stride, b)
    return first + row * stride + head * heads


def _row_tile(f: Flags, p: Any, memory: Memory, info: BlockInfo, name: str, b: int, head: int, row: int) -> F32:
    """A tile of query or key rows, with zeros outside the sequence."""
    block, length = (f.n, info.k) if name in ("k", "v") else (f.m, info.q)
    at = getattr(p, f"{name}_ptr") + f.element.itemsize * _place(p, info, name, b, head, row)
    return load(f, p, memory, at, getattr(p, f"{name}_row_stride"), block, length - row, 0.0)


def _store(
    f: Flags, p: Any, memory: Memory, info: BlockInfo, name: str, b: int, h: int, row: int, rows: int, numbers: F32
) -> None:
    at = getattr(p, f"{name}_ptr") + f.element.itemsize * _place(p, info, name, b, h, row)
    store_rows(f, p, memory, at, getattr(p, f"{name}_row_stride"), rows, numbers)


def _d_rows(f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, h: int, row: int) -> Array:
    """(kBlockM, 1): ``gdPsum``."""
    if p.unpadded_lse:
        place = h * (p.total_q + 128 * p.b) + info.q_offset(p.seqlen_q_rounded, 1, b) + 128 * b
    else:
        place = (b * p.h + h) * p.seqlen_q_rounded
    return tile(memory, p.dsoftmax_sum + 4 * (place + row), np.float32, f.m, 1, 1)


def _dq_accum(f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, h: int, row: int, part: int = 0) -> Array:
    """(kBlockM, kHeadDim): ``gdQaccum``."""
    stride = p.h * p.d_rounded
    first = info.q_offset(p.seqlen_q_rounded * stride, stride, b)
    place = first + (row + (128 * b if p.cu_seqlens_q else 0)) * stride + h * p.d_rounded + part
    return tile(memory, p.dq_accum_ptr + 4 * place, np.float32, f.m, stride, f.d)


def _column_block(f: Flags, p: Any, memory: Memory, b: int, h: int, n_block: int, x: int) -> None:
    info = BlockInfo(p, memory, b, varlen=not f.even_mn)
    column = n_block * f.n
    if column >= info.k:
        return
    shift = info.q - info.k
    last = ceil_div(info.q, f.m)
    if f.local:
        last = min(last, ceil_div(column + f.n + shift + p.window_size_left, f.m))
    first = max(0, quotient(column + shift - p.window_size_right, f.m)) if f.causal or f.local else 0
    dk, dv = np.zeros((f.n, f.d), np.float32), np.zeros((f.n, f.d), np.float32)
    rows = f.rows(info.k - column, f.n)
    if (f.local or not f.even_mn) and last - 1 < first:
        for name, zeros in (("dk", dk), ("dv", dv)):
            _store(f, p, memory, info, name, b, h, column, rows, zeros)
        return
    group = quotient(h, p.h_h_k_ratio)
    k, v = (_row_tile(f, p, memory, info, name, b, group, column) for name in ("k", "v"))
    slope = slope_of(f, p, memory, b, h)
    for m_block in range(last - 1, first - 1, -1):
        row = m_block * f.m
        q, do = (_row_tile(f, p, memory, info, name, b, h, row) for name in ("q", "do"))
        scores = q @ k.T
        slopes = None
        if f.softcap:
            scores = softcapped(scores, p.softcap)
            slopes = (np.float32(1) - scores * scores) * np.float32(p.softcap)
        _hide(f, p, info, scores, row, column, slope)
        weights = exp2_of(
            scores,
            _lse(f, p, memory, info, b, h, row, first=m_block == last - 1),
            np.float32(p.scale_softmax_log2),
            LOG2_E,
        )
        kept = _kept(f, p, memory, b, h, row, column)
        used = rounded(f, np.where(kept, weights, np.float32(0)))
        d = _d_rows(f, p, memory, info, b, h, row)
        signed = np.where(kept, weights, -weights)
        ds = signed * np.where(signed >= 0, do @ v.T - d, d) if f.dropout else weights * (do @ v.T - d)
        if slopes is not None:
            ds = ds * slopes
        ds = rounded(f, ds)
        dv += used.T @ do
        part = x * p.dq_accum_split_stride if p.deterministic else 0
        _dq_accum(f, p, memory, info, b, h, row, part)[...] += ds @ k
        dk += ds.T @ q
    if f.dropout:
        dv *= np.float32(p.rp_dropout)
    dk *= np.float32(p.scale_softmax_rp_dropout)
    for name, gradient in (("dk", dk), ("dv", dv)):
        _store(f, p, memory, info, name, b, h, column, rows, gradient)


def _lse(f: Flags, p: Any, memory: Memory, info: BlockInfo, b: int, h: int, row: int, *, first: bool) -> F32:
    """(kBlockM,): the first tile has +inf outside the sequence; later tiles are full."""
    place = (h * p.total_q + info.q_offset(p.seqlen_q, 1, b) if p.unpadded_lse else (b * p.h + h) * p.seqlen_q) + row
    rows = f.rows(info.q - row, f.m) if first else f.m
    out = np.full(f.m, INF)
    out[:rows] = tile(memory, p.softmax_lse_ptr + 4 * place, np.float32, rows, 1, 1)[:, 0]
    return out


def _hide(f: Flags, p: Any, info: BlockInfo, scores: F32, row: int, column: int, slope: np.float32) -> None:
    """ALiBi, then ``apply_mask``, ``apply_mask_causal`` or ``apply_mask_local`` where the tile may need a mask."""
    rows = row + np.arange(f.m)[:, None]
    columns = column + np.arange(f.n)[None, :]
    if f.alibi:
        add_alibi(f, scores, slope, rows, columns, info)
    shift, end = info.k - info.q, column + f.n
    ragged = not f.even_mn and end >= info.k
    hidden = np.zeros(scores.shape, np.bool_)
    if f.causal:
        if row < end - shift or ragged:
            hidden |= columns >= np.minimum(info.k, rows + 1 + shift)
    elif f.local:
        right = row < end - shift - p.window_size_right
        if right or row + f.m >= column - shift + p.window_size_left or ragged:
            hidden |= columns >= np.minimum(info.k, rows + 1 + shift + p.window_size_right)
            hidden |= columns < np.maximum(0, rows + shift - p.window_size_left)
    elif ragged:
        hidden |= columns >= info.k
    scores[hidden] = -INF


def _kept(f: Flags, p: Any, memory: Memory, b: int, h: int, row: int, column: int) -> Array:
    if not f.dropout:
        return np.ones((f.m, f.n), np.bool_)
    seed, offset = (int(word) for word in values(memory, p.rng_state, np.uint64, 2))
    return keep_tile(p, seed, offset, b, h, row, column, (f.m, f.n))

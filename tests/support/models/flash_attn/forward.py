"""The model of the plain forward kernel: ``compute_attn_1rowblock`` of ``flash_fwd_kernel.h``."""

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
    ceil_div,
    keep_tile,
    load,
    quotient,
    rounded,
    slope_of,
    softcapped,
)
from tests.support.models.kernel_memory import Memory, tile, values

Grid = tuple[int, int, int]


def run_forward(f: Flags, p: Any, grid: Grid, memory: Memory) -> None:
    if f.dropout:
        values(memory, p.rng_state, np.uint64, 2)[...] = (p.philox_args.seed, p.philox_args.offset)
    for m_block in range(grid[0]):
        for b in range(grid[1]):
            for h in range(grid[2]):
                _row_block(f, p, memory, b, h, m_block)


def key_blocks(f: Flags, p: Any, info: BlockInfo, m_block: int) -> tuple[int, int]:
    """``n_block_min`` and ``n_block_max`` over all keys."""
    shift = info.k - info.q
    first = max(0, quotient(m_block * f.m + shift - p.window_size_left, f.n)) if f.local else 0
    end = ceil_div(info.k, f.n)
    if f.causal or f.local:
        end = min(end, ceil_div((m_block + 1) * f.m + shift + p.window_size_right, f.n))
    return first, end


def masking_steps(f: Flags) -> int:
    """``n_masking_steps``."""
    if not f.causal and not f.local:
        return 1
    return ceil_div(f.m, f.n) + (0 if f.even_mn and f.causal else 1)


def store_rows(f: Flags, p: Any, memory: Memory, address: int, stride: int, rows: int, numbers: F32) -> None:
    """``copy`` to global memory, as elements."""
    columns = f.columns(p)
    tile(memory, address, f.element, rows, stride, columns)[...] = numbers[:rows, :columns].astype(f.element)


def _lse_place(f: Flags, p: Any, info: BlockInfo, b: int, h: int) -> tuple[int, int]:
    """``get_lse_tile``: the element of row 0, and the elements between rows."""
    packed = p.unpadded_lse and not p.seqlenq_ngroups_swapped
    if packed:
        return info.q_offset(p.seqlen_q, 1, b) + h * p.total_q, 1
    if p.seqlenq_ngroups_swapped:
        return b + h * p.seqlen_q * p.b, p.b
    if p.unpadded_lse:
        return b * p.h * p.total_q + h * p.total_q, 1
    return (b * p.h + h) * p.seqlen_q, 1


def _row_block(f: Flags, p: Any, memory: Memory, b: int, h: int, m_block: int) -> None:
    info = BlockInfo(p, memory, b, varlen=not f.even_mn)
    row = m_block * f.m
    if row >= info.q:
        return
    item = f.element.itemsize
    left = info.q - row
    first, end = key_blocks(f, p, info, m_block)
    o_at = p.o_ptr + item * (
        info.q_offset(p.o_batch_stride, p.o_row_stride, b) + h * p.o_head_stride + row * p.o_row_stride
    )
    lse_at, lse_step = _lse_place(f, p, info, b, h)
    lse_rows = tile(memory, p.softmax_lse_ptr + 4 * (lse_at + row * lse_step), np.float32, min(left, f.m), lse_step, 1)
    if (f.causal or f.local or not f.even_mn) and end <= first:
        store_rows(f, p, memory, o_at, p.o_row_stride, f.rows(left, f.m), np.zeros((f.m, f.d), np.float32))
        lse_rows[...] = INF
        return
    q_at = info.q_offset(p.q_batch_stride, p.q_row_stride, b) + h * p.q_head_stride + row * p.q_row_stride
    q = load(f, p, memory, p.q_ptr + item * q_at, p.q_row_stride, f.m, left, np.nan)
    group = quotient(h, p.h_h_k_ratio)
    k_at = info.k_offset(p.k_batch_stride, p.k_row_stride, b) + group * p.k_head_stride
    v_at = info.k_offset(p.v_batch_stride, p.v_row_stride, b) + group * p.v_head_stride
    slope, state, steps = slope_of(f, p, memory, b, h), Softmax(f.m, f.d), masking_steps(f)
    for n_block in range(end - 1, first - 1, -1):
        step = end - 1 - n_block
        masking, left_k = step < steps, info.k - n_block * f.n
        k = load(
            f, p, memory, p.k_ptr + item * (k_at + n_block * f.n * p.k_row_stride), p.k_row_stride, f.n, left_k, np.nan,
            full=step > 0,
        )  # fmt: skip
        v = load(
            f, p, memory, p.v_ptr + item * (v_at + n_block * f.n * p.v_row_stride), p.v_row_stride, f.n, left_k, 0.0,
            full=step > 0,
        )  # fmt: skip
        scores = q @ k.T
        if f.softcap:
            scores = softcapped(scores, p.softcap)
        apply_mask(
            f, p, info, scores, row, n_block * f.n, slope,
            causal_mask=masking and f.causal, even_mn=f.even_mn or not masking,
        )  # fmt: skip
        check = f.local or (masking and f.causal)
        weights = rounded(f, state.rescale(scores, np.float32(p.scale_softmax_log2), check_inf=check))
        if f.dropout:
            seed, offset = p.philox_args.seed, p.philox_args.offset
            weights = np.where(
                keep_tile(p, seed, offset, b, h, row, n_block * f.n, weights.shape), weights, np.float32(0)
            )
        state.out += weights @ v
    out, lse = state.finish(p.scale_softmax, p.rp_dropout if f.dropout else None, split=False)
    lse_rows[:, 0] = lse[: len(lse_rows)]
    store_rows(f, p, memory, o_at, p.o_row_stride, f.rows(left, f.m), out)

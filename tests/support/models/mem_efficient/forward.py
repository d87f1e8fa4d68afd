"""The model of the forward kernel: ``advance_to_block`` and ``attention_kernel`` of ``kernel_forward.h``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.models.kernel_memory import Memory, integer, values
from tests.support.models.mem_efficient.blocks import (
    BOTTOM_RIGHT,
    F32,
    INF,
    LOG2_E,
    NONE,
    TOP_LEFT,
    Flags,
    bias_tile,
    dropout_scale,
    i32,
    loaded,
    u32,
    uniforms,
    units,
    up,
)

LSE_STEP = 32


def run_forward(f: Flags, params: Any, grid: tuple[int, int, int], memory: Memory) -> None:
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                b = _advanced(f, params, memory, z, y, x * f.rows)
                if b is not None:
                    _attention(f, b, memory, x * f.rows)


def _advanced(f: Flags, params: Any, memory: Memory, batch: int, head: int, query_start: int) -> SimpleNamespace | None:
    """The parameters of one block; None where it has no work. Numbers wrap as in C++."""
    p = SimpleNamespace(**{name: getattr(params, name) for name, _ in params._fields_})
    lse_dim = up(p.num_queries, LSE_STEP)
    plane = u32(p.num_queries * p.num_keys)
    p.rng_start = u32(batch * p.num_heads * plane + head * plane)
    q_start = k_start = 0
    if p.seqstart_q_ptr:
        q_start = integer(memory, p.seqstart_q_ptr, batch)
        k_start = integer(memory, p.seqstart_k_ptr, batch)
        k_end = integer(memory, p.seqstart_k_ptr, batch + 1)
        if p.seqlen_k_ptr:
            k_end = k_start + integer(memory, p.seqlen_k_ptr, batch)
        p.num_queries = integer(memory, p.seqstart_q_ptr, batch + 1) - q_start
        p.num_keys = k_end - k_start
        if query_start >= p.num_queries:
            return None
    else:
        p.query_ptr += f.item * batch * p.q_strideB
        p.key_ptr += f.item * batch * p.k_strideB
        p.value_ptr += f.item * batch * p.v_strideB
        p.output_ptr += f.item * u32(batch * p.num_queries) * p.o_strideM
        if p.output_accum_ptr:
            p.output_accum_ptr += 4 * u32(batch * p.num_queries) * i32(p.head_dim_value * p.num_heads)
    p.query_ptr += f.item * ((q_start + query_start) * p.q_strideM + u32(head * p.q_strideH))
    p.key_ptr += f.item * (k_start * p.k_strideM + u32(head * p.k_strideH))
    p.value_ptr += f.item * (k_start * p.v_strideM + u32(head * p.v_strideH))
    p.output_ptr += f.item * ((q_start + query_start) * p.o_strideM + u32(head * p.head_dim_value))
    if p.attn_bias_ptr:
        p.attn_bias_ptr += f.item * (batch * p.bias_strideB + head * p.bias_strideH)
    if p.output_accum_ptr:
        row = i32(p.head_dim_value * p.num_heads)
        p.output_accum_ptr += 4 * ((q_start + query_start) * row + u32(head * p.head_dim_value))
    else:
        assert not f.accumulates, "a 16-bit kernel would take its output for fp32"
        p.output_accum_ptr = p.output_ptr
    if p.logsumexp_ptr:
        p.logsumexp_ptr += 4 * u32(batch * lse_dim * p.num_heads + head * lse_dim + query_start)
    if p.custom_mask_type == BOTTOM_RIGHT:
        p.causal_diagonal_offset = u32(p.num_keys - p.num_queries)
    p.num_keys_absolute = p.num_keys
    if p.custom_mask_type in (TOP_LEFT, BOTTOM_RIGHT):
        p.num_keys = min(i32(query_start + p.causal_diagonal_offset + f.rows), p.num_keys)
    p.num_queries -= query_start
    if p.num_queries == 1 and not (p.k_strideH or p.v_strideH or p.logsumexp_ptr or p.window_size):
        if head % f.rows:
            return None
        p.q_strideM, p.bias_strideM = p.q_strideH, i32(p.bias_strideH)
        p.num_queries, p.num_heads, p.custom_mask_type, p.o_strideM = p.num_heads, 1, NONE, p.head_dim_value
    return p


def _atomic_max(held: F32, value: F32) -> F32:
    """``atomicMaxFloat``: -0.0 counts as not negative, and as the smallest integer."""
    largest = np.maximum(held.view(np.int32), value.view(np.int32)).view(np.float32)
    smallest = np.minimum(held.view(np.uint32), value.view(np.uint32)).view(np.float32)
    return np.where(value >= 0, largest, smallest)


def _attention(f: Flags, p: SimpleNamespace, memory: Memory, query_start: int) -> None:
    rows = min(f.rows, p.num_queries)
    mi, m_prime = np.full(f.rows, -INF), np.full(f.rows, -INF)
    s_prime, width = np.zeros(f.rows, np.float32), up(p.head_dim_value, f.load)
    out, rescale = np.zeros((f.rows, width), np.float32), np.ones(f.rows, np.float32)
    q = loaded(f, memory, p.query_ptr, p.q_strideM, rows, p.head_dim, f.rows)
    diagonal = query_start + p.causal_diagonal_offset
    first_key = max(i32(diagonal) - p.window_size + 1, 0) // f.keys * f.keys if p.window_size > 0 else 0
    for start in range(0, max(p.num_keys, 0), f.keys):
        if p.window_size > 0 and start + f.keys < i32(diagonal) - p.window_size:
            continue
        scores = _scores(f, p, memory, q, query_start, start)
        keys = min(f.keys, p.num_keys - start)
        inside = np.arange(f.keys) < p.num_keys - start
        scores *= LOG2_E
        mi = _atomic_max(mi, np.where(inside, scores, -INF).max(axis=1))
        changed = m_prime < mi
        rescale = np.where(changed, np.exp2(m_prime - mi), np.float32(1))
        s_prime = np.where(changed, s_prime * rescale, s_prime)
        empty = ~changed & (mi == -INF)
        top = np.where(empty, np.float32(0), mi)
        if f.in_registers and start:
            out *= rescale[:, None]
        weights = np.where(inside, np.exp2(scores - top[:, None]), np.float32(0))
        s_prime = s_prime + weights.sum(axis=1, dtype=np.float32)
        m_prime = np.where(empty, m_prime, top)
        weights = f.rounded(weights)
        if p.use_dropout:
            weights = _dropped(f, p, weights, rows, keys, query_start, start)
        v = loaded(
            f, memory, p.value_ptr + f.item * i32(start * p.v_strideM), p.v_strideM, keys, p.head_dim_value, f.keys
        )
        if f.in_registers:
            out += weights @ v
            continue
        part, last = weights @ v, start + f.keys >= p.num_keys
        alpha = (np.float32(1) / s_prime if last else np.ones(f.rows, np.float32))[:, None]
        total = alpha * part
        if start != first_key:
            held = units(
                f, memory, p.output_accum_ptr, p.head_dim_value * p.num_heads, rows, width, f.store, np.float32
            )
            total[:rows] += alpha[:rows] * rescale[:rows, None] * held
        _store(f, p, memory, total, rows, last=last)
    if f.in_registers:
        _store(f, p, memory, out * (np.float32(1) / s_prime)[:, None], rows, last=True)
    if p.logsumexp_ptr:
        lse = mi / LOG2_E + np.log(s_prime)
        held = min(f.rows, up(p.num_queries, LSE_STEP))
        values(memory, p.logsumexp_ptr, np.float32, held)[...] = np.where(
            np.arange(held) < p.num_queries, lse[:held], INF
        )


def _scores(f: Flags, p: SimpleNamespace, memory: Memory, q: F32, query_start: int, start: int) -> F32:
    rows, keys = min(f.rows, p.num_queries), min(f.keys, p.num_keys - start)
    k = loaded(f, memory, p.key_ptr + f.item * i32(start * p.k_strideM), p.k_strideM, keys, p.head_dim, f.keys)
    scores: F32 = (q @ k.T) * np.float32(p.scale)
    if p.attn_bias_ptr:
        at = p.attn_bias_ptr + f.item * (u32(query_start * p.bias_strideM) + start)
        scores[:rows, :keys] += bias_tile(f, memory, at, p.bias_strideM, rows, keys)[:rows, :keys]
    row, column = np.arange(f.rows)[:, None], np.arange(f.keys)[None, :]
    diagonal = u32(query_start + p.causal_diagonal_offset)
    if p.custom_mask_type and u32(min(start + f.keys, p.num_keys)) >= diagonal:
        scores[column > row + i32(diagonal - start)] = -INF
    if p.window_size > 0 and u32(diagonal + min(f.rows, p.num_queries) - p.window_size) >= start:
        scores[column <= row + i32(diagonal - p.window_size - start)] = -INF
    return scores


def _dropped(f: Flags, p: SimpleNamespace, weights: F32, rows: int, keys: int, query_start: int, start: int) -> F32:
    words = (
        u32(query_start * p.num_keys_absolute)
        + np.arange(rows)[:, None] * p.num_keys_absolute
        + start
        + np.arange(keys)
    )
    begin = p.rng_engine_inputs.offset + p.rng_start & 0xFFFFFFFFFFFFFFFF
    kept = uniforms(p.rng_engine_inputs.seed, begin, words) > np.float32(p.dropout_prob)
    factor = f.rounded(dropout_scale(p) * kept.astype(np.float32))
    out = np.zeros_like(weights)
    out[:rows, :keys] = f.rounded(weights[:rows, :keys] * factor)
    return out


def _store(f: Flags, p: SimpleNamespace, memory: Memory, total: F32, rows: int, *, last: bool) -> None:
    """The epilogue: the output in the last step, else the fp32 sums."""
    if last:
        held = units(f, memory, p.output_ptr, p.o_strideM, rows, p.head_dim_value, f.store)
    else:
        row = p.head_dim_value * p.num_heads
        held = units(f, memory, p.output_accum_ptr, row, rows, p.head_dim_value, f.store, np.float32)
    held[...] = total[:rows, : held.shape[1]].astype(held.dtype)

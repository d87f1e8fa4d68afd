"""The model of the backward kernel: ``advance_to_block``, ``attention_kernel``, ``processBlockIJ`` of ``kernel_backward.h``.

The blocks of one head run one after the other, as if each held the locks of dQ's tiles in turn.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.models.kernel_memory import Array, Memory, integer, tile, values
from tests.support.models.mem_efficient.blocks import (
    BOTTOM_RIGHT,
    F32,
    INF,
    NONE,
    TOP_LEFT,
    Flags,
    bias_tile,
    dropout_scale,
    i32,
    loaded,
    quotient,
    uniforms,
    units,
    up,
)

LSE_STEP = 32
LOCK_BYTES = 16
_QUERY_POINTERS = ("query_ptr", "output_ptr", "grad_output_ptr", "grad_query_ptr")


def run_backward(f: Flags, params: Any, grid: tuple[int, int, int], memory: Memory) -> None:
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                _column(f, _advanced(f, params, memory, z, y, x, grid[0]), memory)


def _advanced(f: Flags, params: Any, memory: Memory, batch: int, head: int, split: int, splits: int) -> SimpleNamespace:
    """The parameters of one block. Numbers wrap as in C++."""
    p = SimpleNamespace(**{name: getattr(params, name) for name, _ in params._fields_})
    p.split, p.splits = split, splits
    p.o_strideM = i32(p.head_dim_value * p.num_heads)
    p.gQ_strideM = p.gK_strideM = i32(p.gQKV_strideM_multiplier * p.num_heads * p.head_dim)
    p.gV_strideM = i32(p.gQKV_strideM_multiplier * p.num_heads * p.head_dim_value)
    gk = p.num_splits_key * f.keys * up(p.head_dim, f.rows) if f.accumulates else 0
    gv = p.num_splits_key * f.keys * up(p.head_dim_value, f.rows) if f.accumulates else 0
    tiles = -(-p.num_queries // f.rows) * -(-p.head_dim // f.keys)
    gq = tiles * (LOCK_BYTES + 4 * f.rows * f.keys) // 4
    p.workspace += 4 * (batch * p.num_heads + head) * up(gk + gv + gq, 4)
    p.workspace_gv = p.workspace + 4 * gk
    p.workspace_gq = p.workspace_gv + 4 * gv
    p.workspace += 4 * quotient(gk * split, splits)
    p.workspace_gv += 4 * quotient(gv * split, splits)
    plane = i32(p.num_queries * p.num_keys)
    p.rng_start = batch * i32(p.num_heads * plane) + i32(head * plane)
    p.logsumexp_ptr += 4 * (batch * p.lse_strideB + head * p.lse_strideH)
    if p.cu_seqlens_q_ptr:
        q_start, k_start = integer(memory, p.cu_seqlens_q_ptr, batch), integer(memory, p.cu_seqlens_k_ptr, batch)
        p.num_queries = integer(memory, p.cu_seqlens_q_ptr, batch + 1) - q_start
        p.num_keys = integer(memory, p.cu_seqlens_k_ptr, batch + 1) - k_start
        batch = 0
        assert not p.bias_ptr
        assert not p.grad_bias_ptr
        for pointer, stride, start in (
            ("query_ptr", p.q_strideM, q_start), ("key_ptr", p.k_strideM, k_start), ("value_ptr", p.v_strideM, k_start),
            ("output_ptr", p.o_strideM, q_start), ("grad_output_ptr", p.gO_strideM, q_start),
            ("grad_query_ptr", p.gQ_strideM, q_start), ("grad_key_ptr", p.gK_strideM, k_start),
            ("grad_value_ptr", p.gV_strideM, k_start),
        ):  # fmt: skip
            setattr(p, pointer, getattr(p, pointer) + f.item * i32(start * stride))
        p.delta_ptr += 4 * q_start
    for pointer, name in (
        ("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"), ("grad_output", "gO"), ("grad_query", "gQ"),
        ("grad_key", "gK"), ("grad_value", "gV"), ("bias", "bias"), ("grad_bias", "gB"),
    ):  # fmt: skip
        at, steps = getattr(p, f"{pointer}_ptr"), (getattr(p, f"{name}_strideB"), getattr(p, f"{name}_strideH"))
        heads = i32(head * steps[1]) if name in ("q", "k", "v") else head * steps[1]
        if at or pointer not in ("bias", "grad_bias"):
            setattr(p, f"{pointer}_ptr", at + f.item * (batch * steps[0] + heads))
    p.delta_ptr += 4 * (batch * p.delta_strideB + head * p.delta_strideH)
    return p


def _column(f: Flags, p: SimpleNamespace, memory: Memory) -> None:
    """``attention_kernel``: every ``splits``-th block of keys."""
    start = p.split * f.keys
    if start >= p.num_keys:
        return
    if f.computes_delta:
        _delta(f, p, memory)
    while start < p.num_keys:
        dk, dv = (np.zeros((f.keys, up(d, f.load)), np.float32) for d in (p.head_dim, p.head_dim_value))
        query, following = _query_start(f, p, start), start
        while following == start and query < p.num_queries:
            _tile(f, p, memory, query, start, dk, dv)
            query, following = _next(f, p, query, start)
        keys = f.keys if f.seq_aligned else min(f.keys, p.num_keys - start)
        if f.in_registers:
            for pointer, stride, dim, total in _gradients(p, dk, dv):
                _store(f, memory, pointer + f.item * i32(start * stride), stride, keys, dim, total)
        elif _query_start(f, p, start) >= p.num_queries:
            for pointer, stride, dim, _ in _gradients(p, dk, dv):
                tile(memory, pointer + f.item * i32(start * stride), f.element, keys, stride, dim)[...] = 0
        start += p.splits * f.keys


def _gradients(p: SimpleNamespace, dk: F32, dv: F32) -> tuple[tuple[int, int, int, F32], ...]:
    return (p.grad_key_ptr, p.gK_strideM, p.head_dim, dk), (p.grad_value_ptr, p.gV_strideM, p.head_dim_value, dv)


def _delta(f: Flags, p: SimpleNamespace, memory: Memory) -> None:
    """``computeDelta``: every block writes the same sums."""
    unit = f.widest if p.head_dim_value % f.widest == 0 else 1
    dim = p.head_dim_value
    do = units(f, memory, p.grad_output_ptr, p.gO_strideM, p.num_queries, dim, unit).astype(np.float32)
    o = units(f, memory, p.output_ptr, p.o_strideM, p.num_queries, dim, unit).astype(np.float32)
    values(memory, p.delta_ptr, np.float32, p.num_queries)[...] = (do * o).sum(axis=1)


def _shift(p: SimpleNamespace) -> int:
    return p.num_keys - p.num_queries if p.custom_mask_type == BOTTOM_RIGHT else 0


def _query_start_shift(f: Flags, p: SimpleNamespace) -> int:
    if p.custom_mask_type == NONE and p.splits > 1:
        return p.split * f.rows % up(p.num_queries, f.rows)  # by 0 where there is no row
    return 0


def _query_start(f: Flags, p: SimpleNamespace, start: int) -> int:
    return _smallest_query(f, p, start) + _query_start_shift(f, p)


def _smallest_query(f: Flags, p: SimpleNamespace, start: int) -> int:
    if p.custom_mask_type == NONE:
        return 0
    shift, window = _shift(p), p.window_size or p.num_queries + p.num_keys
    first, last = start - shift, min(start + f.keys, p.num_keys) - 1 - shift + window - 1
    if last < 0 or first >= p.num_queries:
        return up(p.num_queries, f.rows)
    return max(0, first) // f.rows * f.rows


def _parallel_blocks(f: Flags, p: SimpleNamespace, query: int) -> int:
    """``getNumParallelBlocksForQuery``."""
    blocks = -(-p.num_keys // f.keys)
    if p.custom_mask_type != NONE:
        shift = _shift(p)
        last = min(min(query + f.rows, p.num_queries) - 1 + shift, p.num_keys - 1)
        first = max(query - p.window_size + 1 + shift, 0) if p.window_size else 0
        blocks = quotient(last, f.keys) - first // f.keys + 1
        if last < 0 or first >= p.num_keys:
            blocks = 0
    return min(p.splits, blocks)


def _next(f: Flags, p: SimpleNamespace, query: int, start: int) -> tuple[int, int]:
    """``incrIteration``: the next tile of rows and the block of keys it belongs to."""
    following, wrap = query + f.rows, _query_start_shift(f, p)
    if wrap:
        if following >= p.num_queries:
            return _smallest_query(f, p, start), start
        if not query < wrap <= following:
            return following, start
    elif p.window_size > 0:
        last = min(start + f.keys, p.num_keys) - 1 - _shift(p) + p.window_size - 1
        if following <= last and following < p.num_queries:
            return following, start
    elif following < p.num_queries:
        return following, start
    key = start + p.splits * f.keys
    return _query_start(f, p, key), key


def _tile(f: Flags, p: SimpleNamespace, memory: Memory, query: int, start: int, dk: F32, dv: F32) -> None:
    """``processBlockIJ``. ``dk`` and ``dv`` are the registers of kernels that keep them there."""
    first = query == _query_start(f, p, start)
    last = _next(f, p, query, start)[1] != start
    rows = f.rows if f.seq_aligned else min(f.rows, p.num_queries - query)
    keys = f.keys if f.seq_aligned else min(f.keys, p.num_keys - start)
    delta = np.zeros(f.rows, np.float32)
    held = min(f.rows, p.num_queries - query)
    delta[:held] = values(memory, p.delta_ptr + 4 * query, np.float32, held)
    q, do = (
        loaded(f, memory, at + f.item * i32(query * stride), stride, rows, dim, f.rows)
        for at, stride, dim in (
            (p.query_ptr, p.q_strideM, p.head_dim),
            (p.grad_output_ptr, p.gO_strideM, p.head_dim_value),
        )
    )
    k, v = (
        loaded(f, memory, at + f.item * i32(start * stride), stride, keys, dim, f.keys)
        for at, stride, dim in ((p.key_ptr, p.k_strideM, p.head_dim), (p.value_ptr, p.v_strideM, p.head_dim_value))
    )
    weights = _weights(f, p, memory, q, k, rows, keys, query, start)
    kept = _kept(f, p, rows, keys, query, start)
    used = weights if kept is None else f.rounded(weights * np.where(kept, f.rounded(dropout_scale(p)), 0))
    _accumulate(f, p, memory, "v", used.T @ do, dv, keys, start, first=first, last=last)
    dp = do @ v.T
    if kept is not None:
        dp = np.where(kept, dp * dropout_scale(p), np.float32(0))
    inside = (np.arange(f.rows)[:, None] < rows) & (np.arange(f.keys)[None, :] < keys)
    ds: F32 = np.where(inside, (dp - delta[:, None]) * weights, np.float32(0))
    if p.grad_bias_ptr:
        at = p.grad_bias_ptr + f.item * i32(i32(query * p.gB_strideM) + start)
        _store(f, memory, at, p.gB_strideM, rows, keys, ds)
    ds = f.rounded(ds * np.float32(p.scale))
    _grad_query(f, p, memory, ds @ k, rows, query, start)
    _accumulate(f, p, memory, "k", ds.T @ q, dk, keys, start, first=first, last=last)


def _weights(
    f: Flags, p: SimpleNamespace, memory: Memory, q: F32, k: F32, rows: int, keys: int, query: int, start: int
) -> F32:
    """(rows, keys) of P, rounded. Rows of the tile past the padding of the LSE stay 0: no product reads them."""
    scores: F32 = (q @ k.T) * np.float32(p.scale)
    if p.bias_ptr:
        at = p.bias_ptr + f.item * i32(i32(query * p.bias_strideM) + start)
        scores += bias_tile(f, memory, at, p.bias_strideM, rows, keys)
    row, column = np.arange(f.rows)[:, None], np.arange(f.keys)[None, :]
    if p.custom_mask_type in (TOP_LEFT, BOTTOM_RIGHT):
        scores[column > row + query - start + _shift(p)] = -INF
    if p.window_size > 0:
        scores[column <= row + query - start - p.window_size] = -INF
    held = min(up(rows, LSE_STEP), f.rows)
    lse = values(memory, p.logsumexp_ptr + 4 * query, np.float32, held)
    weights = np.zeros_like(scores)
    weights[:held] = f.rounded(np.exp(scores[:held] - lse[:, None]))
    return weights


def _kept(f: Flags, p: SimpleNamespace, rows: int, keys: int, query: int, start: int) -> Array | None:
    if not f.drops:
        return None
    words = i32(query * p.num_keys) + np.arange(f.rows)[:, None] * p.num_keys + start + np.arange(f.keys)
    begin = p.rng_engine_inputs.offset + p.rng_start & 0xFFFFFFFFFFFFFFFF
    return uniforms(p.rng_engine_inputs.seed, begin, words) > np.float32(p.dropout_prob)


def _accumulate(
    f: Flags, p: SimpleNamespace, memory: Memory, name: str, part: F32, registers: F32, keys: int, start: int, *,
    first: bool, last: bool,
) -> None:  # fmt: skip
    """Add a tile's share to dK or dV: in registers, in the workspace until the last tile, or (fp32) in the output."""
    if f.in_registers:
        registers += part
        return
    pointer, stride, dim = (
        (p.grad_key_ptr, p.gK_strideM, p.head_dim)
        if name == "k"
        else (p.grad_value_ptr, p.gV_strideM, p.head_dim_value)
    )
    at = pointer + f.item * i32(start * stride)
    if not f.accumulates:
        held = units(f, memory, at, stride, keys, dim, f.store)
        held[...] = part[:keys, : held.shape[1]] + (0 if first else held)
        return
    space = p.workspace if name == "k" else p.workspace_gv
    sums = values(memory, space, np.float32, f.keys * up(dim, f.rows)).reshape(f.keys, -1)
    total = part if first else part + sums[:, : part.shape[1]]
    if last:
        _store(f, memory, at, stride, keys, dim, total)
    else:
        sums[:, : part.shape[1]] = total


def _grad_query(f: Flags, p: SimpleNamespace, memory: Memory, part: F32, rows: int, query: int, start: int) -> None:
    """dQ of a tile of rows: added to its tiles of the workspace, and stored by the last block that visits it."""
    columns = -(-p.head_dim // f.keys)
    next_key = start + p.splits * f.keys
    done = p.num_keys <= next_key or query < _smallest_query(f, p, next_key)
    for column in range(columns):
        at = p.workspace_gq + (column + query // f.rows * columns) * (LOCK_BYTES + 4 * f.rows * f.keys)
        lock = values(memory, at, np.int32, 2)
        sums = values(memory, at + LOCK_BYTES, np.float32, f.rows * f.keys).reshape(f.rows, f.keys)
        own = part[:, column * f.keys : (column + 1) * f.keys]
        total = np.zeros((f.rows, f.keys), np.float32)
        total[:, : own.shape[1]] = own
        if not (p.splits == 1 and start == 0):
            total += sums
        final = done
        if p.splits > 1:
            assert lock[0] == 0, "the block would wait for ever"
            lock[0] = p.split + 1
            lock[1] += done
            final = done and int(lock[1]) == _parallel_blocks(f, p, query)
            assert int(lock[1]) <= _parallel_blocks(f, p, query)
        if final:
            first = column * f.keys
            dim = min(f.keys, p.head_dim - first)
            address = p.grad_query_ptr + f.item * (i32(query * p.gQ_strideM) + first)
            _store(f, memory, address, p.gQ_strideM, rows, dim, total)
        else:
            sums[...] = total
            lock[0] = 0


def _store(f: Flags, memory: Memory, address: int, stride: int, rows: int, columns: int, total: F32) -> None:
    """The epilogue: whole units of the element type."""
    held = units(f, memory, address, stride, rows, columns, f.store)
    wide = np.zeros((rows, held.shape[1]), np.float32)
    found = total[:rows, : held.shape[1]]
    wide[:, : found.shape[1]] = found
    held[...] = wide.astype(f.element)

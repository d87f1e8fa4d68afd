"""The forward kernel: one program computes BM rows of one head."""

import triton
import triton.language as tl

from fmha_triton.kernels.common import (
    LN2,
    LOG2E,
    block_ranges,
    exponential,
    loaded_columns,
    loaded_rows,
    scores,
    tile,
    tile_of_columns,
    visible,
)  # fmt: skip


@triton.jit
def softmax_step(
    q, K, V, k_row, v_row, acc, total, top, i, block, rows, keys, hdim, hdim_v, delta, left, right, sink,
    scale, softcap, slope, bias, bias_row,
    D: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
    PAD: tl.constexpr, WIDEN: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One block of keys of the online softmax. WHOLE: every row of the block sees every key."""
    start = block * BN
    limit = start + BN if WHOLE else keys
    k = loaded_columns(tile_of_columns(K, start, k_row, BN, D), start, limit, hdim, BN, D, PAD)
    v = loaded_rows(tile(V, start, v_row, BN, D), start, limit, hdim_v, BN, D, PAD)
    j = start + tl.arange(0, BN)
    s, _ = scores(
        tl.dot(q, k), i[:, None], j[None, :], rows, keys, delta, scale, softcap, slope, bias, bias_row, BIAS, SOFTCAP
    )
    if not WHOLE:
        s = tl.where(visible(i[:, None], j[None, :], rows, keys, delta, left, right, sink, MASK), s, float("-inf"))
    new = tl.maximum(top, tl.max(s, 1))
    safe = tl.where(new == float("-inf"), 0.0, new)
    p = exponential(s - safe[:, None], BIAS)
    alpha = exponential(top - safe, BIAS)
    total = total * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    if WIDEN:  # fp8 values are exact in fp16, and P keeps its precision
        acc = tl.dot(p.to(tl.float16), v.to(tl.float16), acc)
    else:
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, total, new


@triton.jit
def forward(
    Q, K, V, Bias, Slopes, Sinks, Out, Lse, DescaleQ, DescaleK, DescaleV, QStart, QLen, KStart, KLen,
    q_batch, q_head, k_batch, k_head, v_batch, v_head, o_batch, o_head, bias_batch, bias_head, lse_batch, lse_head,
    q_row, k_row, v_row, o_row, bias_row, slope_batch, descale_batch, descale_head,
    group, hdim, hdim_v, scale, softcap, left, right, top_left, sink, has_sinks, has_lse,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    SOFTCAP: tl.constexpr, DESCALE: tl.constexpr, PAD: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """O, and the LSE where it is wanted. Grid (blocks of BM rows, heads, batch)."""
    start = tl.program_id(0) * BM
    head = tl.program_id(1)
    batch = tl.program_id(2)
    rows = tl.load(QLen + batch)
    if start >= rows:
        return
    keys = tl.load(KLen + batch)
    first_q, first_k = tl.load(QStart + batch).to(tl.int64), tl.load(KStart + batch).to(tl.int64)
    kv_head = head // group
    b64, h64, g64 = batch.to(tl.int64), head.to(tl.int64), kv_head.to(tl.int64)
    Q += b64 * q_batch + h64 * q_head + first_q * q_row
    Out += b64 * o_batch + h64 * o_head + first_q * o_row
    K += b64 * k_batch + g64 * k_head + first_k * k_row
    V += b64 * v_batch + g64 * v_head + first_k * v_row
    bias = Bias + b64 * bias_batch + h64 * bias_head
    slope = 0.0
    if BIAS == 2:
        slope = tl.load(Slopes + batch * slope_batch + head)
    out_scale = 1.0
    if DESCALE:
        at = batch * descale_batch + kv_head * descale_head
        scale = scale * tl.load(DescaleQ + at) * tl.load(DescaleK + at)
        out_scale = tl.load(DescaleV + at)
    delta = tl.where(top_left != 0, 0, keys - rows)
    i = start + tl.arange(0, BM)
    q = loaded_rows(tile(Q, start, q_row, BM, D), start, rows, hdim, BM, D, PAD)
    sink_logit = tl.load(Sinks + head, mask=has_sinks != 0, other=float("-inf"))
    if BIAS != 1:
        sink_logit = sink_logit * LOG2E
    top = tl.zeros([BM], tl.float32) + sink_logit
    total = tl.where(top == float("-inf"), 0.0, 1.0)
    acc = tl.zeros([BM, D], tl.float32)
    first, full_first, full_end, end, sinks = block_ranges(start, rows, keys, delta, left, right, sink, BM, BN, MASK)
    for block in range(full_first, full_end):
        acc, total, top = softmax_step(
            q, K, V, k_row, v_row, acc, total, top, i, block, rows, keys, hdim, hdim_v, delta, left, right, sink,
            scale, softcap, slope, bias, bias_row, D, BN, MASK, BIAS, SOFTCAP, PAD, WIDEN, True,
        )  # fmt: skip
    before = full_first - first
    for t in range(sinks + before + end - full_end):
        # the blocks of sinks, those at the left edge of the window, and those at its right edge
        block = tl.where(t < sinks, t, tl.where(t < sinks + before, t - sinks + first, t - sinks - before + full_end))
        acc, total, top = softmax_step(
            q, K, V, k_row, v_row, acc, total, top, i, block, rows, keys, hdim, hdim_v, delta, left, right, sink,
            scale, softcap, slope, bias, bias_row, D, BN, MASK, BIAS, SOFTCAP, PAD, WIDEN, False,
        )  # fmt: skip
    seen = total > 0
    acc = acc * (out_scale / tl.where(seen, total, 1.0))[:, None]
    keep = i[:, None] < rows
    if PAD:
        keep = keep & (tl.arange(0, D)[None, :] < hdim_v)
    tl.store(tile(Out, start, o_row, BM, D), acc.to(Out.dtype.element_ty), mask=keep)
    bits = tl.log2(tl.where(seen, total, 1.0))
    if BIAS == 1:
        lse = tl.where(seen, top + bits * LN2, float("-inf"))
    else:
        lse = tl.where(seen, (top + bits) * LN2, float("-inf"))
    tl.store(Lse + b64 * lse_batch + h64 * lse_head + first_q + i, lse, mask=(i < rows) & (has_lse != 0))

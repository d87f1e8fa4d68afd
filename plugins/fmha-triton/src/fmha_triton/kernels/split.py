"""Decoding: the keys of a sequence are split over programs, and the combine kernel joins their results.

The query heads that share a key/value head are packed into the rows of one tile, so a cache is read once for all of them.
"""

import triton
import triton.language as tl

from fmha_triton.kernels.common import LN2, LOG2E, exponential, scores, visible


@triton.jit
def split(
    Q, K, V, Bias, Slopes, PartialOut, PartialLse, DescaleQ, DescaleK, DescaleV, Table, QStart, QLen, KStart, KLen,
    q_batch, q_head, k_batch, k_head, v_batch, v_head, bias_batch, bias_head,
    q_row, k_row, v_row, bias_row, slope_batch, descale_batch, descale_head,
    heads, group, most_rows, page, table_width, splits,
    hdim, hdim_v, scale, softcap, left, right, top_left, sink,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    SOFTCAP: tl.constexpr, DESCALE: tl.constexpr, PAD: tl.constexpr, WIDEN: tl.constexpr, PAGED: tl.constexpr,
):  # fmt: skip
    """O and LSE (in bits) of one part of the keys, fp32. Grid (blocks of BM packed rows, kv heads x splits, batch)."""
    batch = tl.program_id(2)
    kv_head, part = tl.program_id(1) // splits, tl.program_id(1) % splits
    rows = tl.load(QLen + batch)
    packed = tl.program_id(0) * BM + tl.arange(0, BM)
    if tl.program_id(0) * BM >= rows * group:
        return
    keys = tl.load(KLen + batch)
    first_q, first_k = tl.load(QStart + batch).to(tl.int64), tl.load(KStart + batch).to(tl.int64)
    b64, g64 = batch.to(tl.int64), kv_head.to(tl.int64)
    i = packed // group
    head = kv_head * group + packed % group
    h64 = head.to(tl.int64)
    d = tl.arange(0, D)
    q_at = Q + b64 * q_batch + h64[:, None] * q_head + (first_q + i)[:, None] * q_row + d[None, :]
    keep_q = (i < rows)[:, None]
    if PAD:
        keep_q = keep_q & (d < hdim)[None, :]
    q = tl.load(q_at, mask=keep_q, other=0.0)
    bias = Bias + b64 * bias_batch + h64[:, None] * bias_head
    slope = tl.zeros([BM, 1], tl.float32)
    if BIAS == 2:
        slope = tl.load(Slopes + batch * slope_batch + head, mask=i < rows, other=0.0)[:, None]
    out_scale = 1.0
    if DESCALE:
        at = batch * descale_batch + kv_head * descale_head
        scale = scale * tl.load(DescaleQ + at) * tl.load(DescaleK + at)
        out_scale = tl.load(DescaleV + at)
    delta = tl.where(top_left != 0, 0, keys - rows)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    blocks = tl.cdiv(keys, BN)
    each = tl.cdiv(blocks, splits)
    for block in range(part * each, tl.minimum((part + 1) * each, blocks)):
        j = block * BN + tl.arange(0, BN)
        if PAGED:
            number = tl.load(Table + b64 * table_width + j // page, mask=j < keys, other=0).to(tl.int64)
            k_at = K + number * k_batch + g64 * k_head + (j % page).to(tl.int64) * k_row
            v_at = V + number * v_batch + g64 * v_head + (j % page).to(tl.int64) * v_row
        else:
            k_at = K + b64 * k_batch + g64 * k_head + (first_k + j) * k_row
            v_at = V + b64 * v_batch + g64 * v_head + (first_k + j) * v_row
        keep_k, keep_v = (j < keys)[None, :], (j < keys)[:, None]
        if PAD:
            keep_k, keep_v = keep_k & (d < hdim)[:, None], keep_v & (d < hdim_v)[None, :]
        k = tl.load(k_at[None, :] + d[:, None], mask=keep_k, other=0.0)
        v = tl.load(v_at[:, None] + d[None, :], mask=keep_v, other=0.0)
        s, _ = scores(
            tl.dot(q, k), i[:, None], j[None, :], rows, keys, delta, scale, softcap, slope, bias, bias_row,
            BIAS, SOFTCAP,
        )  # fmt: skip
        s = tl.where(visible(i[:, None], j[None, :], rows, keys, delta, left, right, sink, MASK), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        p = exponential(s - safe[:, None], BIAS)
        alpha = exponential(top - safe, BIAS)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if WIDEN:
            acc = tl.dot(p.to(tl.float16), v.to(tl.float16), acc)
        else:
            acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    seen = total > 0
    acc = acc * (out_scale / tl.where(seen, total, 1.0))[:, None]
    if BIAS == 1:
        top = top * LOG2E
    lse = tl.where(seen, top + tl.log2(tl.where(seen, total, 1.0)), float("-inf"))
    at = ((part * tl.num_programs(2) + batch).to(tl.int64) * heads + head) * most_rows + i
    keep = (i < rows)[:, None]
    if PAD:
        keep = keep & (d < hdim_v)[None, :]
    tl.store(PartialOut + at[:, None] * hdim_v + d[None, :], acc, mask=keep)
    tl.store(PartialLse + at, lse, mask=i < rows)


@triton.jit
def combine(
    PartialOut, PartialLse, Sinks, Out, Lse, QStart, QLen,
    o_batch, o_head, lse_batch, lse_head, o_row,
    heads, most_rows, splits, hdim_v, has_sinks, has_lse,
    D: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """O and the LSE from those of the parts; the learned sink joins here. Grid (blocks of BM rows, heads, batch)."""
    start = tl.program_id(0) * BM
    head, batch = tl.program_id(1), tl.program_id(2)
    rows = tl.load(QLen + batch)
    if start >= rows:
        return
    i, d = start + tl.arange(0, BM), tl.arange(0, D)
    b64, h64 = batch.to(tl.int64), head.to(tl.int64)
    first_q = tl.load(QStart + batch).to(tl.int64)
    top = tl.zeros([BM], tl.float32) + tl.load(Sinks + head, mask=has_sinks != 0, other=float("-inf")) * LOG2E
    total = tl.where(top == float("-inf"), 0.0, 1.0)
    acc = tl.zeros([BM, D], tl.float32)
    keep = (i < rows)[:, None] & (d < hdim_v)[None, :]
    for part in range(splits):
        at = ((part * tl.num_programs(2) + b64) * heads + h64) * most_rows + i
        lse = tl.load(PartialLse + at, mask=i < rows, other=float("-inf"))
        new = tl.maximum(top, lse)
        safe = tl.where(new == float("-inf"), 0.0, new)
        alpha, weight = tl.exp2(top - safe), tl.exp2(lse - safe)
        o = tl.load(PartialOut + at[:, None] * hdim_v + d[None, :], mask=keep, other=0.0)
        acc = acc * alpha[:, None] + o * weight[:, None]
        total = total * alpha + weight
        top = new
    seen = total > 0
    acc = acc / tl.where(seen, total, 1.0)[:, None]
    o_at = Out + b64 * o_batch + h64 * o_head + (first_q + i)[:, None] * o_row + d[None, :]
    tl.store(o_at, acc.to(Out.dtype.element_ty), mask=keep)
    lse = tl.where(seen, (top + tl.log2(tl.where(seen, total, 1.0))) * LN2, float("-inf"))
    tl.store(Lse + b64 * lse_batch + h64 * lse_head + first_q + i, lse, mask=(i < rows) & (has_lse != 0))

"""The backward pass in two deterministic kernels: sums of dO * O, then dK, dV and dQ without atomic operations.

The programs of the second kernel are of two kinds: those with a small number compute a block of dK and dV, the others a block of dQ.
"""

import triton
import triton.language as tl

from fmha_triton.kernels.common import LOG2E, exponential, loaded_rows, scores, tile, visible


@triton.jit
def dot_do_o(
    Out, DOut, Sums, QStart, QLen, o_batch, o_head, do_batch, do_head, o_row, do_row, heads, most_rows, hdim_v,
    D: tl.constexpr, BM: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    """Sums[batch, head, row] = the sum of dO * O, fp32. Grid (blocks of BM rows, heads, batch)."""
    start = tl.program_id(0) * BM
    head, batch = tl.program_id(1), tl.program_id(2)
    rows = tl.load(QLen + batch)
    if start >= rows:
        return
    b64, h64 = batch.to(tl.int64), head.to(tl.int64)
    first = tl.load(QStart + batch).to(tl.int64)
    Out += b64 * o_batch + h64 * o_head + first * o_row
    DOut += b64 * do_batch + h64 * do_head + first * do_row
    o = loaded_rows(tile(Out, start, o_row, BM, D), start, rows, hdim_v, BM, D, PAD).to(tl.float32)
    do = loaded_rows(tile(DOut, start, do_row, BM, D), start, rows, hdim_v, BM, D, PAD).to(tl.float32)
    i = start + tl.arange(0, BM)
    tl.store(Sums + (b64 * heads + h64) * most_rows + i, tl.sum(o * do, 1), mask=i < rows)


@triton.jit
def probabilities(
    q, k, i, j, lse, rows, keys, delta, left, right, sink, scale, softcap, slope, bias, bias_row,
    MASK: tl.constexpr, BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """(P, the factor that the softcap gives dS) of the rows i and the keys j, from the LSE of the forward pass."""
    s, t = scores(tl.dot(q, k), i, j, rows, keys, delta, scale, softcap, slope, bias, bias_row, BIAS, SOFTCAP)
    base = tl.where(lse == float("-inf"), 0.0, lse if BIAS == 1 else lse * LOG2E)
    p = tl.where(visible(i, j, rows, keys, delta, left, right, sink, MASK), exponential(s - base, BIAS), 0.0)
    return p, 1.0 - t * t


@triton.jit
def dq_dk_dv(
    Q, K, V, Bias, Slopes, DOut, Lse, Sums, DQ, DK, DV, QStart, QLen, KStart, KLen,
    q_batch, q_head, k_batch, k_head, v_batch, v_head, do_batch, do_head, dq_batch, dq_head, dk_batch, dk_head,
    dv_batch, dv_head, bias_batch, bias_head, lse_batch, lse_head,
    q_row, k_row, v_row, do_row, dq_row, dk_row, dv_row, bias_row, slope_batch,
    heads, group, most_rows, key_blocks, hdim, hdim_v, scale, softcap, left, right, top_left, sink,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    SOFTCAP: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    """dK and dV, or dQ. Grid (key_blocks + blocks of BM rows, heads, batch)."""
    number, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, keys = tl.load(QLen + batch), tl.load(KLen + batch)
    first_q, first_k = tl.load(QStart + batch).to(tl.int64), tl.load(KStart + batch).to(tl.int64)
    b64 = batch.to(tl.int64)
    delta = tl.where(top_left != 0, 0, keys - rows)
    Q += b64 * q_batch + first_q * q_row
    DOut += b64 * do_batch + first_q * do_row
    K += b64 * k_batch + first_k * k_row
    V += b64 * v_batch + first_k * v_row
    Lse += b64 * lse_batch + first_q
    Bias += b64 * bias_batch
    Sums += b64 * heads * most_rows
    if number < key_blocks:
        start = number * BN
        if (start < keys) & (head * group < heads):
            g64 = head.to(tl.int64)
            j = start + tl.arange(0, BN)
            k = loaded_rows(tile(K + g64 * k_head, start, k_row, BN, D), start, keys, hdim, BN, D, PAD)
            v = loaded_rows(tile(V + g64 * v_head, start, v_row, BN, D), start, keys, hdim_v, BN, D, PAD)
            kt, vt = tl.trans(k), tl.trans(v)
            dk = tl.zeros([BN, D], tl.float32)
            dv = tl.zeros([BN, D], tl.float32)
            low = 0
            high = rows
            if MASK:  # row i sees keys i + delta - left ... i + delta + right, and the sinks
                low = tl.maximum(start - delta - right, 0)
                if start >= sink:
                    high = tl.minimum(rows, start + BN - delta + left)
            for member in range(group):
                h = head * group + member
                h64 = h.to(tl.int64)
                slope = 0.0
                if BIAS == 2:
                    slope = tl.load(Slopes + batch * slope_batch + h)
                for block in range(low // BM, tl.cdiv(high, BM)):
                    at = block * BM
                    i = at + tl.arange(0, BM)
                    q = loaded_rows(tile(Q + h64 * q_head, at, q_row, BM, D), at, rows, hdim, BM, D, PAD)
                    do = loaded_rows(tile(DOut + h64 * do_head, at, do_row, BM, D), at, rows, hdim_v, BM, D, PAD)
                    lse = tl.load(Lse + h64 * lse_head + i, mask=i < rows, other=0.0)
                    sums = tl.load(Sums + h64 * most_rows + i, mask=i < rows, other=0.0)
                    p, capped = probabilities(
                        q, kt, i[:, None], j[None, :], lse[:, None], rows, keys, delta, left, right, sink, scale,
                        softcap, slope, Bias + h64 * bias_head, bias_row, MASK, BIAS, SOFTCAP,
                    )  # fmt: skip
                    dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
                    ds = p * (tl.dot(do, vt) - sums[:, None])
                    if SOFTCAP:
                        ds = ds * capped
                    dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
            keep_k, keep_v = (j < keys)[:, None], (j < keys)[:, None]
            if PAD:
                d = tl.arange(0, D)[None, :]
                keep_k, keep_v = keep_k & (d < hdim), keep_v & (d < hdim_v)
            DK += b64 * dk_batch + g64 * dk_head + first_k * dk_row
            DV += b64 * dv_batch + g64 * dv_head + first_k * dv_row
            tl.store(tile(DK, start, dk_row, BN, D), (dk * scale).to(DK.dtype.element_ty), mask=keep_k)
            tl.store(tile(DV, start, dv_row, BN, D), dv.to(DV.dtype.element_ty), mask=keep_v)
    else:
        start = (number - key_blocks) * BM
        if start < rows:
            h64, g64 = head.to(tl.int64), (head // group).to(tl.int64)
            i = start + tl.arange(0, BM)
            q = loaded_rows(tile(Q + h64 * q_head, start, q_row, BM, D), start, rows, hdim, BM, D, PAD)
            do = loaded_rows(tile(DOut + h64 * do_head, start, do_row, BM, D), start, rows, hdim_v, BM, D, PAD)
            lse = tl.load(Lse + h64 * lse_head + i, mask=i < rows, other=0.0)
            sums = tl.load(Sums + h64 * most_rows + i, mask=i < rows, other=0.0)
            slope = 0.0
            if BIAS == 2:
                slope = tl.load(Slopes + batch * slope_batch + head)
            dq = tl.zeros([BM, D], tl.float32)
            low = 0
            high = keys
            if MASK:
                high = tl.maximum(tl.minimum(keys, start + BM + delta + right), 0)
                if sink == 0:
                    low = tl.maximum(start + delta - left, 0)
            for block in range(low // BN, tl.cdiv(high, BN)):
                at = block * BN
                j = at + tl.arange(0, BN)
                k = loaded_rows(tile(K + g64 * k_head, at, k_row, BN, D), at, keys, hdim, BN, D, PAD)
                v = loaded_rows(tile(V + g64 * v_head, at, v_row, BN, D), at, keys, hdim_v, BN, D, PAD)
                p, capped = probabilities(
                    q, tl.trans(k), i[:, None], j[None, :], lse[:, None], rows, keys, delta, left, right, sink, scale,
                    softcap, slope, Bias + h64 * bias_head, bias_row, MASK, BIAS, SOFTCAP,
                )  # fmt: skip
                ds = p * (tl.dot(do, tl.trans(v)) - sums[:, None])
                if SOFTCAP:
                    ds = ds * capped
                dq = tl.dot(ds.to(k.dtype), k, dq)
            keep = (i < rows)[:, None]
            if PAD:
                keep = keep & (tl.arange(0, D)[None, :] < hdim)
            DQ += b64 * dq_batch + h64 * dq_head + first_q * dq_row
            tl.store(tile(DQ, start, dq_row, BM, D), (dq * scale).to(DQ.dtype.element_ty), mask=keep)

"""Attention in Triton's language, compiled by Triton's own compiler. It contains no Composable Kernel code."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def attention(
    Q, K, V, Out, LSE, seqlen_q, seqlen_k, scale, stride_h_q, stride_h_k,
    CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """O and the LSE in bits; ``scale`` includes log2(e). One program for BM queries of a head; rows of D elements."""
    start, head = tl.program_id(0), tl.program_id(1)
    rows = start * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    d = tl.arange(0, D)
    Q += head * stride_h_q
    Out += head * stride_h_q
    K += head * stride_h_k
    V += head * stride_h_k
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < seqlen_q, other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = seqlen_k
    if CAUSAL:
        end = tl.minimum(seqlen_k, (start + 1) * BM + seqlen_k - seqlen_q)
    for j in range(0, end, BN):
        n = j + cols
        k = tl.load(K + n[None, :] * D + d[:, None], mask=n[None, :] < seqlen_k, other=0.0)
        s = tl.dot(q, k) * scale
        keep = n[None, :] < seqlen_k
        if CAUSAL:
            keep = keep & (n[None, :] <= rows[:, None] + seqlen_k - seqlen_q)
        s = tl.where(keep, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - safe[:, None])
        alpha = tl.exp2(top - safe)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + n[:, None] * D + d[None, :], mask=n[:, None] < seqlen_k, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    acc = tl.where(total[:, None] > 0, acc / total[:, None], 0.0)
    tl.store(Out + rows[:, None] * D + d[None, :], acc.to(Out.dtype.element_ty), mask=rows[:, None] < seqlen_q)
    tl.store(LSE + head * seqlen_q + rows, top + tl.log2(total), mask=rows < seqlen_q)


_POINTERS = ("Q", "K", "V", "Out")
_NUMBERS = ("seqlen_q", "seqlen_k", "stride_h_q", "stride_h_k")
_CONSTANTS = ("CAUSAL", "D", "BM", "BN")


def compiled(arch: str, dtype: str, *, causal: bool, hdim: int, block_m: int, block_n: int, warps: int = 4):
    """Triton's compiled kernel: ``asm["hsaco"]`` is the code object; ``metadata`` has its name, waves and LDS bytes."""
    signature = {**dict.fromkeys(_POINTERS, f"*{dtype}"), "LSE": "*fp32", "scale": "fp32"}
    signature |= {**dict.fromkeys(_NUMBERS, "i32"), **dict.fromkeys(_CONSTANTS, "constexpr")}
    ordered = {name: signature[name] for name in attention.arg_names}
    source = ASTSource(attention, ordered, {"CAUSAL": causal, "D": hdim, "BM": block_m, "BN": block_n})
    wave = 32 if arch.startswith("gfx1") else 64
    return triton.compile(source, target=GPUTarget("hip", arch, wave), options={"num_warps": warps})

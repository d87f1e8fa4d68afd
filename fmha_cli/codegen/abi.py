"""``FmhaCpuArgs``: the only argument of the CPU kernels' only entry, ``int fmha_cpu_fwd(const FmhaCpuArgs*)``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fmha_cli.codegen.struct import (
    ConstFloats,
    ConstInts,
    ConstPointer,
    Float32,
    Floats,
    Int32,
    Int64,
    Pointer,
    UInt32,
    UInt64,
)

PREFIX = "fmha_cpu"
ENTRY = "fmha_cpu_fwd"
RELEASE = "fmha_cpu_release"
"""Stops the pool's threads and frees its scratch memory. Call it before unloading the library."""
VERSION = 1


class Status(IntEnum):
    """The return values of the entry."""

    OK = 0
    BAD_ARGUMENT = 1
    """A size is below its minimum or above what the kernel holds, or heads is not a multiple of kv_heads."""
    OUT_OF_MEMORY = 2


@dataclass(frozen=True, kw_only=True)
class FmhaCpuArgs:
    """Everything that a launch needs. Pointers are addresses, 0 if absent. Strides are in elements.

    The last axis of every tensor is contiguous. Row r of head h in sequence b lies at
    ``b * batch_stride + h * head_stride + (start[b] + r) * row_stride``. Packed tensors have batch
    stride 0 and a start for each sequence.

    A linear KV cache needs ``k_len`` only; one with left padding needs ``k_start`` too.

    Attributes:
        q_start: first query row of each sequence, int64, ``batch`` elements. If absent, 0.
        q_len: query rows of each sequence, int64, ``batch`` elements. If absent, ``seqlen_q``.
        k_start: first key of each sequence, int64, ``batch`` elements. If absent, 0.
        k_len: keys of each sequence, int64, ``batch`` elements. If absent, ``seqlen_k``.
        seqlen_q: the uniform or the largest number of query rows.
        seqlen_k: the uniform or the largest number of keys.
        bias: elements of the same type as q. A stride of 0 broadcasts.
        lse: fp32, or absent. Its rows are arranged like those of o.
        sink_logits: one natural-logarithm logit for each query head.
        scale: factor of q.k.
        softcap: 0 for none.
        dropout_threshold: 0 for no dropout. An element is kept when its 32-bit word is not below the threshold.
        keep_scale: factor of the kept elements.
        left: left bound of the mask relative to the diagonal, of any sign, if ``has_left``.
        right: right bound of the mask relative to the diagonal, of any sign, if ``has_right``.
        sink: leading keys that the left bound does not hide.
        threads: the most threads to use, at least 1.
        splits: parts into which decode kernels split the keys; 0 lets the kernel choose.
    """

    q: ConstPointer
    k: ConstPointer
    v: ConstPointer
    o: Pointer
    lse: Floats = 0
    bias: ConstPointer = 0
    alibi_slopes: ConstFloats = 0
    sink_logits: ConstFloats = 0
    q_start: ConstInts = 0
    q_len: ConstInts = 0
    k_start: ConstInts = 0
    k_len: ConstInts = 0
    q_batch_stride: Int64 = 0
    q_head_stride: Int64 = 0
    q_row_stride: Int64 = 0
    k_batch_stride: Int64 = 0
    k_head_stride: Int64 = 0
    k_row_stride: Int64 = 0
    v_batch_stride: Int64 = 0
    v_head_stride: Int64 = 0
    v_row_stride: Int64 = 0
    o_batch_stride: Int64 = 0
    o_head_stride: Int64 = 0
    o_row_stride: Int64 = 0
    lse_batch_stride: Int64 = 0
    lse_head_stride: Int64 = 0
    lse_row_stride: Int64 = 0
    bias_batch_stride: Int64 = 0
    bias_head_stride: Int64 = 0
    bias_row_stride: Int64 = 0
    alibi_batch_stride: Int64 = 0
    batch: Int64
    heads: Int64
    kv_heads: Int64
    seqlen_q: Int64
    seqlen_k: Int64
    hdim: Int64
    hdim_v: Int64
    left: Int64 = 0
    right: Int64 = 0
    sink: Int64 = 0
    splits: Int64 = 0
    seed: UInt64 = 0
    scale: Float32
    softcap: Float32 = 0.0
    keep_scale: Float32 = 1.0
    dropout_threshold: UInt32 = 0
    offset: UInt32 = 0
    has_left: Int32 = 0
    has_right: Int32 = 0
    top_left: Int32 = 0
    threads: Int32 = 1

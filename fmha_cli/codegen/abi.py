"""``FmhaCpuArgs``: the one argument of the CPU kernels' one entry, ``int fmha_cpu_fwd(const FmhaCpuArgs*)``."""

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
"""Stops the pool's threads and frees its scratch; call it before unloading the library."""
VERSION = 1


class Status(IntEnum):
    """What the entry returns."""

    OK = 0
    BAD_ARGUMENT = 1
    """A size below its minimum, heads not a multiple of kv_heads, or more than the kernel holds."""
    OUT_OF_MEMORY = 2


@dataclass(frozen=True, kw_only=True)
class FmhaCpuArgs:
    """All that a launch needs. Pointers are addresses, 0 = absent; strides are in elements.

    The last axis of every tensor is contiguous. A sequence's row r of head h in sequence b lies at
    ``b * batch_stride + h * head_stride + (start[b] + r) * row_stride``; packed tensors have batch
    stride 0 and a start for each sequence.

    Attributes:
        q_start, q_len, k_start, k_len: int64 arrays of ``batch`` elements; absent lengths are uniform
            (``seqlen_q``, ``seqlen_k``), absent starts are 0. ``k_len`` alone serves a linear KV cache,
            with ``k_start`` one with left padding.
        seqlen_q, seqlen_k: the uniform, or the largest, lengths.
        bias: same element type as q; a stride of 0 broadcasts.
        lse: fp32, or absent; its rows lie like those of o.
        sink_logits: one natural-logarithm logit for each query head.
        scale: factor of q.k; softcap: 0 = none.
        dropout_threshold: 0 = no dropout; an element is kept when its 32-bit word is not below it.
        keep_scale: factor of the kept elements.
        left, right: bounds of the mask relative to the diagonal, any sign, when has_left, has_right.
        sink: leading keys that the left bound does not hide.
        threads: at most this many, at least 1.
        splits: parts into which the keys are split (decode kernels), 0 = chosen here.
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

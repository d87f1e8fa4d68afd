"""Argument blocks of the decode families: fwd_splitkv, its combine kernel, and fwd_appendkv."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.args_common import CacheLengths, ForwardTensors, PagedCache
from fmha_cli.codegen.struct import ConstPointer, Int32, Int64, Pointer


@dataclass(frozen=True, kw_only=True)
class CkSplitkvArgs(CacheLengths, PagedCache, ForwardTensors):
    """``fmha_fwd_splitkv_args`` for the main and the combine kernel. The combine kernel reads no Q, K or V.

    Attributes:
        lse_acc_ptr: fp32 (batch, heads, num_splits, seqlen_q): partial log-sum-exps.
        o_acc_ptr: fp32 (batch, heads, num_splits, seqlen_q, hdim_v): partial outputs.
        num_splits: parts into which the keys are split, >= 1.
        split_stride_lse_acc, split_stride_o_acc: elements between the parts.
    """

    lse_acc_ptr: Pointer
    o_acc_ptr: Pointer
    num_splits: Int64
    stride_o_acc: Int64
    nhead_stride_lse_acc: Int64
    nhead_stride_o_acc: Int64
    batch_stride_lse_acc: Int64 = 0
    batch_stride_o_acc: Int64 = 0
    split_stride_lse_acc: Int64
    split_stride_o_acc: Int64


@dataclass(frozen=True, kw_only=True)
class CkAppendkvArgs(PagedCache):
    """``fmha_fwd_appendkv_args``: append new keys and values to the cache, and rotate keys and queries.

    Attributes:
        q_ptr: (batch, heads, seqlen_q, hdim), rotated in place.
        k_ptr, v_ptr: the cache. If it is paged, ``batch_stride`` is the distance between pages.
        knew_ptr, vnew_ptr: (batch, kv_heads, seqlen_knew, hdim); 0 = nothing to append.
        seqlen_k_ptr: int32 (batch): keys of each sequence before the append.
        rotary_cos_ptr, rotary_sin_ptr: (positions, rotary_dim / 2) in the element type; read if ``rotary_dim`` > 0.
        rotary_dim: number of leading elements of each head that are rotated; even, 0 = none.
        has_mask: 1 = query i of a sequence has position cache length + i; 0 = all have position cache length.
    """

    q_ptr: Pointer
    k_ptr: Pointer
    knew_ptr: ConstPointer = 0
    v_ptr: Pointer
    vnew_ptr: ConstPointer = 0
    seqlen_k_ptr: ConstPointer
    rotary_cos_ptr: ConstPointer = 0
    rotary_sin_ptr: ConstPointer = 0
    seqlen_q: Int64
    seqlen_knew: Int64
    batch: Int64
    hdim_q: Int64
    hdim_v: Int64
    nhead_q: Int64
    nhead_k: Int64
    rotary_dim: Int64 = 0
    stride_q: Int64
    stride_k: Int64
    stride_knew: Int64 = 0
    stride_v: Int64
    stride_vnew: Int64 = 0
    nhead_stride_q: Int64
    nhead_stride_k: Int64
    nhead_stride_knew: Int64 = 0
    nhead_stride_v: Int64
    nhead_stride_vnew: Int64 = 0
    batch_stride_q: Int64
    batch_stride_k: Int64
    batch_stride_knew: Int64 = 0
    batch_stride_v: Int64
    batch_stride_vnew: Int64 = 0
    has_mask: Int32 = 0

"""The parameter blocks of FlashAttention-2's kernels, which take them by value.

Source: ``csrc/flash_attn/src/flash.h`` of flash-attn 2.8.3.post2 (``Qkv_params``, ``Flash_fwd_params``,
``Flash_bwd_params``), field by field in its order.

Each C++ struct derives from the one before it and starts with a pointer. The members of a base therefore have the same
offsets as in one flat struct, and no member shares the tail padding of a base. Every field is zero by default, as after
upstream's ``params = {}``. Strides are in elements.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Annotated

from fmha_cli.codegen.struct import Bool, CType, Float32, Int32, Int32s, Int64, Pointer, UInt8, UInt64s

NAMESPACE = "FLASH_NAMESPACE"


class PhiloxCudaState(ctypes.Structure):
    """The random state, laid out as in the shim for ``at::PhiloxCudaState``."""

    _fields_ = (("seed", ctypes.c_uint64), ("offset", ctypes.c_uint64))


Philox = Annotated[tuple[int, int], CType("at::PhiloxCudaState", PhiloxCudaState)]
"""(seed, offset)."""


@dataclass(frozen=True, kw_only=True)
class QkvParams:
    """``Qkv_params``: the inputs, their strides, and the numbers of heads (query, key, their quotient)."""

    q_ptr: Pointer = 0
    k_ptr: Pointer = 0
    v_ptr: Pointer = 0
    q_batch_stride: Int64 = 0
    k_batch_stride: Int64 = 0
    v_batch_stride: Int64 = 0
    q_row_stride: Int64 = 0
    k_row_stride: Int64 = 0
    v_row_stride: Int64 = 0
    q_head_stride: Int64 = 0
    k_head_stride: Int64 = 0
    v_head_stride: Int64 = 0
    h: Int32 = 0
    h_k: Int32 = 0
    h_h_k_ratio: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class FaFwdParams(QkvParams):
    """``Flash_fwd_params``, the block of the forward, split-KV and combine kernels.

    Attributes:
        oaccum_ptr: fp32 (splits, b, h, seqlen_q, d_rounded); unused with one split.
        softmax_lseaccum_ptr: fp32 (splits, b, h, seqlen_q); unused with one split.
        p_ptr: the matrix P of a debugging kernel; never used by this tool.
        softmax_lse_ptr: fp32 (b, h, seqlen_q), or (h, total_q) with ``unpadded_lse``; natural logarithm.
        scale_softmax: the scale; with softcap the cap.
        scale_softmax_log2: scale * log2 e; with softcap cap * log2 e.
        softcap: 0; with softcap scale / cap.
        cu_seqlens_k: b + 1 starts of sequences if ``is_seqlens_k_cumulative``, else b lengths.
        blockmask: unused upstream.
        p_dropout: the probability of *keeping* an element.
        p_dropout_in_uint8_t: floor(p_dropout * 255), the largest byte that is kept.
        window_size_left: the left bound; -1 for none.
        window_size_right: the right bound; -1 for none.
        philox_args: (seed, offset) of the random stream.
        rng_state: two uint64 that the forward kernel writes and the backward kernel reads.
        num_splits: parts of the split-KV kernel; 0 or 1 means one part, written to the output itself.
        unpadded_lse: whether LSE is packed, see ``flash_api.cpp``.
        seqlenq_ngroups_swapped: whether heads and rows of the queries are exchanged, see ``flash_api.cpp``.
    """

    o_ptr: Pointer = 0
    oaccum_ptr: Pointer = 0
    o_batch_stride: Int64 = 0
    o_row_stride: Int64 = 0
    o_head_stride: Int64 = 0
    p_ptr: Pointer = 0
    softmax_lse_ptr: Pointer = 0
    softmax_lseaccum_ptr: Pointer = 0
    b: Int32 = 0
    seqlen_q: Int32 = 0
    seqlen_k: Int32 = 0
    seqlen_knew: Int32 = 0
    d: Int32 = 0
    seqlen_q_rounded: Int32 = 0
    seqlen_k_rounded: Int32 = 0
    d_rounded: Int32 = 0
    rotary_dim: Int32 = 0
    total_q: Int32 = 0
    scale_softmax: Float32 = 0.0
    scale_softmax_log2: Float32 = 0.0
    cu_seqlens_q: Int32s = 0
    cu_seqlens_k: Int32s = 0
    leftpad_k: Int32s = 0
    seqused_k: Int32s = 0
    blockmask: Int32s = 0
    knew_ptr: Pointer = 0
    vnew_ptr: Pointer = 0
    knew_batch_stride: Int64 = 0
    vnew_batch_stride: Int64 = 0
    knew_row_stride: Int64 = 0
    vnew_row_stride: Int64 = 0
    knew_head_stride: Int64 = 0
    vnew_head_stride: Int64 = 0
    rotary_cos_ptr: Pointer = 0
    rotary_sin_ptr: Pointer = 0
    cache_batch_idx: Int32s = 0
    block_table: Int32s = 0
    block_table_batch_stride: Int64 = 0
    page_block_size: Int32 = 0
    p_dropout: Float32 = 0.0
    p_dropout_in_uint8_t: UInt8 = 0
    rp_dropout: Float32 = 0.0
    scale_softmax_rp_dropout: Float32 = 0.0
    window_size_left: Int32 = 0
    window_size_right: Int32 = 0
    softcap: Float32 = 0.0
    philox_args: Philox = (0, 0)
    rng_state: UInt64s = 0
    is_bf16: Bool = False
    is_causal: Bool = False
    is_seqlens_k_cumulative: Bool = False
    is_rotary_interleaved: Bool = False
    num_splits: Int32 = 0
    alibi_slopes_ptr: Pointer = 0
    alibi_slopes_batch_stride: Int64 = 0
    unpadded_lse: Bool = False
    seqlenq_ngroups_swapped: Bool = False


@dataclass(frozen=True, kw_only=True)
class FaBwdParams(FaFwdParams):
    """``Flash_bwd_params``, the block of the three kernels of the backward pass.

    Attributes:
        dk_ptr: one dK for each *query* head.
        dv_ptr: one dV for each *query* head.
        dq_accum_ptr: fp32 (parts, b, seqlen_q_rounded, h, d_rounded), or packed
            (parts, total_q + 128 * b, h, d_rounded); zeroed before the launch.
        dk_accum_ptr: unused upstream.
        dv_accum_ptr: unused upstream.
        dsoftmax_sum: row sums of dO * O, fp32 (b, h, seqlen_q_rounded), or packed (h, total_q + 128 * b).
        dq_accum_split_stride: elements from one part of ``dq_accum_ptr`` to the next in a deterministic pass.
    """

    do_ptr: Pointer = 0
    dq_ptr: Pointer = 0
    dk_ptr: Pointer = 0
    dv_ptr: Pointer = 0
    dq_accum_ptr: Pointer = 0
    dk_accum_ptr: Pointer = 0
    dv_accum_ptr: Pointer = 0
    do_batch_stride: Int64 = 0
    do_row_stride: Int64 = 0
    do_head_stride: Int64 = 0
    dq_batch_stride: Int64 = 0
    dk_batch_stride: Int64 = 0
    dv_batch_stride: Int64 = 0
    dq_row_stride: Int64 = 0
    dk_row_stride: Int64 = 0
    dv_row_stride: Int64 = 0
    dq_head_stride: Int64 = 0
    dk_head_stride: Int64 = 0
    dv_head_stride: Int64 = 0
    dsoftmax_sum: Pointer = 0
    deterministic: Bool = False
    dq_accum_split_stride: Int64 = 0


_CPP_NAMES: dict[type, str] = {FaFwdParams: "Flash_fwd_params", FaBwdParams: "Flash_bwd_params"}


def cpp_name(block: type) -> str:
    """Upstream's name of a parameter block, without ``NAMESPACE``."""
    return _CPP_NAMES[block]

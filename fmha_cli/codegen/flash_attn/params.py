"""The parameter blocks of FlashAttention-2's kernels, which take them by value.

Source: ``csrc/flash_attn/src/flash.h`` of flash-attn 2.8.3.post2 (``Qkv_params``, ``Flash_fwd_params``,
``Flash_bwd_params``), field by field in its order.

Each C++ struct derives from the one before it and starts with a pointer. The members of a base therefore have the same
offsets as in one flat struct, and no member shares the tail padding of a base. Every field is zero by default, as after
upstream's ``params = {}``. Strides are in elements.
"""

from __future__ import annotations

from ctypes import c_uint64
from typing import ClassVar

from fmha_cli.codegen.struct import (
    ArgumentBlock,
    Bool,
    Float32,
    Int32,
    Int32s,
    Int64,
    Pointer,
    Rows,
    UInt8,
    UInt64s,
    record,
)

NAMESPACE = "FLASH_NAMESPACE"


Philox = record("at::PhiloxCudaState", seed=c_uint64, offset=c_uint64)
"""The random state, laid out as in the shim for it."""


class QkvParams(ArgumentBlock):
    """``Qkv_params``: the inputs, their strides, and the numbers of heads (query, key, their quotient)."""

    rows: ClassVar[Rows] = (
        (Pointer, "q_ptr k_ptr v_ptr", 0),
        (
            Int64,
            "q_batch_stride k_batch_stride v_batch_stride q_row_stride k_row_stride v_row_stride q_head_stride"
            " k_head_stride v_head_stride",
            0,
        ),
        (Int32, "h h_k h_h_k_ratio", 0),
    )


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

    rows: ClassVar[Rows] = (
        (Pointer, "o_ptr oaccum_ptr", 0),
        (Int64, "o_batch_stride o_row_stride o_head_stride", 0),
        (Pointer, "p_ptr softmax_lse_ptr softmax_lseaccum_ptr", 0),
        (Int32, "b seqlen_q seqlen_k seqlen_knew d seqlen_q_rounded seqlen_k_rounded d_rounded rotary_dim total_q", 0),
        (Float32, "scale_softmax scale_softmax_log2", 0.0),
        (Int32s, "cu_seqlens_q cu_seqlens_k leftpad_k seqused_k blockmask", 0),
        (Pointer, "knew_ptr vnew_ptr", 0),
        (
            Int64,
            "knew_batch_stride vnew_batch_stride knew_row_stride vnew_row_stride knew_head_stride vnew_head_stride",
            0,
        ),
        (Pointer, "rotary_cos_ptr rotary_sin_ptr", 0),
        (Int32s, "cache_batch_idx block_table", 0),
        (Int64, "block_table_batch_stride", 0),
        (Int32, "page_block_size", 0),
        (Float32, "p_dropout", 0.0),
        (UInt8, "p_dropout_in_uint8_t", 0),
        (Float32, "rp_dropout scale_softmax_rp_dropout", 0.0),
        (Int32, "window_size_left window_size_right", 0),
        (Float32, "softcap", 0.0),
        (Philox, "philox_args", (0, 0)),
        (UInt64s, "rng_state", 0),
        (Bool, "is_bf16 is_causal is_seqlens_k_cumulative is_rotary_interleaved", False),
        (Int32, "num_splits", 0),
        (Pointer, "alibi_slopes_ptr", 0),
        (Int64, "alibi_slopes_batch_stride", 0),
        (Bool, "unpadded_lse seqlenq_ngroups_swapped", False),
    )


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

    rows: ClassVar[Rows] = (
        (Pointer, "do_ptr dq_ptr dk_ptr dv_ptr dq_accum_ptr dk_accum_ptr dv_accum_ptr", 0),
        (
            Int64,
            "do_batch_stride do_row_stride do_head_stride dq_batch_stride dk_batch_stride dv_batch_stride"
            " dq_row_stride dk_row_stride dv_row_stride dq_head_stride dk_head_stride dv_head_stride",
            0,
        ),
        (Pointer, "dsoftmax_sum", 0),
        (Bool, "deterministic", False),
        (Int64, "dq_accum_split_stride", 0),
    )


_CPP_NAMES: dict[type, str] = {FaFwdParams: "Flash_fwd_params", FaBwdParams: "Flash_bwd_params"}


def cpp_name(block: type) -> str:
    """Upstream's name of a parameter block, without ``NAMESPACE``."""
    return _CPP_NAMES[block]

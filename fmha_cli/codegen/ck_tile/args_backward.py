"""The argument block of the three backward families."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.args_common import Dropout
from fmha_cli.codegen.struct import ConstPointer, Float32, Int32, Int64, Pointer


@dataclass(frozen=True, kw_only=True)
class CkBwdArgs(Dropout):
    """``fmha_bwd_args`` for bwd_dot_do_o, bwd_dq_dk_dv and bwd_convert_dq. Each reads its own part.

    Attributes:
        q_ptr, k_ptr, v_ptr, o_ptr: as in the forward pass.
        do_ptr: dO, in the same axes as O.
        bias_ptr: elementwise bias, or ALiBi's fp32 slopes (see ``ForwardTensors``).
        lse_ptr: fp32 (batch, heads, seqlen_q): the forward pass's log-sum-exp, as a natural logarithm.
        d_ptr: fp32 (batch, heads, seqlen_q): row sums of dO * O, with LSE's strides (``..._lsed``).
        dq_ptr: dQ. Kernels with ``max_seq_q`` write it themselves, the others through ``dq_acc_ptr``.
        dk_ptr, dv_ptr: one dK and dV for each *query* head (kv_heads = heads in their strides).
        dbias_ptr: (batch, heads, seqlen_q, seqlen_k), for kernels with a bias gradient.
        dq_acc_ptr: fp32 accumulator of dQ: (parts, batch, heads, seqlen_q, hdim_q), zeroed before the launch.
            Deterministic kernels write one part for each block of keys; the others add into a single part.
        seqstart_q_ptr ... cu_seqlen_k_ptr: int32, see ``CkFwdArgs``.
        seqlen_q, seqlen_k: lengths; in group mode, totals over all sequences.
        max_seqlen_q, max_seqlen_k: lengths of the longest sequence; they size the grids.
        scale: softmax scale for natural exponentials.
        split_stride_dq_acc: elements between the parts of ``dq_acc_ptr``.
        p_undrop: 1 - p_drop, the factor of dO * O; the library computes its reciprocal itself.
    """

    q_ptr: ConstPointer = 0
    k_ptr: ConstPointer = 0
    v_ptr: ConstPointer = 0
    bias_ptr: ConstPointer = 0
    o_ptr: ConstPointer = 0
    lse_ptr: ConstPointer = 0
    do_ptr: ConstPointer = 0
    d_ptr: Pointer = 0
    dq_ptr: Pointer = 0
    dk_ptr: Pointer = 0
    dv_ptr: Pointer = 0
    dbias_ptr: Pointer = 0
    dq_acc_ptr: Pointer = 0
    seqstart_q_ptr: ConstPointer = 0
    seqstart_k_ptr: ConstPointer = 0
    seqlen_q_ptr: ConstPointer = 0
    seqlen_k_ptr: ConstPointer = 0
    cu_seqlen_q_ptr: ConstPointer = 0
    cu_seqlen_k_ptr: ConstPointer = 0
    seqlen_q: Int64
    seqlen_k: Int64
    batch: Int64
    max_seqlen_q: Int64
    max_seqlen_k: Int64
    hdim_q: Int64
    hdim_v: Int64
    nhead_q: Int64
    nhead_k: Int64
    stride_q: Int64 = 0
    stride_k: Int64 = 0
    stride_v: Int64 = 0
    stride_bias: Int64 = 0
    stride_o: Int64 = 0
    stride_do: Int64 = 0
    stride_dq_acc: Int64 = 0
    stride_dq: Int64 = 0
    stride_dk: Int64 = 0
    stride_dv: Int64 = 0
    stride_dbias: Int64 = 0
    nhead_stride_q: Int64 = 0
    nhead_stride_k: Int64 = 0
    nhead_stride_v: Int64 = 0
    nhead_stride_bias: Int64 = 0
    nhead_stride_o: Int64 = 0
    nhead_stride_do: Int64 = 0
    nhead_stride_lsed: Int64 = 0
    nhead_stride_dq_acc: Int64 = 0
    nhead_stride_dq: Int64 = 0
    nhead_stride_dk: Int64 = 0
    nhead_stride_dv: Int64 = 0
    nhead_stride_dbias: Int64 = 0
    batch_stride_q: Int64 = 0
    batch_stride_k: Int64 = 0
    batch_stride_v: Int64 = 0
    batch_stride_bias: Int64 = 0
    batch_stride_o: Int64 = 0
    batch_stride_do: Int64 = 0
    batch_stride_lsed: Int64 = 0
    batch_stride_dq_acc: Int64 = 0
    batch_stride_dq: Int64 = 0
    batch_stride_dk: Int64 = 0
    batch_stride_dv: Int64 = 0
    batch_stride_dbias: Int64 = 0
    split_stride_dq_acc: Int64 = 0
    window_size_left: Int64 = -1
    window_size_right: Int64 = -1
    scale: Float32
    p_undrop: Float32 = 1.0
    mask_type: Int32 = 0

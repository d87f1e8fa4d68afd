"""The argument blocks of the CK-Tile families. Their fields are named as upstream names them.

Every block mirrors one ``fmha_*_args`` struct of ``example/ck_tile/01_fmha/fmha_fwd.hpp`` or ``fmha_bwd.hpp``. Sizes
and strides are widened to 64 bits, ``bool`` becomes int32, and the ``drop_seed_offset`` variant is spelled out. The
library narrows the values again and refuses values that the kernel's own type cannot hold.

Conventions:

- A pointer is a device address; 0 = absent.
- Strides are in elements of the tensor. ``stride_x`` is the distance between rows (tokens), ``nhead_stride_x`` between
  heads and ``batch_stride_x`` between sequences. The last axis is contiguous.
- Group mode ignores the batch strides of packed tensors: sequence b starts at row ``seqstart[b]``.
"""

from __future__ import annotations

from typing import ClassVar

from fmha_cli.codegen.struct import ArgumentBlock, ConstPointer, Float32, Int32, Int64, Pointer, Rows, UInt64


def _strides(prefix: str, tensors: str) -> str:
    return " ".join(f"{prefix}stride_{name}" for name in tensors.split())


class ForwardTensors(ArgumentBlock):
    """Q, K, V, O and the extents of every forward kernel with scores.

    Attributes:
        q_ptr: (batch, heads, seqlen_q, hdim) in any strides; in group mode (total_q, heads, hdim).
        k_ptr, v_ptr: likewise with kv_heads and seqlen_k; V is (seqlen_k, hdim_v) within a head when row-major.
        bias_ptr: elementwise bias (seqlen_q, seqlen_k) with its strides. For ALiBi, the fp32 slopes; ``stride_bias`` is
            then the distance between sequences (0 = one set for all).
        lse_ptr: fp32 log-sum-exp (batch, heads, seqlen_q); 0 = not wanted.
        seqstart_q_ptr: int32 (batch + 1), in group mode: first physical row of each sequence.
        seqlen_q, seqlen_k: lengths; in group mode, totals over all sequences (as in upstream's runner).
        max_seqlen_q: the longest query length; it sizes the grid.
        hdim_q, hdim_v: head dims of the problem, at most those of the kernel.
        scale_s: softmax scale for natural exponentials; the library multiplies by log2(e) where the kernel requires it.
        scale_p, scale_o: factors of P and O, which only kernels with static quantisation read.
        logits_soft_cap: the cap; > 0 for kernels with a soft cap.
        window_size_left, window_size_right: keys visible on either side of the diagonal; -1 = unlimited.
        mask_type: ``MaskType``.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "q_ptr k_ptr v_ptr"),
        (Pointer, "o_ptr"),
        (ConstPointer, "bias_ptr", 0),
        (Pointer, "lse_ptr", 0),
        (ConstPointer, "seqstart_q_ptr", 0),
        (Int64, "seqlen_q seqlen_k batch max_seqlen_q hdim_q hdim_v nhead_q nhead_k stride_q stride_k stride_v"),
        (Int64, "stride_bias", 0),
        (Int64, "stride_o nhead_stride_q nhead_stride_k nhead_stride_v"),
        (Int64, "nhead_stride_bias nhead_stride_lse", 0),
        (Int64, "nhead_stride_o"),
        (Int64, _strides("batch_", "q k v bias lse o"), 0),
        (Int64, "window_size_left window_size_right", -1),
        (Float32, "scale_s"),
        (Float32, "scale_p scale_o", 1.0),
        (Float32, "logits_soft_cap", 0.0),
        (Int32, "mask_type", 0),
    )


class PagedCache(ArgumentBlock):
    """K and V in pages, or in a cache in which each sequence selects an item.

    Attributes:
        block_table_ptr: int32 (batch, max_pages); 0 = not paged.
        cache_batch_idx: int32 (batch): the cache item that each sequence uses; 0 = its own (batch mode, not paged).
        batch_stride_block_table: elements between the rows of the table.
        page_block_size: keys per page.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "block_table_ptr cache_batch_idx", 0),
        (Int64, "batch_stride_block_table page_block_size", 0),
    )


class CacheLengths(ArgumentBlock):
    """Where a sequence's keys begin and how many there are.

    Attributes:
        seqstart_k_ptr: int32 (batch + 1), in group mode.
        seqlen_k_ptr: int32 (batch): keys of each sequence; 0 = from ``seqstart_k_ptr``, or ``seqlen_k``.
        is_gappy: in group mode with pages, ``seqstart_k_ptr`` holds offsets within a sequence's pages.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "seqstart_k_ptr seqlen_k_ptr", 0),
        (Int32, "is_gappy", 0),
    )


class Dropout(ArgumentBlock):
    """Dropout's probability and random stream.

    Attributes:
        rand_val_ptr: uint8 (batch, heads, seqlen_q, seqlen_k); 0 = the random bytes are not stored.
        drop_seed_ptr, drop_offset_ptr: device uint64, read if ``drop_from_device`` is set.
        drop_seed, drop_offset: the same by value, read otherwise.
        p_drop: probability of dropping, in [0, 1).
    """

    rows: ClassVar[Rows] = (
        (Pointer, "rand_val_ptr", 0),
        (ConstPointer, "drop_seed_ptr drop_offset_ptr", 0),
        (UInt64, "drop_seed drop_offset", 0),
        (Int64, "stride_randval nhead_stride_randval batch_stride_randval", 0),
        (Float32, "p_drop", 0.0),
        (Int32, "drop_from_device", 0),
    )


class CkFwdArgs(Dropout, ForwardTensors):
    """``fmha_fwd_args``.

    Attributes:
        seqstart_k_ptr: int32 (batch + 1), in group mode: first physical row of each sequence's keys.
        seqlen_q_ptr, seqlen_k_ptr: int32 (batch), in group mode with padding: number of rows that are not padding.
        cu_seqlen_q_ptr, cu_seqlen_k_ptr: int32 (batch + 1): the same, cumulative; an alternative to the two above.
        min_seqlen_q: group-mode kernels that skip ignore sequences of fewer rows; 0 = skip none.
        s_randval: store the random bytes of dropout at ``rand_val_ptr``.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr cu_seqlen_q_ptr cu_seqlen_k_ptr", 0),
        (Int64, "min_seqlen_q", 0),
        (Int32, "s_randval", 0),
    )


class CkPagedkvArgs(CacheLengths, PagedCache, ForwardTensors):
    """``fmha_fwd_pagedkv_args``. ``batch_stride_k`` and ``batch_stride_v`` are distances between pages.

    Attributes:
        min_seqlen_q: group-mode kernels that skip ignore sequences of fewer rows; 0 = skip none.
    """

    rows: ClassVar[Rows] = ((Int64, "min_seqlen_q", 0),)


class CkPrefillArgs(Dropout, ForwardTensors):
    """``fmha_batch_prefill_args`` of the baseline, whose pages hold one key.

    K's and V's batch strides are distances between pages.

    Attributes:
        kv_indptr: int32 (batch + 1): first entry of each sequence in ``kv_page_indices``.
        kv_page_indices: int32 (entries): page of each key.
        num_total_pages: pages in K and V.
        s_randval: store the random bytes of dropout at ``rand_val_ptr``.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "kv_indptr kv_page_indices", 0),
        (Int64, "num_total_pages", 0),
        (Int32, "s_randval", 0),
    )


class CkSplitkvArgs(CacheLengths, PagedCache, ForwardTensors):
    """``fmha_fwd_splitkv_args`` for the main and the combine kernel. The combine kernel reads no Q, K or V.

    Attributes:
        lse_acc_ptr: fp32 (batch, heads, num_splits, seqlen_q): partial log-sum-exps.
        o_acc_ptr: fp32 (batch, heads, num_splits, seqlen_q, hdim_v): partial outputs.
        num_splits: parts into which the keys are split, >= 1.
        split_stride_lse_acc, split_stride_o_acc: elements between the parts.
    """

    rows: ClassVar[Rows] = (
        (Pointer, "lse_acc_ptr o_acc_ptr"),
        (Int64, "num_splits stride_o_acc nhead_stride_lse_acc nhead_stride_o_acc"),
        (Int64, "batch_stride_lse_acc batch_stride_o_acc", 0),
        (Int64, "split_stride_lse_acc split_stride_o_acc"),
    )


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

    rows: ClassVar[Rows] = (
        (Pointer, "q_ptr k_ptr"),
        (ConstPointer, "knew_ptr", 0),
        (Pointer, "v_ptr"),
        (ConstPointer, "vnew_ptr", 0),
        (ConstPointer, "seqlen_k_ptr"),
        (ConstPointer, "rotary_cos_ptr rotary_sin_ptr", 0),
        (Int64, "seqlen_q seqlen_knew batch hdim_q hdim_v nhead_q nhead_k"),
        (Int64, "rotary_dim", 0),
        (Int64, "stride_q stride_k"),
        (Int64, "stride_knew", 0),
        (Int64, "stride_v"),
        (Int64, "stride_vnew", 0),
        (Int64, "nhead_stride_q nhead_stride_k"),
        (Int64, "nhead_stride_knew", 0),
        (Int64, "nhead_stride_v"),
        (Int64, "nhead_stride_vnew", 0),
        (Int64, "batch_stride_q batch_stride_k"),
        (Int64, "batch_stride_knew", 0),
        (Int64, "batch_stride_v"),
        (Int64, "batch_stride_vnew", 0),
        (Int32, "has_mask", 0),
    )


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

    rows: ClassVar[Rows] = (
        (ConstPointer, "q_ptr k_ptr v_ptr bias_ptr o_ptr lse_ptr do_ptr", 0),
        (Pointer, "d_ptr dq_ptr dk_ptr dv_ptr dbias_ptr dq_acc_ptr", 0),
        (ConstPointer, "seqstart_q_ptr seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr cu_seqlen_q_ptr cu_seqlen_k_ptr", 0),
        (Int64, "seqlen_q seqlen_k batch max_seqlen_q max_seqlen_k hdim_q hdim_v nhead_q nhead_k"),
        (Int64, _strides("", "q k v bias o do dq_acc dq dk dv dbias"), 0),
        (Int64, _strides("nhead_", "q k v bias o do lsed dq_acc dq dk dv dbias"), 0),
        (Int64, _strides("batch_", "q k v bias o do lsed dq_acc dq dk dv dbias"), 0),
        (Int64, "split_stride_dq_acc", 0),
        (Int64, "window_size_left window_size_right", -1),
        (Float32, "scale"),
        (Float32, "p_undrop", 1.0),
        (Int32, "mask_type", 0),
    )

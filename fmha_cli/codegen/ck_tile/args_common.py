"""Fields that the argument blocks of several CK-Tile families share, named as upstream names them.

Every block mirrors one ``fmha_*_args`` struct of ``example/ck_tile/01_fmha/fmha_fwd.hpp`` or ``fmha_bwd.hpp``. Sizes
and strides are widened to 64 bits, ``bool`` becomes int32, and the ``drop_seed_offset`` variant is spelled out. The
library narrows the values again and refuses those that the kernel's own type cannot hold.

Conventions:

- A pointer is a device address; 0 = absent.
- Strides are in elements of the tensor. ``stride_x`` is the distance between rows (tokens), ``nhead_stride_x`` between
  heads and ``batch_stride_x`` between sequences. The last axis is contiguous.
- Group mode ignores the batch strides of packed tensors: sequence b starts at row ``seqstart[b]``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.struct import ConstPointer, Float32, Int32, Int64, Pointer, UInt64


@dataclass(frozen=True, kw_only=True)
class ForwardTensors:
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

    q_ptr: ConstPointer
    k_ptr: ConstPointer
    v_ptr: ConstPointer
    o_ptr: Pointer
    bias_ptr: ConstPointer = 0
    lse_ptr: Pointer = 0
    seqstart_q_ptr: ConstPointer = 0
    seqlen_q: Int64
    seqlen_k: Int64
    batch: Int64
    max_seqlen_q: Int64
    hdim_q: Int64
    hdim_v: Int64
    nhead_q: Int64
    nhead_k: Int64
    stride_q: Int64
    stride_k: Int64
    stride_v: Int64
    stride_bias: Int64 = 0
    stride_o: Int64
    nhead_stride_q: Int64
    nhead_stride_k: Int64
    nhead_stride_v: Int64
    nhead_stride_bias: Int64 = 0
    nhead_stride_lse: Int64 = 0
    nhead_stride_o: Int64
    batch_stride_q: Int64 = 0
    batch_stride_k: Int64 = 0
    batch_stride_v: Int64 = 0
    batch_stride_bias: Int64 = 0
    batch_stride_lse: Int64 = 0
    batch_stride_o: Int64 = 0
    window_size_left: Int64 = -1
    window_size_right: Int64 = -1
    scale_s: Float32
    scale_p: Float32 = 1.0
    scale_o: Float32 = 1.0
    logits_soft_cap: Float32 = 0.0
    mask_type: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class PagedCache:
    """K and V in pages, or in a cache in which each sequence selects an item.

    Attributes:
        block_table_ptr: int32 (batch, max_pages); 0 = not paged.
        cache_batch_idx: int32 (batch): the cache item that each sequence uses; 0 = its own (batch mode, not paged).
        batch_stride_block_table: elements between the rows of the table.
        page_block_size: keys per page.
    """

    block_table_ptr: ConstPointer = 0
    cache_batch_idx: ConstPointer = 0
    batch_stride_block_table: Int64 = 0
    page_block_size: Int64 = 0


@dataclass(frozen=True, kw_only=True)
class CacheLengths:
    """Where a sequence's keys begin and how many there are.

    Attributes:
        seqstart_k_ptr: int32 (batch + 1), in group mode.
        seqlen_k_ptr: int32 (batch): keys of each sequence; 0 = from ``seqstart_k_ptr``, or ``seqlen_k``.
        is_gappy: in group mode with pages, ``seqstart_k_ptr`` holds offsets within a sequence's pages.
    """

    seqstart_k_ptr: ConstPointer = 0
    seqlen_k_ptr: ConstPointer = 0
    is_gappy: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Dropout's probability and random stream.

    Attributes:
        rand_val_ptr: uint8 (batch, heads, seqlen_q, seqlen_k); 0 = the random bytes are not stored.
        drop_seed_ptr, drop_offset_ptr: device uint64, read if ``drop_from_device`` is set.
        drop_seed, drop_offset: the same by value, read otherwise.
        p_drop: probability of dropping, in [0, 1).
    """

    rand_val_ptr: Pointer = 0
    drop_seed_ptr: ConstPointer = 0
    drop_offset_ptr: ConstPointer = 0
    drop_seed: UInt64 = 0
    drop_offset: UInt64 = 0
    stride_randval: Int64 = 0
    nhead_stride_randval: Int64 = 0
    batch_stride_randval: Int64 = 0
    p_drop: Float32 = 0.0
    drop_from_device: Int32 = 0

"""Argument blocks of the forward families without an appended cache: fwd, fwd_pagedkv, batch_prefill."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.args_common import CacheLengths, Dropout, ForwardTensors, PagedCache
from fmha_cli.codegen.struct import ConstPointer, Int32, Int64


@dataclass(frozen=True, kw_only=True)
class CkFwdArgs(Dropout, ForwardTensors):
    """``fmha_fwd_args``.

    Attributes:
        seqstart_k_ptr: int32 (batch + 1), in group mode: first physical row of each sequence's keys.
        seqlen_q_ptr, seqlen_k_ptr: int32 (batch), in group mode with padding: number of rows that are not padding.
        cu_seqlen_q_ptr, cu_seqlen_k_ptr: int32 (batch + 1): the same, cumulative; an alternative to the two above.
        min_seqlen_q: group-mode kernels that skip ignore sequences of fewer rows; 0 = skip none.
        s_randval: store the random bytes of dropout at ``rand_val_ptr``.
    """

    seqstart_k_ptr: ConstPointer = 0
    seqlen_q_ptr: ConstPointer = 0
    seqlen_k_ptr: ConstPointer = 0
    cu_seqlen_q_ptr: ConstPointer = 0
    cu_seqlen_k_ptr: ConstPointer = 0
    min_seqlen_q: Int64 = 0
    s_randval: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class CkPagedkvArgs(CacheLengths, PagedCache, ForwardTensors):
    """``fmha_fwd_pagedkv_args``. ``batch_stride_k`` and ``batch_stride_v`` are distances between pages.

    Attributes:
        min_seqlen_q: group-mode kernels that skip ignore sequences of fewer rows; 0 = skip none.
    """

    min_seqlen_q: Int64 = 0


@dataclass(frozen=True, kw_only=True)
class CkPrefillArgs(Dropout, ForwardTensors):
    """``fmha_batch_prefill_args`` of the baseline, whose pages hold one key.

    K's and V's batch strides are distances between pages.

    Attributes:
        kv_indptr: int32 (batch + 1): first entry of each sequence in ``kv_page_indices``.
        kv_page_indices: int32 (entries): page of each key.
        num_total_pages: pages in K and V.
        s_randval: store the random bytes of dropout at ``rand_val_ptr``.
    """

    kv_indptr: ConstPointer = 0
    kv_page_indices: ConstPointer = 0
    num_total_pages: Int64 = 0
    s_randval: Int32 = 0

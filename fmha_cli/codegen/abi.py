"""The argument blocks of the CPU kernels. A kernel has one entry with one argument:

``int fmha_cpu_fwd(const FmhaCpuArgs*)``, ``int fmha_cpu_bwd(const FmhaCpuBwdArgs*)`` or
``int fmha_cpu_append(const FmhaCpuAppendArgs*)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from fmha_cli.codegen.struct import (
    ArgumentBlock,
    ConstFloats,
    ConstInt32s,
    ConstInts,
    ConstPointer,
    Float32,
    Float64,
    Floats,
    Int32,
    Int64,
    Pointer,
    Rows,
    UInt32,
    UInt64,
)

PREFIX = "fmha_cpu"
ENTRY = "fmha_cpu_fwd"
RELEASE = "fmha_cpu_release"
"""Stops the pool's threads and frees its scratch memory. Call it before unloading the library."""
VERSION = 7

BACKWARD_PREFIX = "fmha_cpu_bwd"
BACKWARD_ENTRY = "fmha_cpu_bwd"

APPEND_PREFIX = "fmha_cpu_append"
APPEND_ENTRY = "fmha_cpu_append"


class EntryStatus(IntEnum):
    """The return values of the entry."""

    OK = 0
    BAD_ARGUMENT = 1
    """A size is below its minimum or above what the kernel holds, or heads is not a multiple of kv_heads."""
    OUT_OF_MEMORY = 2
    NOT_PERMITTED = 3
    """The system does not let the process use matrix tiles."""


class FmhaCpuArgs(ArgumentBlock):
    """Everything that a launch needs. Pointers are addresses, 0 if absent. Strides are in elements.

    The last axis of every tensor is contiguous. Row r of head h in sequence b starts at
    ``b * batch_stride + h * head_stride + (start[b] + r) * row_stride``. Packed tensors have batch
    stride 0 and a start for each sequence.

    v may be k, with the strides of k: V is then the first hdim_v columns of K.

    A linear KV cache needs ``k_len`` only; one with left padding needs ``k_start`` too. With ``kv_item``, that number stands for b in
    the first element of k and v. In a paged cache, key j of
    sequence b is row ``j % page`` of page ``block_table[b * block_table_stride + j // page]``; pages are
    ``k_page_stride`` and ``v_page_stride`` apart, and the batch strides of k and v are not read.

    Attributes:
        q_start: first query row of each sequence, int64, ``batch`` elements. If absent, 0.
        q_len: query rows of each sequence, int64, ``batch`` elements. If absent, ``seqlen_q``.
        k_start: first key of each sequence, int64, ``batch`` elements. If absent, 0.
        k_len: keys of each sequence, int64, ``batch`` elements. If absent, ``seqlen_k``.
        kv_item: the sequence of k and v that each sequence reads, int64, ``batch`` elements. If absent, its own.
        seqlen_q: the uniform or the largest number of query rows.
        seqlen_k: the uniform or the largest number of keys.
        bias: elements of the same type as q, or fp32 if q has 8 bits. A stride of 0 broadcasts.
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
        prefetch_near: bytes ahead of their use at which decode kernels ask for K and V in the first-level cache; 0 = not,
            below 0 = the kernel's own.
        prefetch_far: the same for the second-level cache, of K and V that are not on pages; 0 = not.
        prefetch_pages: whether the next 16 keys on pages are asked for in the second-level cache too.
        block_table: pages of each sequence, or absent. Entries behind a sequence's last key are not read.
        page: keys in a page.
        parts: what split kernels leave for the combine kernel: ``splits`` parts for each (sequence, key/value head), each
            of ``part_floats`` floats (:func:`part_floats`). Other kernels do not read it.
        q_table: the numbers that the 256 bytes of an 8-bit Q mean; k_table: those of 8-bit keys and values. Other kernels read
            neither, and no scales.
        q_scale: factors of Q, or absent: that of row i of head h is
            ``q_scale[b * q_scale_batch_stride + h / q_scale_ratio * q_scale_head_stride + i / SCALE_ROWS * q_scale_block_stride]``.
        k_scale, v_scale: factors of K and V, or absent: those of key j at ``b * kv_scale_batch_stride + hk *
            kv_scale_head_stride + j / SCALE_ROWS * kv_scale_block_stride``; with ``scale_pages`` at the key's page in place of b.
        block_keys: the most keys whose scores a prefill kernel computes before their weights, if that is fewer than
            its own; 0 = its own.
        query_tiles: the most tiles of queries of one head that take turns at each block of keys in a prefill kernel, which reads
            K and V from a far cache that much less often; below 2 = none.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "q k v"),
        (Pointer, "o"),
        (Floats, "lse", 0),
        (ConstPointer, "bias", 0),
        (ConstFloats, "alibi_slopes sink_logits q_table k_table q_scale k_scale v_scale", 0),
        (ConstInts, "q_start q_len k_start k_len kv_item", 0),
        (
            Int64,
            "q_batch_stride q_head_stride q_row_stride k_batch_stride k_head_stride k_row_stride v_batch_stride"
            " v_head_stride v_row_stride o_batch_stride o_head_stride o_row_stride lse_batch_stride"
            " lse_head_stride lse_row_stride bias_batch_stride bias_head_stride bias_row_stride"
            " alibi_batch_stride",
            0,
        ),
        (Int64, "batch heads kv_heads seqlen_q seqlen_k hdim hdim_v"),
        (Int64, "left right sink splits", 0),
        (Int64, "prefetch_near", -1),
        (Int64, "prefetch_far prefetch_pages block_keys query_tiles", 0),
        (ConstInt32s, "block_table", 0),
        (Floats, "parts", 0),
        (Int64, "block_table_stride page k_page_stride v_page_stride part_floats", 0),
        (
            Int64,
            "q_scale_batch_stride q_scale_head_stride q_scale_block_stride kv_scale_batch_stride kv_scale_head_stride"
            " kv_scale_block_stride",
            0,
        ),
        (Int64, "q_scale_ratio", 1),
        (UInt64, "seed", 0),
        (Float32, "scale"),
        (Float32, "softcap", 0.0),
        (Float32, "keep_scale", 1.0),
        (UInt32, "dropout_threshold offset", 0),
        (Int32, "has_left has_right top_left scale_pages", 0),
        (Int32, "threads", 1),
    )


class FmhaCpuBwdArgs(FmhaCpuArgs):
    """Everything that a backward launch needs: the forward launch's own arguments, then dO and the gradients.

    q, k, v and o are read, and so is lse if it is there; without it, a pass over all scores finds it. Every element of the
    gradients is written once. Where v is k, dv may be absent: the first hdim_v columns of dk then hold its sums too.

    Attributes:
        dout: dO, like o.
        dq: like q. dk: like k. dv: like v, or absent.
        dbias: like bias, or absent. A stride of 0, of rows too, sums over that axis.
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "dout"),
        (Pointer, "dq dk"),
        (Pointer, "dv dbias", 0),
        (
            Int64,
            "dout_batch_stride dout_head_stride dout_row_stride dq_batch_stride dq_head_stride dq_row_stride"
            " dk_batch_stride dk_head_stride dk_row_stride dv_batch_stride dv_head_stride dv_row_stride"
            " dbias_batch_stride dbias_head_stride dbias_row_stride",
            0,
        ),
    )


class FmhaCpuAppendArgs(FmhaCpuArgs):
    """Everything that appending keys to a cache needs: the arguments of the launch that attends to them, then the new rows.

    Row t of k_new and v_new becomes key ``k_len[b] - append + t`` of sequence b in k and v, which are written. With
    ``rotary_dim``, new keys are rotated, and all queries are written to q_rotated, rotated. Row r of a sequence of the cache
    has position ``k_start[b] + r``; query i has position ``k_start[b] + k_len[b] - q_len[b] + i``. o is not written. Where v is
    k, v_new may be absent.

    Attributes:
        q_rotated: like q.
        append: new rows of each sequence.
        rotary_dim: leading elements of a row that are rotated, even; 0 = none.
        rotary_base: pair t of the row at position n is rotated by n * rotary_base^(-2t / rotary_dim), if there are no tables.
        rotary_cos, rotary_sin: dense tables, ``rotary_dim / 2`` numbers for each position from 0 on, or both absent.
        interleaved: pairs are neighbours (2t, 2t + 1), else (t, t + rotary_dim / 2).
    """

    rows: ClassVar[Rows] = (
        (ConstPointer, "k_new"),
        (ConstPointer, "v_new", 0),
        (Pointer, "q_rotated", 0),
        (
            Int64,
            "k_new_batch_stride k_new_head_stride k_new_row_stride v_new_batch_stride v_new_head_stride"
            " v_new_row_stride q_rotated_batch_stride q_rotated_head_stride q_rotated_row_stride",
            0,
        ),
        (Int64, "append"),
        (Int64, "rotary_dim", 0),
        (Float64, "rotary_base", 10000.0),
        (ConstFloats, "rotary_cos rotary_sin", 0),
        (Int32, "interleaved", 0),
    )


def part_floats(rows: int, hdim_v: int) -> int:
    """Floats of one part: the top and the sum of each row, each in whole lines, then rows of O in whole lines.

    Args:
        rows: the most query rows that share a key/value head in one sequence.
    """
    line = 16
    return 2 * -(-rows // line) * line + rows * -(-hdim_v // line) * line


@dataclass(frozen=True)
class Interface:
    """How a kernel is called.

    Attributes:
        entry: the name of its entry.
        prefix: of the exported table of its argument block.
        block: its argument block.
    """

    entry: str
    prefix: str
    block: type[FmhaCpuArgs]


FORWARD = Interface(ENTRY, PREFIX, FmhaCpuArgs)
BACKWARD = Interface(BACKWARD_ENTRY, BACKWARD_PREFIX, FmhaCpuBwdArgs)
APPEND = Interface(APPEND_ENTRY, APPEND_PREFIX, FmhaCpuAppendArgs)

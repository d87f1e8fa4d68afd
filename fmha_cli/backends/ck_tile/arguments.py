"""The argument block of every stage of a plan, made from the problem and the addresses of its tensors.

Every feature of the problem reaches the block. Layouts and gaps become strides, group mode becomes ``seqstart`` arrays,
GQA becomes ``nhead_k``, and a broadcast axis of the bias becomes a stride of 0. Masks, ALiBi, soft cap, dropout, LSE,
scales, pages, appended keys, rotary tables and split counts each have their own members.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from fmha_cli.backends.ck_tile.arguments_common import (
    Members,
    bias_members,
    dropout_members,
    extents,
    forward_members,
    mask_members,
    paged_members,
    place_members,
    query,
    stride_members,
)
from fmha_cli.backends.ck_tile.quantisation import Scales
from fmha_cli.backends.ck_tile.shapes import dense, dense_strides, lse_strides, plane_strides, swap_heads
from fmha_cli.backends.ck_tile.workspaces import dq_acc_shape, lse_acc_shape, o_acc_shape
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.ck_tile.args_blocks import (
    CkAppendkvArgs,
    CkBwdArgs,
    CkFwdArgs,
    CkPagedkvArgs,
    CkPrefillArgs,
    CkSplitkvArgs,
)
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Stage

_FLOAT = struct.Struct("f")


def backward_members(call: Call[Scales]) -> Members:
    """``CkBwdArgs``. All three kernels get the same block; each reads its own part."""
    p, lse = call.problem, lse_strides(call.tensors)
    out: Members = {
        **extents(call),
        "max_seqlen_k": max(p.key_lengths(), default=0),
        **{f"{name}_ptr": call.address(name) for name in ("lse", "d")},
        **{
            key: value
            for name in ("q", "k", "v", "o", "do", "dq")
            for key, value in place_members(name, call.address(name), call.rows(name)).items()
        },
        "nhead_stride_lsed": lse.head,
        "batch_stride_lsed": lse.batch,
        **_per_query_head(call, "dk", "dk_heads"),
        **_per_query_head(call, "dv", "dv_heads"),
        **_accumulator(call),
        **bias_members(call),
        **mask_members(p.mask),
        **dropout_members(call),
        "seqstart_q_ptr": call.address("seqstart_q"),
        "seqstart_k_ptr": call.address("seqstart_k"),
        "scale": p.scale,
        "p_undrop": compute_p_undrop(p.dropout),
    }
    if "dbias" in call.tensors:
        out |= place_members("dbias", call.address("dbias"), plane_strides(call.tensor("dbias"), p.bias))
    return out


def compute_p_undrop(p_drop: float) -> float:
    """``float p_undrop = 1.0 - p_drop`` of upstream's runner, where p_drop is also a float."""
    return float(_FLOAT.unpack(_FLOAT.pack(1.0 - float(_FLOAT.unpack(_FLOAT.pack(p_drop))[0])))[0])


def _per_query_head(call: Call[Scales], name: str, expanded: str) -> Members:
    """Where the kernel writes one dK or dV per query head: the tensor itself, or with GQA a workspace."""
    if expanded not in call.tensors:
        return place_members(name, call.address(name), call.rows(name))
    shape = swap_heads(call.tensor(name).shape, call.problem)
    strides = dense_strides(expanded, shape, call.problem.layout)
    return place_members(name, call.address(expanded), strides)


def _accumulator(call: Call[Scales]) -> Members:
    """``dq_acc``: an axis of parts, then Q's axes. No members where the kernel writes dQ itself."""
    if "dq_acc" not in call.tensors:
        return {}
    shape = dq_acc_shape(call.problem, call.plan.main)
    return {
        **place_members("dq_acc", call.address("dq_acc"), dense_strides("dq_acc", shape[1:], call.problem.layout)),
        "split_stride_dq_acc": dense(shape)[0],
    }


def block_of(stage: Stage, call: Call[Scales]) -> Any:
    """The stage's argument block, one of ``codegen.ck_tile``'s dataclasses.

    Raises:
        InternalError: a tensor that the stage needs is missing or has a layout that no kernel can read.
    """
    kind, members = _FAMILIES[stage.family]
    return kind(**members(call))


def _forward(call: Call[Scales]) -> Members:
    return {**forward_members(call), **dropout_members(call), "seqstart_k_ptr": call.address("seqstart_k")}


def _lengths(call: Call[Scales]) -> Members:
    """``CacheLengths``: with a cache, every sequence states its own number of keys."""
    return {
        "seqstart_k_ptr": call.address("seqstart_k"),
        "seqlen_k_ptr": call.address("seqlen_k"),
    }


def _paged(call: Call[Scales]) -> Members:
    return {**forward_members(call), **paged_members(call), **_lengths(call)}


def _splitkv(call: Call[Scales]) -> Members:
    p, splits = call.problem, call.plan.splits
    lse_batch, lse_head, lse_split, _ = dense(lse_acc_shape(p, splits))
    o_batch, o_head, o_split, o_row, _ = dense(o_acc_shape(p, splits))
    return {
        **_paged(call),
        "lse_acc_ptr": call.address("lse_acc"),
        "o_acc_ptr": call.address("o_acc"),
        "num_splits": splits,
        "stride_o_acc": o_row,
        "nhead_stride_lse_acc": lse_head,
        "nhead_stride_o_acc": o_head,
        "batch_stride_lse_acc": lse_batch,
        "batch_stride_o_acc": o_batch,
        "split_stride_lse_acc": lse_split,
        "split_stride_o_acc": o_split,
    }


def _prefill(call: Call[Scales]) -> Members:
    """Pages of one key: each key's row is one page, so rows are a page apart. ``batch_stride`` is not read."""
    members = {**forward_members(call), **dropout_members(call)}
    for name in ("k", "v"):
        pages = call.keys(name)
        members |= stride_members(name, Strides(pages.batch, pages.head, pages.batch))
    return {
        **members,
        "kv_indptr": call.address("kv_indptr"),
        "kv_page_indices": call.address("kv_page_indices"),
        "num_total_pages": call.tensor("k").shape[0],
    }


def _append(call: Call[Scales]) -> Members:
    """The rotary position of a query is the cache's end plus its row (``has_mask``), also without a mask."""
    p = call.problem
    sizes = extents(call)
    return {
        **{name: sizes[name] for name in ("seqlen_q", "batch", "hdim_q", "hdim_v", "nhead_q", "nhead_k")},
        **query(call),
        **place_members("k", call.address("k"), call.keys("k")),
        **place_members("v", call.address("v"), call.keys("v")),
        **place_members("knew", call.address("k_new"), call.rows("k_new")),
        **place_members("vnew", call.address("v_new"), call.rows("v_new")),
        "seqlen_knew": p.append,
        "seqlen_k_ptr": call.address("cache_seqlens"),
        "rotary_cos_ptr": call.address("rotary_cos"),
        "rotary_sin_ptr": call.address("rotary_sin"),
        "rotary_dim": p.rotary.dim,
        "has_mask": 1,
        **paged_members(call),
    }


_FAMILIES: Mapping[Family, tuple[type, Callable[[Call[Scales]], Members]]] = {
    Family.FWD: (CkFwdArgs, _forward),
    Family.FWD_PAGEDKV: (CkPagedkvArgs, _paged),
    Family.FWD_SPLITKV: (CkSplitkvArgs, _splitkv),
    Family.FWD_SPLITKV_COMBINE: (CkSplitkvArgs, _splitkv),
    Family.FWD_APPENDKV: (CkAppendkvArgs, _append),
    Family.BATCH_PREFILL: (CkPrefillArgs, _prefill),
    Family.BWD_DOT_DO_O: (CkBwdArgs, backward_members),
    Family.BWD_DQ_DK_DV: (CkBwdArgs, backward_members),
    Family.BWD_CONVERT_DQ: (CkBwdArgs, backward_members),
}

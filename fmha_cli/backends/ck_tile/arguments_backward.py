"""Members of the argument block that the backward families share."""

from __future__ import annotations

import struct

from fmha_cli.backends.ck_tile.arguments_common import (
    Members,
    bias_members,
    dropout_members,
    extents,
    mask_members,
    placed,
)
from fmha_cli.backends.ck_tile.quantisation import Scales
from fmha_cli.backends.ck_tile.shapes import dense, dense_strides, heads_swapped, lse_strides, plane_strides
from fmha_cli.backends.ck_tile.workspaces import dq_acc_shape
from fmha_cli.backends.gpu.call import Call

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
            for key, value in placed(name, call.address(name), call.rows(name)).items()
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
        "p_undrop": kept(p.dropout),
    }
    if "dbias" in call.tensors:
        out |= placed("dbias", call.address("dbias"), plane_strides(call.tensor("dbias"), p.bias))
    return out


def kept(p_drop: float) -> float:
    """``float p_undrop = 1.0 - p_drop`` of upstream's runner, where p_drop is also a float."""
    return float(_FLOAT.unpack(_FLOAT.pack(1.0 - float(_FLOAT.unpack(_FLOAT.pack(p_drop))[0])))[0])


def _per_query_head(call: Call[Scales], name: str, expanded: str) -> Members:
    """Where the kernel writes one dK or dV per query head: the tensor itself, or with GQA a workspace."""
    if expanded not in call.tensors:
        return placed(name, call.address(name), call.rows(name))
    shape = heads_swapped(call.tensor(name).shape, call.problem)
    strides = dense_strides(expanded, shape, call.problem.layout)
    return placed(name, call.address(expanded), strides)


def _accumulator(call: Call[Scales]) -> Members:
    """``dq_acc``: an axis of parts, then Q's axes. No members where the kernel writes dQ itself."""
    if "dq_acc" not in call.tensors:
        return {}
    shape = dq_acc_shape(call.problem, call.plan.main)
    return {
        **placed("dq_acc", call.address("dq_acc"), dense_strides("dq_acc", shape[1:], call.problem.layout)),
        "split_stride_dq_acc": dense(shape)[0],
    }

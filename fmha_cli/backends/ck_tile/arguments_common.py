"""Members that several argument blocks share: forward tensors, masks, bias, dropout."""

from __future__ import annotations

from typing import Any

from fmha_cli.backends.ck_tile.quantisation import Scales
from fmha_cli.backends.ck_tile.shapes import lse_strides, plane_strides, row_count
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.ck_tile.args import MaskType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import Mode
from fmha_cli.domain.mask import Align, Mask, MaskKind

Members = dict[str, Any]


UNLIMITED = -1


def stride_members(name: str, strides: Strides) -> Members:
    """``stride_x``, ``nhead_stride_x`` and ``batch_stride_x``."""
    return {
        f"stride_{name}": strides.row,
        f"nhead_stride_{name}": strides.head,
        f"batch_stride_{name}": strides.batch,
    }


def place_members(name: str, address: int, strides: Strides) -> Members:
    """``x_ptr`` and the strides of ``x``."""
    return {f"{name}_ptr": address, **stride_members(name, strides)}


def extents(call: Call[Scales]) -> Members:
    """Sizes that every family reads. In group mode ``seqlen_q`` and ``seqlen_k`` are totals over all sequences."""
    p = call.problem
    group = p.mode is Mode.GROUP
    return {
        "seqlen_q": row_count(p),
        "batch": p.batch,
        "hdim_q": p.hdim,
        "hdim_v": p.hdim_v,
        "nhead_q": p.heads,
        "nhead_k": p.kv_heads,
        "seqlen_k": sum(p.key_lengths()) if group else p.seqlen_k,
        "max_seqlen_q": max(p.query_lengths(), default=0),
    }


def mask_members(mask: Mask) -> Members:
    """``window_size_left``, ``window_size_right`` and ``mask_type``.

    Raises:
        InternalError: a bound below 0, which the kernels read as "no bound" (K327 refuses such masks).
    """
    if mask.kind is MaskKind.GENERIC:
        raise InternalError(f"mask {mask.text()} has a negative bound", where="ck_tile")
    kind = MaskType.TOP_LEFT if mask.align is Align.TOP_LEFT else MaskType.BOTTOM_RIGHT
    return {
        "window_size_left": UNLIMITED if mask.left is None else mask.left,
        "window_size_right": UNLIMITED if mask.right is None else mask.right,
        "mask_type": int(MaskType.NONE if mask.kind is MaskKind.NONE else kind),
    }


def bias_members(call: Call[Scales]) -> Members:
    """An elementwise bias with its strides (0 along broadcast axes), or ALiBi's slopes with the stride between
    sequences."""
    if "alibi_slopes" in call.tensors:
        slopes = call.tensor("alibi_slopes")
        stride = slopes.strides[0] if len(slopes.shape) == 2 else 0
        return {"bias_ptr": call.address("alibi_slopes"), "stride_bias": stride}
    if "bias" in call.tensors:
        return place_members("bias", call.address("bias"), plane_strides(call.tensor("bias"), call.problem.bias))
    return {}


def dropout_members(call: Call[Scales]) -> Members:
    """Probability and random stream. The random bytes are stored only when the plan has a workspace for them."""
    p = call.problem
    out: Members = {"p_drop": p.dropout, "drop_seed": p.seed, "drop_offset": p.offset}
    if "randval" in call.tensors:
        plane = row_count(p) * p.seqlen_k
        out |= {"rand_val_ptr": call.address("randval"), "stride_randval": p.seqlen_k, "nhead_stride_randval": plane}
        out["batch_stride_randval"] = p.heads * plane
    return out


def query(call: Call[Scales]) -> Members:
    """Q, or its rotated copy, which has the same strides."""
    name = "q_rotated" if "q_rotated" in call.tensors else "q"
    return place_members("q", call.address(name), call.rows("q"))


def forward_members(call: Call[Scales]) -> Members:
    """``ForwardTensors``."""
    p = call.problem
    lse = lse_strides(call.tensors) if p.lse or p.direction.backward else Strides(0, 0, 0)
    return {
        **extents(call),
        **query(call),
        **place_members("k", call.address("k"), call.keys("k")),
        **place_members("v", call.address("v"), call.keys("v")),
        **place_members("o", call.address("o"), call.rows("o")),
        **bias_members(call),
        "lse_ptr": call.address("lse"),
        "nhead_stride_lse": lse.head,
        "batch_stride_lse": lse.batch,
        "seqstart_q_ptr": call.address("seqstart_q"),
        **mask_members(p.mask),
        "scale_s": call.situation.s,
        "scale_p": call.situation.p,
        "scale_o": call.situation.o,
        "logits_soft_cap": p.softcap,
    }


def paged_members(call: Call[Scales]) -> Members:
    """``PagedCache``: pages, or the item of a linear cache that each sequence has; no members without either."""
    if call.problem.cache_batch_idx is not None:
        return {"cache_batch_idx": call.address("cache_batch_idx")}
    if not call.problem.paged:
        return {}
    return {
        "block_table_ptr": call.address("block_table"),
        "batch_stride_block_table": call.tensor("block_table").strides[0],
        "page_block_size": call.problem.kv_cache.page,
    }

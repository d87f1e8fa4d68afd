"""The argument block of a stage, from the problem, its situation, and the addresses and strides of its tensors.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``flash_fwd_launch_template.h`` ``run_flash_fwd``,
``flash_fwd_combine_launch_template.h`` ``run_flash_fwd_combine``; ``to_underlying_arguments``
of ``mainloop_fwd_sm90_tma_gmma_ws.hpp``, ``epilogue_fwd.hpp`` and ``tile_scheduler.hpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import e, log2
from typing import Any

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.backward_arguments import backward_params
from fmha_cli.backends.flash_attn_3.maps import lse_strides, map_of, strides_of
from fmha_cli.backends.flash_attn_3.operands import operand
from fmha_cli.backends.flash_attn_3.scratch import LSE, LSE_PARTS, METADATA, OUT_PARTS, SEMAPHORE, metadata_places
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.auxiliary import Array, int32, rotary_tables
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.instance import (
    CombineInstance,
    ForwardInstance,
    PrepareInstance,
    TileScheduler,
    forward_instance,
    instance_of,
)
from fmha_cli.codegen.flash_attn_3.params import Fa3CombineParams, Fa3PrepareParams, block_of, divmod_of
from fmha_cli.domain.features import RotaryStyle
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.tensors import ROTARY_TABLES, offsets

Members = dict[str, Any]
Shape = tuple[int, ...]
LOG2_E = log2(e)
"""``M_LOG2E``."""
L2_BYTES = 32 << 20
"""The part of the L2 cache that ``DynamicPersistentTileScheduler`` fills with K and V."""
PREPARED_L2_BYTES, INT_BYTES = 8 << 20, 4
"""The part of the L2 cache by which prepare groups heads."""
Launched = Call[Fa3Situation]


def params_of(stage: Stage, call: Launched) -> object:
    """The stage's argument block."""
    i = instance_of(stage.kernel)
    if isinstance(i, CombineInstance):
        return Fa3CombineParams(**_combine(i, call))
    if isinstance(i, PrepareInstance):
        return Fa3PrepareParams(**_prepare(call))
    if isinstance(i, BackwardInstance | DotInstance | ConvertInstance):
        return backward_params(stage, i, call)
    block = block_of(i)
    parts = {"mainloop": _mainloop(i, call), "epilogue": _epilogue(i, call), "scheduler": _scheduler(i, call)}
    values = {f"{part}__{name}": value for part, members in parts.items() for name, value in members.items()}
    return block(hw_info=(0, call.situation.multiprocessors, *(0,) * 7), **values)


def row_tiles(i: ForwardInstance, s: Fa3Situation) -> int:
    """``num_blocks_m``: tiles of rows of one head of one sequence, rounded up to whole clusters."""
    tiles = -(-s.seqlen_q * (s.groups if i.a.pack_gqa else 1) // i.a.tile[0])
    return -(-tiles // i.a.cluster) * i.a.cluster


def heads(i: ForwardInstance, s: Fa3Situation) -> int:
    """``num_head``: those of Q, or of K where the query heads of a key head are packed."""
    return s.problem.kv_heads if i.a.pack_gqa else s.problem.heads


def _mainloop(i: ForwardInstance, call: Launched) -> Members:
    s, p = call.situation, call.problem
    q, qv, k, v = (operand(call, name) for name in ("q", "qv", "k", "v"))
    rows, batches = _keys_held(call)
    shape_q = (s.total_q, s.hdim, p.heads, s.batch_q)
    shape_k = (rows, s.hdim, p.kv_heads, batches)
    shape_v = (rows, p.hdim_v, p.kv_heads, batches)
    shape_qv = (s.total_q, p.hdim_v, p.heads, s.batch_q)
    keys = i.a.tile[1] // i.a.cluster
    maps = {
        "Q": map_of(i.dtype, q.address, shape_q, q.strides, i.hdim, i.a.tile[0]),
        "K": map_of(i.dtype, k.address, shape_k, k.strides, i.hdim, keys),
        "V": map_of(i.dtype, v.address, shape_v, v.strides, i.hdim_v, keys),
    }
    second = {"Qv": map_of(i.dtype, qv.address, shape_qv, qv.strides, i.hdim_v, i.a.tile[0])} if i.a.qv else {}
    scale, softcap = single(p.scale), single(p.softcap)
    return {
        "ptr_Q": q.address,
        "shape_Q": shape_q,
        "stride_Q": strides_of(q.strides),
        "shape_Q_packed": _packed_shape(i, s, shape_q),
        "stride_Q_packed": _packed_strides(i, s, q.strides),
        "ptr_K": k.address,
        "shape_K": shape_k,
        "stride_K": strides_of(k.strides),
        "ptr_V": v.address,
        "headdim_v": p.hdim_v,
        "stride_V": strides_of(v.strides),
        "ptr_Qv": qv.address,
        "stride_Qv": strides_of(qv.strides),
        "shape_Qv_packed": _packed_shape(i, s, shape_qv),
        "stride_Qv_packed": _packed_strides(i, s, qv.strides),
        **_pages(i, call),
        "qhead_per_khead_divmod": divmod_of(s.groups),
        **_appended(i, call, {"K": maps["K"], "V": maps["V"]}),
        **{f"tma_load_{name}": map for name, map in (maps | second).items()},
        "softmax_scale_log2": single((softcap or scale) * LOG2_E),
        "softcap_val": single(scale / softcap) if softcap else 0.0,
        **_descales(call),
        "num_splits": s.splits.count if i.split else 1,
        "window_size_left": s.window.left,
        "window_size_right": s.window.right,
        **{
            name: call.address(name)
            for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "leftpad_k", "kv_batch_idx")
        },
    }


def _appended(i: ForwardInstance, call: Launched, held: Mapping[str, TensorMap]) -> Members:
    """The keys to append and the rotary tables. Without any, the descriptors are those of the keys that are held."""
    s, p = call.situation, call.problem
    shape = (p.append, s.hdim, p.kv_heads, p.batch)
    out: Members = {"shape_K_new": shape, "shape_rotary": (s.seqlen_k, p.rotary.dim // 2)}
    if not i.append:
        return out | {f"tma_load_{name}_new": map for name, map in held.items()}
    for name, width, columns in (("K", s.hdim, i.hdim), ("V", p.hdim_v, i.hdim_v)):
        new = operand(call, f"{name.lower()}_new")
        sizes = (p.append, width, p.kv_heads, p.batch)
        out |= {
            f"ptr_{name}_new": new.address,
            f"stride_{name}_new": strides_of(new.strides),
            f"tma_load_{name}_new": map_of(i.dtype, new.address, sizes, new.strides, columns, i.a.tile[1]),
        }
    if p.rotary.dim:
        for name in ROTARY_TABLES:
            out |= {f"ptr_{name}": call.address(name), f"stride_{name}": (p.rotary.dim // 2,)}
        out["is_rotary_interleaved"] = p.rotary.style is RotaryStyle.INTERLEAVED
    return out


def _keys_held(call: Launched) -> tuple[int, int]:
    """Rows and batches of K: of a page and of all pages, of all sequences together, or of each place of a cache."""
    s, p = call.situation, call.problem
    if p.paged:
        return p.kv_cache.page, call.tensor("k").shape[0]
    return (sum(p.key_lengths()), 1) if s.packed_k else (s.seqlen_k, p.cache_batch if s.varlen else p.batch)


def _pages(i: ForwardInstance, call: Launched) -> Members:
    s, p = call.situation, call.problem
    indexed = p.cache_batch_idx is not None
    places = p.cache_batch if indexed else p.batch
    if not p.paged:
        return {"shape_pagetable": (places, 0)}
    page = p.kv_cache.page
    return {
        "ptr_pagetable": call.address("block_table"),
        "shape_pagetable": (places, s.seqlen_k // page),
        "stride_pagetable": call.tensor("block_table").strides[:1],
        "page_size_divmod": divmod_of(page),
        "blockN_per_page_size_divmod": divmod_of(-(-page // i.a.tile[1])),
    }


def _descales(call: Launched) -> Members:
    """The scales of fp8 inputs: (batch, kv_heads), or null for scales of 1."""
    out: Members = {}
    for name in "qkv":
        if f"{name}_descale" in call.tensors:
            out[f"ptr_{name}_descale"] = call.address(f"{name}_descale")
            out[f"stride_{name}_descale"] = call.tensor(f"{name}_descale").strides
    return out


def _epilogue(i: ForwardInstance, call: Launched) -> Members:
    s, p, o = call.situation, call.problem, call.rows("o")
    shape = (s.total_q, p.hdim_v, p.heads, s.batch_q)
    dense = (s.total_q, 0 if s.packed_q else p.heads * s.total_q)
    head, batch = lse_strides(call, dense)
    packed = (head, head * s.groups, batch) if i.a.pack_gqa else (head, batch)
    parts_packed = (dense[0], dense[0] * s.groups, dense[1]) if i.a.pack_gqa else dense
    count, part, of_o = _parts(i, call)
    parts = p.heads * s.total_q * s.batch_q
    out: Members = {
        "ptr_O": call.address("o"),
        "shape_O": (*shape, count),
        "stride_O": (*strides_of(o), 0),
        "shape_O_packed": (*_packed_shape(i, s, shape), count),
        "stride_O_packed": (*_packed_strides(i, s, o), 0),
        "ptr_O_partial": call.address(OUT_PARTS),
        "stride_O_partial": (*strides_of(part), of_o),
        "stride_O_partial_packed": (*_packed_strides(i, s, part), of_o),
        "ptr_LSE": call.address("lse") or call.address(LSE),
        "stride_LSE": (head, batch, 0),
        "shape_LSE_packed": (*_packed_shape(i, s, (s.total_q, p.heads, s.batch_q)), count),
        "stride_LSE_packed": (*packed, 0),
        "ptr_LSE_partial": call.address(LSE_PARTS),
        "stride_LSE_partial": (*dense, parts),
        "stride_LSE_partial_packed": (*parts_packed, parts),
        "qhead_per_khead_divmod": divmod_of(s.groups if i.a.pack_gqa else 1),
    }
    if i.stores_by_tma:
        out["tma_store_O"] = map_of(i.out, call.address("o"), (*shape, count), o, i.hdim_v, i.a.tile[0])
    return out | {"cu_seqlens": call.address("cu_seqlens_q")}


def _parts(i: ForwardInstance, call: Launched) -> tuple[int, Strides, int]:
    """Splits, the strides of a part of O, and the stride from part to part; those of no part are 0."""
    if not i.split:
        return 1, Strides(0, 0, 0), 0
    s, p = call.situation, call.problem
    of_head = s.total_q * p.hdim_v
    part = Strides(batch=0 if s.packed_q else p.heads * of_head, head=of_head, row=p.hdim_v)
    return s.splits.count, part, s.batch_q * p.heads * of_head


def _combine(i: CombineInstance, call: Launched) -> Members:
    s, p, o = call.situation, call.problem, call.rows("o")
    count, part, of_o = _parts(forward_instance(call.plan.main), call)
    rows, batches = s.total_q, s.batch_q
    of_lse = 0 if s.packed_q else p.heads * rows
    out: Members = {
        "ptr_O_partial": call.address(OUT_PARTS),
        "shape_O_partial": (rows, p.hdim_v, count, p.heads, batches),
        "stride_O_partial": (part.row, of_o, part.head, part.batch),
        "ptr_LSE_partial": call.address(LSE_PARTS),
        "shape_LSE_partial": (rows, count, p.heads, batches),
        "stride_LSE_partial": (batches * p.heads * rows, rows, of_lse),
        "ptr_O": call.address("o"),
        "stride_O": strides_of(o),
        "ptr_LSE": call.address("lse") or call.address(LSE),
        "stride_LSE": lse_strides(call, (rows, of_lse)),
        "seqlen_divmod": divmod_of(rows),
        "head_divmod": divmod_of(p.heads),
        "cu_seqlens": call.address("cu_seqlens_q"),
    }
    if s.varlen:
        prepared = _prepared(call)
        out |= {
            f"{name}_ptr": prepared[name] for name in ("num_splits_dynamic", "varlen_batch_idx") if name in prepared
        }
        out["semaphore_to_reset"] = call.address(SEMAPHORE)
    return out


def _prepared(call: Launched) -> Members:
    """The addresses of what prepare writes, by name."""
    first = call.address(METADATA)
    return {name: first + INT_BYTES * at for name, at in metadata_places(call.situation).items()}


def _prepare(call: Launched) -> Members:
    s, p, main = call.situation, call.problem, forward_instance(call.plan.main)
    block_bytes = main.a.tile[1] * (s.hdim + p.hdim_v) * main.element_bytes
    names = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "leftpad_k")
    return {
        "seqlen_q": s.seqlen_q,
        "seqlen_k": s.seqlen_k,
        "seqlen_k_new": p.append,
        **{name: call.address(name) for name in names},
        "num_batch": p.batch,
        "num_head": heads(main, s),
        "qhead_per_khead": s.groups,
        "num_sm": s.multiprocessors,
        "num_splits": s.splits.count,
        "blockm_divmod": divmod_of(main.a.tile[0]),
        "blockn_divmod": divmod_of(main.a.tile[1]),
        "tile_count_semaphore": call.address(SEMAPHORE),
        **_prepared(call),
        "enable_pdl": s.overlaps,
        "is_causal": s.mask is MaskKey.CAUSAL,
        "packgqa": main.a.pack_gqa,
        "max_kvblocks_in_l2": PREPARED_L2_BYTES // block_bytes,
    }


def _scheduler(i: ForwardInstance, call: Launched) -> Members:
    s, p, blocks, count = call.situation, call.problem, row_tiles(i, call.situation), heads(i, call.situation)
    if i.scheduler is TileScheduler.SINGLE:
        return {
            "num_blocks": blocks,
            "num_head": count,
            "num_batch": p.batch,
            "num_splits": s.splits.count,
            "qhead_per_khead": s.groups,
            "seqlen": s.seqlen_q,
            "nsplits_divmod": divmod_of(s.splits.count),
        }
    if i.scheduler is TileScheduler.VARLEN:
        return {
            "num_head": count,
            "num_batch": p.batch,
            "qhead_per_khead": s.groups,
            "seqlen": s.seqlen_q,
            "head_divmod": divmod_of(count),
            "nsplits_divmod": divmod_of(s.splits.count if i.split else 1),
            "tile_count_semaphore": call.address(SEMAPHORE),
            "cu_seqlens": call.address("cu_seqlens_q"),
            **{f"{name}_ptr": address for name, address in _prepared(call).items()},
        }
    common = {
        "total_blocks": blocks * count * p.batch,
        "m_block_divmod": divmod_of(blocks),
        "head_divmod": divmod_of(count),
    }
    if i.scheduler is TileScheduler.STATIC:
        return common
    head_bytes = s.seqlen_k * (s.hdim + p.hdim_v) * i.element_bytes
    fitting = 1 << (L2_BYTES // head_bytes).bit_length() - 1 if head_bytes <= L2_BYTES else 1
    swizzle = fitting * (1 if i.a.pack_gqa else s.groups)
    return common | {
        "l2_minor_divmod": divmod_of(swizzle),
        "l2_major_divmod": divmod_of(swizzle * blocks),
        "l2_minor_residual_divmod": divmod_of(count * p.batch % swizzle or 1),
        "num_hb_quotient": count * p.batch // swizzle,
        "tile_count_semaphore": call.address(SEMAPHORE),
    }


def _packed_shape(i: ForwardInstance, s: Fa3Situation, shape: Shape) -> Shape:
    """A shape (rows, width, heads, batch), or without the width, whose query heads of a key head become rows."""
    if not i.a.pack_gqa:
        return shape
    rows, *width, _, batch = shape
    return (s.groups, rows, *width, s.problem.kv_heads, batch)


def _packed_strides(i: ForwardInstance, s: Fa3Situation, strides: Strides) -> Shape:
    if not i.a.pack_gqa:
        return strides_of(strides)
    return strides.head, strides.row, strides.head * s.groups, strides.batch


def auxiliaries_of(situation: Fa3Situation) -> dict[str, Array]:
    """The small arrays of a plan, by upstream's names.

    - ``cu_seqlens_q``, ``cu_seqlens_k``: int32, shape (batch + 1), of packed rows.
    - ``seqused_k``: int32, shape (batch), the keys of a cache before any are appended, its padding included.
    - ``leftpad_k``, ``kv_batch_idx``: int32, shape (batch).
    - ``rotary_cos``, ``rotary_sin``: shape (positions, rotary dim / 2), rounded to the element type of Q.
    """
    s, p = situation, situation.problem
    out: dict[str, Array] = {}
    if s.packed_q:
        out["cu_seqlens_q"] = int32(offsets(p.query_lengths()))
    if s.packed_k:
        out["cu_seqlens_k"] = int32(offsets(p.key_lengths()))
    elif s.varlen:
        held = p.key_lengths() if p.cache_seqlens is None else p.cache_seqlens
        out["seqused_k"] = int32([keys + pad for keys, pad in zip(held, p.leftpads(), strict=True)])
    if p.cache_leftpad is not None:
        out["leftpad_k"] = int32(p.cache_leftpad)
    if p.cache_batch_idx is not None:
        out["kv_batch_idx"] = int32(p.cache_batch_idx)
    if p.append and p.rotary.dim:
        out |= rotary_tables(p, max(1, s.seqlen_k, p.positions))
    return out

"""The inputs of a plan's kernels besides tensors: the parameter block of every stage, and small arrays.

Both are made from the problem, its situation, and the addresses and strides of its tensors.

Source: ``csrc/flash_attn/flash_api.cpp``: ``set_params_fprop``, ``set_params_dgrad``, ``set_params_splitkv``,
``set_params_alibi`` and the five ``mha_*`` functions. The blocks differ from upstream's in two points:

- Upstream copies tensors to exchange heads and rows of packed queries; strides do the same here.
- Upstream's split-KV kernel misplaces a packed LSE, so the block asks for a batched one (``scratch.lse_is_packed``).
"""

from __future__ import annotations

from dataclasses import replace
from math import e, floor, log2
from typing import Any

from fmha_cli.backends.flash_attn.scratch import expand_heads, lse_is_packed, scratch_of
from fmha_cli.backends.flash_attn.situation import FlashApi, FlashSituation, KeyLengths
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.auxiliary import Array, int32, rotary_tables
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.flash_attn.traits import BACKWARD
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import RotaryStyle
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets

BYTES = 255.0
LOG2_E = log2(e)
"""``M_LOG2E``."""
_PACKED_RANK = 3
Members = dict[str, Any]


def params_of(stage: Stage, call: Call[FlashSituation]) -> FaFwdParams | FaBwdParams:
    """The stage's parameter block. All stages of a plan get the same one, as in upstream."""
    if stage.family in BACKWARD:
        return FaBwdParams(**(_common(call) | _backward(call)))
    return FaFwdParams(**(_common(call) | _forward(call)))


def _forward(call: Call[FlashSituation]) -> Members:
    s, p = call.situation, call.problem
    packed = lse_is_packed(s, call.plan.main)
    out: Members = {
        "q_ptr": call.address("q"),
        "o_ptr": call.address("o"),
        **row_stride_members("q", queries(call, "q")),
        **row_stride_members("o", queries(call, "o")),
        **row_stride_members("k", keys(call, "k")),
        **row_stride_members("v", keys(call, "v")),
        **_batches(call),
        "unpadded_lse": packed,
        "seqlenq_ngroups_swapped": packed and s.swapped,
        "seqused_k": 0,
        "rng_state": call.address("rng_state"),
        "philox_args": (p.seed, p.offset) if p.dropout else (0, 0),
        "num_splits": _num_splits(call),
        "oaccum_ptr": call.address("out_accum"),
        "softmax_lseaccum_ptr": call.address("softmax_lse_accum"),
        **_cache(call),
        **_appended(call),
    }
    return out


def _batches(call: Call[FlashSituation]) -> Members:
    """Batch strides of every tensor. With packed queries: only the strides of pages or of a linear cache."""
    s = call.situation
    out: Members = {}
    if not s.packed_q:
        out |= batch_stride_members("q", queries(call, "q")) | batch_stride_members("o", queries(call, "o"))
    if not s.packed_q or call.problem.paged or s.key_lengths is KeyLengths.LENGTHS:
        out |= batch_stride_members("k", keys(call, "k")) | batch_stride_members("v", keys(call, "v"))
    return out


def _num_splits(call: Call[FlashSituation]) -> int:
    """The plan's splits, or 0 where upstream leaves the field unset.

    Upstream leaves it unset with dropout, and for packed queries whose heads and rows are not exchanged.
    """
    s = call.situation
    unset = s.problem.dropout > 0 or (s.api is FlashApi.VARLEN_FWD and not s.swapped)
    return 0 if unset and call.plan.splits <= 1 else call.plan.splits


def _cache(call: Call[FlashSituation]) -> Members:
    p, out = call.problem, Members()
    if call.situation.api is not FlashApi.FWD:
        out["page_block_size"] = p.kv_cache.page if p.paged else 1
    if p.paged:
        out["block_table"] = call.address("block_table")
        out["block_table_batch_stride"] = call.tensor("block_table").strides[0]
    if p.cache_leftpad is not None:
        out["leftpad_k"] = call.address("leftpad_k")
    if p.cache_batch_idx is not None:
        out["cache_batch_idx"] = call.address("cache_batch_idx")
    return out


def _appended(call: Call[FlashSituation]) -> Members:
    p = call.problem
    if not p.append:
        return {}
    out: Members = {"seqlen_knew": p.append}
    for field, name in (("knew", "k_new"), ("vnew", "v_new")):
        strides = rows(call, name)
        out |= {
            f"{field}_ptr": call.address(name),
            **row_stride_members(field, strides),
            **batch_stride_members(field, strides),
        }
    if p.rotary.dim:
        out |= {
            "rotary_cos_ptr": call.address("rotary_cos"),
            "rotary_sin_ptr": call.address("rotary_sin"),
            "rotary_dim": p.rotary.dim,
            "is_rotary_interleaved": p.rotary.style is RotaryStyle.INTERLEAVED,
        }
    return out


def _backward(call: Call[FlashSituation]) -> Members:
    """The fields of ``Flash_bwd_params`` other than the common ones. Each of the three kernels reads its own part."""
    s, p = call.situation, call.problem
    out: Members = {
        "unpadded_lse": s.unpadded_lse,
        "rng_state": call.address("rng_state"),
        "dq_accum_ptr": call.address("dq_accum"),
        "dsoftmax_sum": call.address("softmax_d"),
        "deterministic": p.deterministic,
    }
    m = expand_heads(p)
    for name, strides in m.strides(call).items():
        out |= {f"{name}_ptr": m.address(call, name), **row_stride_members(name, strides)}
        if not s.packed_q:
            out |= batch_stride_members(name, strides)
    if p.deterministic:
        out["dq_accum_split_stride"] = scratch_of(s, call.plan.main, 1)["dq_accum"].strides[0]
    return out


def row_stride_members(name: str, strides: Strides) -> Members:
    """``x_row_stride`` and ``x_head_stride``."""
    return {f"{name}_row_stride": strides.row, f"{name}_head_stride": strides.head}


def batch_stride_members(name: str, strides: Strides) -> Members:
    """``x_batch_stride``."""
    return {f"{name}_batch_stride": strides.batch}


def _common(call: Call[FlashSituation]) -> Members:
    """The fields that ``set_params_alibi`` sets, and the ones that ``set_params_fprop`` sets in both directions."""
    s, p = call.situation, call.problem
    return {
        "k_ptr": call.address("k"),
        "v_ptr": call.address("v"),
        "h": s.heads,
        "h_k": p.kv_heads,
        "h_h_k_ratio": s.heads // p.kv_heads,
        "softmax_lse_ptr": call.address("softmax_lse"),
        "b": p.batch,
        "seqlen_q": s.seqlen_q,
        "seqlen_k": s.seqlen_k,
        "d": p.hdim,
        "seqlen_q_rounded": s.seqlen_q_rounded,
        "seqlen_k_rounded": s.seqlen_k_rounded,
        "d_rounded": s.hdim_rounded,
        "total_q": s.total_q,
        **_scales(p),
        "cu_seqlens_q": call.address("cu_seqlens_q") if s.packed_q else 0,
        "cu_seqlens_k": 0 if s.key_lengths is KeyLengths.COMMON else call.address("cu_seqlens_k"),
        "is_seqlens_k_cumulative": s.key_lengths is not KeyLengths.LENGTHS,
        "window_size_left": s.mask.left,
        "window_size_right": s.mask.right,
        "is_causal": s.mask.is_causal,
        "is_bf16": p.dtype is DType.BF16,
        **_alibi(call),
    }


def _scales(p: Problem) -> Members:
    """The factors, as upstream's host code computes them (``set_params_fprop``).

    That is in single precision, and in double precision where its constants are double (``M_LOG2E``, ``255.0``).
    """
    scale, softcap = single(p.scale), single(p.softcap)
    factor = softcap if softcap > 0 else scale
    kept = single(1.0 - single(p.dropout))
    inverse = single(1.0 / kept)
    return {
        "scale_softmax": factor,
        "scale_softmax_log2": single(factor * LOG2_E),
        "softcap": single(scale / softcap) if softcap > 0 else 0.0,
        "p_dropout": kept,
        "p_dropout_in_uint8_t": floor(kept * BYTES),
        "rp_dropout": inverse,
        "scale_softmax_rp_dropout": single(inverse * factor),
    }


def _alibi(call: Call[FlashSituation]) -> Members:
    """The slopes and their batch stride in elements, which is 0 where all sequences share the slopes."""
    if "alibi_slopes" not in call.tensors:
        return {}
    slopes = call.tensor("alibi_slopes")
    stride = slopes.strides[0] if len(slopes.shape) == 2 else 0
    return {"alibi_slopes_ptr": call.address("alibi_slopes"), "alibi_slopes_batch_stride": stride}


def rows(call: Call[FlashSituation], name: str) -> Strides:
    """Strides of a tensor of rows. In a packed tensor ``batch`` is the row stride, as ``tensor.stride(0)`` upstream."""
    strides = call.rows(name)
    return replace(strides, batch=strides.row) if _is_packed(call, name) else strides


def queries(call: Call[FlashSituation], name: str) -> Strides:
    """Strides of q or o as the kernels see them.

    Where ``situation.swapped``, each sequence has one row, and the query heads of a key/value head are taken as rows.
    """
    strides, s = call.rows(name), call.situation
    if not s.swapped:
        return rows(call, name)
    batch = strides.row if _is_packed(call, name) else strides.batch
    return Strides(batch=batch, head=strides.head * s.groups, row=strides.head)


def keys(call: Call[FlashSituation], name: str) -> Strides:
    """Strides of k or v. With a paged cache ``batch`` is the stride from page to page."""
    return call.keys(name) if call.problem.paged else rows(call, name)


def _is_packed(call: Call[FlashSituation], name: str) -> bool:
    return len(call.tensor(name).shape) == _PACKED_RANK


def auxiliaries_of(situation: FlashSituation) -> dict[str, Array]:
    """The small arrays of a plan, by name. Only given rotary tables depend on the tensors' contents: they are zeros here, and
    the session fills them in.

    The session uploads them and owns their memory.

    - ``cu_seqlens_q``: int32, shape (batch + 1).
    - ``cu_seqlens_k``: int32, shape (batch + 1); with a linear cache it holds lengths instead, shape (batch).
    - ``leftpad_k``, ``cache_batch_idx``: int32, shape (batch).
    - ``rotary_cos``, ``rotary_sin``: shape (positions, rotary dim / 2), rounded to the element type of Q.
    """
    s, p = situation, situation.problem
    out: dict[str, Array] = {}
    if s.packed_q:
        out["cu_seqlens_q"] = int32(offsets(p.query_lengths()))
    if s.key_lengths is not KeyLengths.COMMON:
        held = _count_held(p)
        out["cu_seqlens_k"] = int32(held if s.key_lengths is KeyLengths.LENGTHS else offsets(held))
    if p.cache_leftpad is not None:
        out["leftpad_k"] = int32(p.cache_leftpad)
    if p.cache_batch_idx is not None:
        out["cache_batch_idx"] = int32(p.cache_batch_idx)
    if p.append and p.rotary.dim:
        # The tables have as many positions as the cache has rows (mha_fwd_kvcache: "at least the seqlen of KV cache").
        out |= rotary_tables(p, max(1, s.seqlen_k, p.cache_rows))
    return out


def _count_held(problem: Problem) -> tuple[int, ...]:
    """Keys of each sequence before append. In a linear cache they include the left padding (``BlockInfo``)."""
    held = problem.key_lengths() if problem.cache_seqlens is None else problem.cache_seqlens
    return tuple(keys + pad for keys, pad in zip(held, problem.leftpads(), strict=True))

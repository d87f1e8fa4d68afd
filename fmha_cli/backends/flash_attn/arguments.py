"""The parameter block of every stage of a plan. It is made from the problem, its situation and its tensors' addresses.

Source: ``csrc/flash_attn/flash_api.cpp``: ``set_params_fprop``, ``set_params_splitkv``, ``set_params_alibi`` and the
five ``mha_*`` functions. The blocks differ from upstream's in two points:

- Upstream copies tensors to exchange heads and rows of packed queries; strides do the same here.
- Upstream's split-KV kernel misplaces a packed LSE, so the block asks for a batched one (``scratch.lse_is_packed``).
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.arguments_backward import backward_members
from fmha_cli.backends.flash_attn.arguments_common import Members, batch_strided, common_members, strided
from fmha_cli.backends.flash_attn.scratch import lse_is_packed
from fmha_cli.backends.flash_attn.situation import Api, KeyLengths, Situation
from fmha_cli.backends.flash_attn.strides import keys, queries, rows
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.domain.features import RotaryStyle
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Stage

BACKWARD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)


def params_of(stage: Stage, call: Call[Situation]) -> FaFwdParams | FaBwdParams:
    """The stage's parameter block. All stages of a plan get the same one, as in upstream.

    Raises:
        InternalError: a tensor that the stage needs is missing, or no kernel can read its layout.
    """
    if stage.family in BACKWARD:
        return FaBwdParams(**(common_members(call) | backward_members(call)))
    return FaFwdParams(**(common_members(call) | _forward(call)))


def _forward(call: Call[Situation]) -> Members:
    s, p = call.situation, call.problem
    packed = lse_is_packed(s, call.plan.main)
    out: Members = {
        "q_ptr": call.address("q"),
        "o_ptr": call.address("o"),
        **strided("q", queries(call, "q")),
        **strided("o", queries(call, "o")),
        **strided("k", keys(call, "k")),
        **strided("v", keys(call, "v")),
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


def _batches(call: Call[Situation]) -> Members:
    """Batch strides of every tensor. With packed queries: only the strides of pages or of a linear cache."""
    s = call.situation
    out: Members = {}
    if not s.packed_q:
        out |= batch_strided("q", queries(call, "q")) | batch_strided("o", queries(call, "o"))
    if not s.packed_q or call.problem.paged or s.key_lengths is KeyLengths.LENGTHS:
        out |= batch_strided("k", keys(call, "k")) | batch_strided("v", keys(call, "v"))
    return out


def _num_splits(call: Call[Situation]) -> int:
    """The plan's splits, or 0 where upstream leaves the field unset.

    Upstream leaves it unset with dropout, and for packed queries whose heads and rows are not exchanged.
    """
    s = call.situation
    unset = s.problem.dropout > 0 or (s.api is Api.VARLEN_FWD and not s.swapped)
    return 0 if unset and call.plan.splits <= 1 else call.plan.splits


def _cache(call: Call[Situation]) -> Members:
    p, out = call.problem, Members()
    if call.situation.api is not Api.FWD:
        out["page_block_size"] = p.kv_cache.page if p.paged else 1
    if p.paged:
        out["block_table"] = call.address("block_table")
        out["block_table_batch_stride"] = call.tensor("block_table").strides[0]
    if p.cache_leftpad is not None:
        out["leftpad_k"] = call.address("leftpad_k")
    return out


def _appended(call: Call[Situation]) -> Members:
    p = call.problem
    if not p.append:
        return {}
    out: Members = {"seqlen_knew": p.append}
    for field, name in (("knew", "k_new"), ("vnew", "v_new")):
        strides = rows(call, name)
        out |= {f"{field}_ptr": call.address(name), **strided(field, strides), **batch_strided(field, strides)}
    if p.rotary.dim:
        out |= {
            "rotary_cos_ptr": call.address("rotary_cos"),
            "rotary_sin_ptr": call.address("rotary_sin"),
            "rotary_dim": p.rotary.dim,
            "is_rotary_interleaved": p.rotary.style is RotaryStyle.INTERLEAVED,
        }
    return out

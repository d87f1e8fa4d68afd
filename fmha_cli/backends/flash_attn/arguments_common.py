"""The fields that forward and backward parameter blocks share: sizes, scales, mask, lengths, ALiBi."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fmha_cli.backends.flash_attn.scales import scales_of
from fmha_cli.backends.flash_attn.situation import KeyLengths, Situation
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.domain.dtypes import DType

Members = dict[str, Any]


def strided(name: str, strides: Strides) -> Members:
    """``x_row_stride`` and ``x_head_stride``."""
    return {f"{name}_row_stride": strides.row, f"{name}_head_stride": strides.head}


def batch_strided(name: str, strides: Strides) -> Members:
    """``x_batch_stride``."""
    return {f"{name}_batch_stride": strides.batch}


def common_members(call: Call[Situation]) -> Members:
    """What ``set_params_alibi`` sets, and what ``set_params_fprop`` sets in both directions."""
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
        **asdict(scales_of(p.scale, p.softcap, p.dropout)),
        "cu_seqlens_q": call.address("cu_seqlens_q") if s.packed_q else 0,
        "cu_seqlens_k": 0 if s.key_lengths is KeyLengths.COMMON else call.address("cu_seqlens_k"),
        "is_seqlens_k_cumulative": s.key_lengths is not KeyLengths.LENGTHS,
        "window_size_left": s.mask.left,
        "window_size_right": s.mask.right,
        "is_causal": s.mask.is_causal,
        "is_bf16": p.dtype is DType.BF16,
        **_alibi(call),
    }


def _alibi(call: Call[Situation]) -> Members:
    """The slopes and their batch stride in elements, which is 0 where all sequences share the slopes."""
    if "alibi_slopes" not in call.tensors:
        return {}
    slopes = call.tensor("alibi_slopes")
    stride = slopes.strides[0] if len(slopes.shape) == 2 else 0
    return {"alibi_slopes_ptr": call.address("alibi_slopes"), "alibi_slopes_batch_stride": stride}

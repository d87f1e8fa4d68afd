"""The call of upstream's API for a problem, derived from the problem alone.

This module does not use the product's view of upstream (``situation``). Upstream's Python interface
(``flash_attn/flash_attn_interface.py``) decides which API serves a problem. Only ``mha_fwd_kvcache`` has an argument
for an explicit number of splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fmha_cli.domain.features import Alibi, Bias, CacheKind, Direction, Layout, Mode, QScale, RotaryStyle
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from tests.support.referees.upstream_host.client import Call, Device, FakeTensor

DEVICES = {
    # CUDA C++ programming guide, "technical specifications per compute capability"; a selection for each.
    "sm_80": [Device(8, 0, units, 164 << 10, 163 << 10) for units in (108, 98, 56)],
    "sm_86": [Device(8, 6, units, 100 << 10, 99 << 10) for units in (84, 28, 82)],
    "sm_89": [Device(8, 9, units, 100 << 10, 99 << 10) for units in (128, 58, 142)],
    "sm_90": [Device(9, 0, units, 228 << 10, 227 << 10) for units in (132, 114, 78)],
    "sm_100": [Device(10, 0, units, 228 << 10, 227 << 10) for units in (148, 152)],
    "sm_120": [Device(12, 0, units, 100 << 10, 99 << 10) for units in (170, 188, 84)],
}

Tensors = Mapping[str, FakeTensor]
"""Tensors by the project's names, in the problem's axis order, together with the small arrays of a call (``SMALL``)."""

SMALL = (
    "cu_seqlens_q",
    "cu_seqlens_k",
    "cache_seqlens",
    "seqused_k",
    "cache_leftpad",
    "cache_batch_idx",
    "rotary_cos",
    "rotary_sin",
    "rng_state",
)


@dataclass(frozen=True)
class NoCall(Exception):
    """Upstream's interface cannot express the problem."""

    what: str


def call_of(p: Problem, device: Device, tensors: Tensors) -> Call:
    """The call for a problem.

    Raises:
        NoCall: no API can express it.
    """
    for wrong, what in (
        (p.bias is not Bias.NONE, "elementwise bias"),
        (p.sink_logits, "sink logits"),
        (p.sink > 0, "sink"),
        (p.qscale is not QScale.NONE, "scales of quantised tensors"),
        (p.direction is Direction.FWD_BWD, "both passes at once"),
    ):
        if wrong:
            raise NoCall(what)
    arguments = _backward(p, tensors) if p.direction.backward else _forward(p, tensors)
    api = str(arguments.pop("api"))
    return Call(api, arguments, device, p.seed, p.offset)


Arguments = dict[str, FakeTensor | int | float | bool]


def _common(p: Problem, tensors: Tensors) -> Arguments:
    left, right = _windows(p)
    causal = (left, right) == (-1, 0)
    out: Arguments = {
        "softmax_scale": p.scale,
        "is_causal": causal,
        "window_size_left": left,
        "window_size_right": -1 if causal else right,
        "softcap": p.softcap,
    }
    if p.alibi is not Alibi.NONE:
        out["alibi_slopes"] = tensors["alibi_slopes"]
    return out


def _windows(p: Problem) -> tuple[int, int]:
    """The mask bounds from the bottom-right corner, if they are the same for every sequence; -1 is unlimited.

    Raises:
        NoCall: upstream has no such mask.
    """
    shifts = {0}
    if p.mask.align is Align.TOP_LEFT:
        shifts = {k - q for q, k in zip(p.query_lengths(), p.key_lengths(), strict=True) if q} or {0}
    if len(shifts) != 1:
        raise NoCall("mask from the top left over sequences of different lengths")
    (shift,) = shifts
    left = -1 if p.mask.left is None else p.mask.left + shift
    right = -1 if p.mask.right is None else p.mask.right - shift
    if (left < 0 and p.mask.left is not None) or (right < 0 and p.mask.right is not None):
        raise NoCall("a mask bound on the other side of the diagonal")
    return left, right


def _forward(p: Problem, tensors: Tensors) -> Arguments:
    out = _common(p, tensors)
    cached = p.kv_cache.kind is not CacheKind.NONE
    if p.mode is Mode.GROUP:
        return out | _varlen(p, tensors, cached)
    if cached or (p.splits and not (p.splits == 1 and p.dropout)):
        return out | _kvcache(p, tensors, cached)
    return out | {
        "api": "mha_fwd",
        "q": rows(p, tensors["q"], p.layout),
        "k": rows(p, tensors["k"], p.layout),
        "v": rows(p, tensors["v"], p.layout),
        "out": rows(p, tensors["o"], p.layout_out),
        "p_dropout": p.dropout,
        "return_softmax": False,
    }


def _varlen(p: Problem, tensors: Tensors, cached: bool) -> Arguments:
    if p.append:
        raise NoCall("appending to a cache with packed queries")
    if p.splits and exchanges(p):
        raise NoCall("a number of splits with packed queries of one row each")
    if p.splits > 1:
        raise NoCall("a number of splits with packed queries of several rows")
    out: Arguments = {
        "api": "mha_varlen_fwd",
        "q": rows(p, tensors["q"], p.layout),
        "out": rows(p, tensors["o"], p.layout_out),
        "cu_seqlens_q": tensors["cu_seqlens_q"],
        "cu_seqlens_k": tensors["cu_seqlens_k"],
        "max_seqlen_q": p.seqlen_q,
        "max_seqlen_k": p.seqlen_k,
        "p_dropout": p.dropout,
        "zero_tensors": False,
        "return_softmax": False,
    }
    if p.paged:
        return out | {"k": tensors["k"], "v": tensors["v"], "block_table": tensors["block_table"]}
    if not cached:
        return out | {"k": rows(p, tensors["k"], p.layout), "v": rows(p, tensors["v"], p.layout)}
    raise NoCall("a linear cache with packed queries")


def _kvcache(p: Problem, tensors: Tensors, cached: bool) -> Arguments:
    if p.dropout:
        raise NoCall("dropout with a cache or a number of splits")
    out: Arguments = {
        "api": "mha_fwd_kvcache",
        "q": rows(p, tensors["q"], p.layout),
        "kcache": tensors["k"] if p.paged else rows(p, tensors["k"], p.layout),
        "vcache": tensors["v"] if p.paged else rows(p, tensors["v"], p.layout),
        "out": rows(p, tensors["o"], p.layout_out),
        "num_splits": p.splits,
        "is_rotary_interleaved": p.rotary.style is RotaryStyle.INTERLEAVED,
    }
    if p.paged:
        out["block_table"] = tensors["block_table"]
    if cached:
        out["seqlens_k"] = tensors["cache_seqlens"]
    if p.cache_leftpad is not None:
        out["leftpad_k"] = tensors["leftpad_k"]
    if p.cache_batch_idx is not None:
        out["cache_batch_idx"] = tensors["cache_batch_idx"]
    if p.append:
        out |= {"k": rows(p, tensors["k_new"], p.layout), "v": rows(p, tensors["v_new"], p.layout)}
    if p.rotary.dim:
        out |= {name: tensors[name] for name in ("rotary_cos", "rotary_sin")}
    if exchanges(p):
        out["out"] = _swapped(p, out["out"])
    return out


def exchanges(p: Problem) -> bool:
    """Whether ``mha_fwd_kvcache`` and ``mha_varlen_fwd`` treat the heads of a group as rows.

    If so, ``mha_fwd_kvcache`` also requires the output in that shape.
    """
    left, right = _windows(p)
    windowed = left >= 0 or right > 0
    return p.seqlen_q == 1 and p.heads > p.kv_heads and not windowed and p.hdim % 8 == 0 and p.alibi is Alibi.NONE


def _swapped(p: Problem, out: FakeTensor | int | float | bool) -> FakeTensor:
    """(b, 1, h, d) as (b, groups, kv_heads, d)."""
    assert isinstance(out, FakeTensor)
    batch, _, head, dim = out.strides
    groups = p.heads // p.kv_heads
    return FakeTensor(
        out.dtype, out.address, (p.batch, groups, p.kv_heads, out.sizes[3]), (batch, head, head * groups, dim)
    )


def _backward(p: Problem, tensors: Tensors) -> Arguments:
    packed = p.mode is Mode.GROUP
    out = _common(p, tensors) | {
        "api": "mha_varlen_bwd" if packed else "mha_bwd",
        "dout": rows(p, tensors["do"], p.layout_out),
        "out": rows(p, tensors["o"], p.layout_out),
        "softmax_lse": tensors["lse"],
        "p_dropout": p.dropout,
        "deterministic": p.deterministic,
        **{name: rows(p, tensors[name], p.layout) for name in ("q", "k", "v", "dq", "dk", "dv")},
    }
    if p.dropout:
        out["rng_state"] = tensors["rng_state"]
    if packed:
        out |= {"max_seqlen_q": p.seqlen_q, "max_seqlen_k": p.seqlen_k, "zero_tensors": False}
        out |= {name: tensors[name] for name in ("cu_seqlens_q", "cu_seqlens_k")}
    return out


def rows(p: Problem, tensor: FakeTensor, layout: Layout) -> FakeTensor:
    """A view with the head axis after the row axis: (batch, rows, heads, d), packed (total, heads, d)."""
    if layout is Layout.BSHD:
        return tensor
    first = len(tensor.sizes) - 3
    order = [*range(first), first + 1, first, first + 2]
    return FakeTensor(
        tensor.dtype, tensor.address, tuple(tensor.sizes[i] for i in order), tuple(tensor.strides[i] for i in order)
    )

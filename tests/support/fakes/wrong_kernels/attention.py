"""Attention in numpy, in float32, with the faults that change values. It handles one head at a time."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli import api
from tests.support.fakes.wrong_kernels.faults import Fault

Array = Any
TILE = 16


def head(p: api.Problem, fault: Fault, tensors: dict[str, Array], b: int, h: int) -> tuple[Array, Array]:
    """O (seqlen_q, hdim_v) in float32 and LSE (seqlen_q,) of one head."""
    g = h * p.kv_heads // p.heads
    if fault is Fault.GQA_GROUP and h == p.heads - 1:
        g -= 1
    exact = np.float64 if fault is Fault.HIDDEN_ORACLE else np.float32
    q, k, v = (np.asarray(tensors[name][b, i], exact) for name, i in (("q", h), ("k", g), ("v", g)))
    s = (_in_fp16(q, k.T) if fault is Fault.FP16_QK else q @ k.T) * exact(p.scale)
    if p.softcap:
        capped = np.tanh(s / exact(p.softcap)) * exact(p.softcap)
        if fault is Fault.SOFTCAP_TILE:
            capped[:, 2 * TILE : 3 * TILE] = s[:, 2 * TILE : 3 * TILE]
        s = capped
    s = np.where(_seen(p, fault), s, exact(-np.inf))
    top = s.max(axis=1)
    weights = np.exp(s - top[:, None])
    total = weights.sum(axis=1)
    o = (_in_fp16(weights, v) if fault is Fault.FP16_PV else weights @ v) / total[:, None]
    lse = top + np.log(total)
    if h == 1:
        match fault:
            case Fault.LSE_HEAD:
                lse += math.log(2)
            case Fault.LSE_ROW:
                lse[5] += math.log(2)
            case Fault.ONE_ROW:
                o[1234] = o[1233]
            case Fault.ONE_ELEMENT:
                o[7, 3] = o[7, 4]
    return o, lse


def rounded(o: Array, dtype: Any, fault: Fault) -> Array:
    """The output in its storage type."""
    if fault is Fault.TRUNCATED_BF16:
        return (
            (o.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(ml_dtypes.bfloat16)
        )
    nearest = o.astype(dtype)
    if fault is Fault.TRUNCATED_FP16:
        inward = np.nextafter(nearest, np.float16(0))
        return np.where(np.abs(nearest.astype(np.float32)) > np.abs(o), inward, nearest)
    return nearest


def _seen(p: api.Problem, fault: Fault) -> Array:
    """(seqlen_q, seqlen_k): the keys that a row sees."""
    j = np.arange(p.seqlen_k)[None, :]
    diagonal = np.arange(p.seqlen_q)[:, None] + p.mask.delta(p.seqlen_q, p.seqlen_k)
    seen = np.ones((p.seqlen_q, p.seqlen_k), np.bool_)
    if p.mask.left is not None:
        seen &= j >= diagonal - p.mask.left + (fault is Fault.WINDOW_EDGE)
    if p.mask.right is not None:
        seen &= j <= diagonal + p.mask.right
    match fault:
        case Fault.LAST_TILE:
            seen[:, -TILE:] = False
        case Fault.LAST_KEY:
            seen[:, -1] = False
        case Fault.HALF_TILE:
            seen[:, 2 * TILE + TILE // 2 : 3 * TILE] = False
    seen[~seen.any(axis=1), 0] = True  # a row that sees nothing any more stays finite, and wrong
    return seen


def _in_fp16(left: Array, right: Array) -> Array:
    """left @ right, one product after the other, in fp16."""
    a, b = left.astype(np.float16), right.astype(np.float16)
    out = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for c in range(a.shape[1]):
        out += a[:, c, None] * b[None, c]
    return out.astype(np.float32)

"""Attention with a bias by its formula in numpy's float64, for every form of a bias. Nothing here comes from the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

SIZES = B, H, S, K = 3, 2, 70, 37
"""(batch, heads, seqlen_q, seqlen_k): all different, none a multiple of a register."""
HDIM = 8
NUMPY: Mapping[str, Any] = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Form:
    """A shape in which a bias may be given, and the rank that it means. ``gradient``: whether dBias can be asked for."""

    shape: tuple[int, ...]
    rank: str
    gradient: bool = True


FORMS = {
    "11ss": Form((1, 1, S, K), "11ss"),
    "1hss": Form((1, H, S, K), "1hss"),
    "bhss": Form((B, H, S, K), "bhss"),
    "b1ss": Form((B, 1, S, K), "b1ss"),
    "111s": Form((1, 1, 1, K), "111s"),
    "b11s": Form((B, 1, 1, K), "b11s"),
    "1h1s": Form((1, H, 1, K), "1h1s"),
    "bh1s": Form((B, H, 1, K), "bh1s"),
    "rows": Form((1, 1, S, 1), "11ss", False),
    "2-D rows": Form((S, 1), "11ss", False),
    "3-D": Form((H, S, K), "1hss"),
    "2-D": Form((S, K), "11ss"),
    "2-D keys": Form((B, K), "b11s"),
    "2-D one row": Form((1, K), "111s"),
}


@dataclass
class Given:
    """Arrays (batch, heads, rows, hdim), and a bias in any form."""

    q: Any
    k: Any
    v: Any
    do: Any
    bias: Any


def drawn(form: str, dtype: str, boolean: bool) -> Given:
    """Seeded numbers; of the booleans about a third is false, and the first key is visible to all."""
    rng = np.random.default_rng(list(FORMS).index(form))
    q, do = (rng.standard_normal((B, H, S, HDIM)).astype(NUMPY[dtype]) for _ in range(2))
    k, v = (rng.standard_normal((B, H, K, HDIM)).astype(NUMPY[dtype]) for _ in range(2))
    shape = FORMS[form].shape
    bias = rng.standard_normal(shape).astype(NUMPY[dtype])
    if boolean:
        bias = rng.random(shape) < 0.7
        bias[..., 0] = True
    return Given(q, k, v, do, bias)


def attend(g: Given) -> dict[str, Any]:
    """O, LSE, dQ, dK, dV and dBias (in the shape of the bias) by the formula; false in a boolean bias hides."""
    q, k, v, do = (x.astype(np.float64) for x in (g.q, g.k, g.v, g.do))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    bias = g.bias if g.bias.dtype == np.bool_ else g.bias.astype(np.float64)
    if bias.ndim == 2 and len(q) > 1 and bias.shape[0] == len(q):
        bias = bias[:, None, None]
    s = np.where(bias, s, -np.inf) if bias.dtype == np.bool_ else s + bias
    top = s.max(axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isneginf(top), 0, top) + np.log(total)
    p = p / np.where(total == 0, 1, total)
    o = p @ v
    ds = p * (do @ v.swapaxes(-1, -2) - (do * o).sum(axis=-1, keepdims=True))
    broadcast = tuple(axis for axis, (n, full) in enumerate(zip(_four(bias.shape), ds.shape, strict=True)) if n < full)
    scale = 1 / np.sqrt(q.shape[-1])
    return {
        "o": o,
        "lse": lse[..., 0],
        "dq": scale * ds @ k,
        "dk": scale * ds.swapaxes(-1, -2) @ q,
        "dv": p.swapaxes(-1, -2) @ do,
        "dbias": ds.sum(axis=broadcast, keepdims=True).reshape(g.bias.shape),
    }


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (4 - len(shape)) + shape

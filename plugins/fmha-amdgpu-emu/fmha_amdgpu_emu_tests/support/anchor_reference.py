"""Attention in float64, the reference for kernels from outside this project and Composable Kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def attention(q: Array, k: Array, v: Array, scale: float, *, causal: bool = False) -> tuple[Array, Array, Array]:
    """O (heads, seqlen_q, hdim_v), LSE (heads, seqlen_q) in nats, and P; the causal mask is bottom-right.

    Q may have a multiple of the heads of K and V.
    """
    groups = len(q) // len(k)
    k, v = np.repeat(k, groups, 0), np.repeat(v, groups, 0)
    s = scale * q @ k.transpose(0, 2, 1)
    if causal:
        rows, keys = np.indices(s.shape[1:])
        s = np.where(keys > rows + s.shape[2] - s.shape[1], -np.inf, s)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    return p @ v / total, (top + np.log(total))[..., 0], p / total


def gradients(
    q: Array, k: Array, v: Array, do: Array, scale: float, *, causal: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """dQ, dK, dV, the row sums of dO * O, and the LSE; all tensors have the same number of heads."""
    o, lse, p = attention(q, k, v, scale, causal=causal)
    delta = (do * o).sum(-1)
    ds = p * (do @ v.transpose(0, 2, 1) - delta[..., None])
    return scale * ds @ k, scale * ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ do, delta, lse


def row_error(got: npt.NDArray[np.floating], wanted: Array) -> float:
    """The largest |got - wanted| of a row over the wanted row's norm."""
    got64 = np.asarray(got, np.float64)
    if not np.isfinite(got64).all():
        return float("inf")
    error = np.linalg.norm(got64 - wanted, axis=-1) / np.maximum(np.linalg.norm(wanted, axis=-1), 1e-30)
    return float(error.max())

"""Rotary position embedding.

Source: Su et al., "RoFormer" (2021); the pairings are those of Dao-AILab/flash-attention
``flash_attn/layers/rotary.py`` (``interleaved`` = GPT-J, ``half`` = GPT-NeoX).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.features import Rotary, RotaryStyle

F64 = npt.NDArray[np.float64]
BASE = 10000.0


def rotate(x: npt.ArrayLike, positions: npt.ArrayLike, rotary: Rotary) -> F64:
    """``x`` (..., rows, d) with its first ``rotary.dim`` elements rotated by the rows' positions, float64.

    Pair t of a row at position n turns by the angle n * BASE^(-2t/dim).
    """
    out = np.array(x, dtype=np.float64)
    dim = rotary.dim
    if not dim:
        return out
    frequency = BASE ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.asarray(positions, dtype=np.float64)[:, None] * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    half = rotary.style is RotaryStyle.HALF
    first, second = (slice(0, dim // 2), slice(dim // 2, dim)) if half else (slice(0, dim, 2), slice(1, dim, 2))
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out

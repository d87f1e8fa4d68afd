"""Small arrays that kernels read beside the problem's tensors. The session uploads them and owns their memory.

``cu_seqlens_q`` (batch + 1), ``cu_seqlens_k`` (batch + 1, or with a linear cache batch lengths) and ``leftpad_k``
(batch) are int32; ``rotary_cos`` and ``rotary_sin`` (positions, rotary dim / 2) have the element type of Q and hold its
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.backends.flash_attn.situation import KeyLengths, Situation
from fmha_cli.dtypes import DType
from fmha_cli.problem import Problem
from fmha_cli.tensors import offsets

Array = npt.NDArray[np.generic]

ROTARY_BASE = 10000.0
"""Contract, section 1: ``--rotary``."""


def auxiliaries_of(situation: Situation) -> dict[str, Array]:
    """The arrays of a plan, by name; none of them depends on what the tensors hold."""
    s, p = situation, situation.problem
    out: dict[str, Array] = {}
    if s.packed_q:
        out["cu_seqlens_q"] = _int32(offsets(p.query_lengths()))
    if s.key_lengths is not KeyLengths.COMMON:
        held = _held(p)
        out["cu_seqlens_k"] = _int32(held if s.key_lengths is KeyLengths.LENGTHS else offsets(held))
    if p.cache_leftpad is not None:
        out["leftpad_k"] = _int32(p.cache_leftpad)
    if p.append and p.rotary.dim:
        out |= rotary_tables(p, s.seqlen_k)
    return out


def _held(problem: Problem) -> tuple[int, ...]:
    """Keys of each sequence before append; in a linear cache with the padding in front of them (``BlockInfo``)."""
    held = problem.key_lengths() if problem.cache_seqlens is None else problem.cache_seqlens
    return tuple(keys + pad for keys, pad in zip(held, problem.leftpads(), strict=True))


def _int32(values: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.asarray(values, np.int32)


def rotary_tables(problem: Problem, seqlen_k: int) -> dict[str, Array]:
    """Cosine and sine of every (position, frequency): angle = position * 10000^(-2i / dim).

    As many positions as the cache has rows (``mha_fwd_kvcache``: "at least the seqlen of KV cache").
    """
    dim, rows = problem.rotary.dim, max(1, seqlen_k, problem.cache_rows)
    angle = np.arange(rows)[:, None] * ROTARY_BASE ** (-np.arange(0, dim, 2) / dim)[None, :]
    dtype = np.dtype(ml_dtypes.bfloat16 if problem.dtype is DType.BF16 else np.float16)
    return {"rotary_cos": np.cos(angle).astype(dtype), "rotary_sin": np.sin(angle).astype(dtype)}

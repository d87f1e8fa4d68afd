"""Small arrays that kernels read besides the problem's tensors. The session uploads them and owns their memory.

- ``cu_seqlens_q``: int32, shape (batch + 1).
- ``cu_seqlens_k``: int32, shape (batch + 1); with a linear cache it holds lengths instead, shape (batch).
- ``leftpad_k``: int32, shape (batch).
- ``rotary_cos``, ``rotary_sin``: shape (positions, rotary dim / 2), rounded to the element type of Q.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.situation import KeyLengths, Situation
from fmha_cli.backends.gpu.auxiliary import Array, int32, rotary_tables
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets


def auxiliaries_of(situation: Situation) -> dict[str, Array]:
    """The arrays of a plan, by name. None of them depends on the tensors' contents."""
    s, p = situation, situation.problem
    out: dict[str, Array] = {}
    if s.packed_q:
        out["cu_seqlens_q"] = int32(offsets(p.query_lengths()))
    if s.key_lengths is not KeyLengths.COMMON:
        held = _held(p)
        out["cu_seqlens_k"] = int32(held if s.key_lengths is KeyLengths.LENGTHS else offsets(held))
    if p.cache_leftpad is not None:
        out["leftpad_k"] = int32(p.cache_leftpad)
    if p.append and p.rotary.dim:
        # The tables have as many positions as the cache has rows (mha_fwd_kvcache: "at least the seqlen of KV cache").
        out |= rotary_tables(p.rotary.dim, max(1, s.seqlen_k, p.cache_rows), p.dtype)
    return out


def _held(problem: Problem) -> tuple[int, ...]:
    """Keys of each sequence before append. In a linear cache they include the left padding (``BlockInfo``)."""
    held = problem.key_lengths() if problem.cache_seqlens is None else problem.cache_seqlens
    return tuple(keys + pad for keys, pad in zip(held, problem.leftpads(), strict=True))

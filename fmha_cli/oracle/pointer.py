"""The fill ``pointer``: query i is parallel to one visible key, so its softmax is one-hot and O is that key's row of V.

Keys are rows of signs, so they have equal lengths. With m bits enough to number the keys of a sequence, every m elements
hold another bijection of the key's number: two keys differ in at least ``hdim // m`` elements. A query is its key times a
power of two, c. The chosen key's score therefore exceeds every other one by at least 2 c |scale| (hdim // m), and c is
large enough that the others' share stays below the rounding of any output type.

A third of the rows point to their first visible key, a third to the last one, the others anywhere. With ALiBi, which gives near
keys an advantage, rows point to keys within ``NEAR`` keys of the nearest visible one. V is ``coded``.
"""

from __future__ import annotations

from math import ceil, log, log2
from zlib import crc32

import numpy as np

from fmha_cli.domain.dtypes import DType, KvDType
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.budgets import EPS
from fmha_cli.oracle.coded import UNUSED, key_id, mix, stored_ids
from fmha_cli.oracle.mx import choose_form
from fmha_cli.oracle.scores import count_sunk, visible_range
from fmha_cli.oracle.tensors import (
    F64,
    Array,
    Ints,
    SequenceView,
    batched_rows,
    head_rows,
    largest,
    numpy_dtype,
    rotate,
    round_to,
)

_MULTIPLIERS = (0x9E3779B1, 0x85EBCA77)
_REST = 36 * log(2)
"""The others' share of a row is at most exp(-_REST), relative to the chosen key's."""

_TERMS = 3.5
"""The largest size of a filled bias or sink logit."""

NEAR = 32
"""With ALiBi, a row points to a key that is at most this much farther than the nearest visible one. Slopes are at most 1."""

_CHUNK = 1 << 14
"""Keys made at a time."""

_ROTATED = 6.0
"""Roundings of a rotated inner product, in eps: the key twice, the query twice, cosines and sines."""


def bits_of(problem: Problem) -> int:
    """Bits that number the keys of a sequence."""
    return max(1, (problem.seqlen_k - 1).bit_length())


def length_of(problem: Problem) -> float:
    """c, the factor from a key to the query that points to it; 0 if no factor makes the softmax one-hot."""
    words = problem.hdim // bits_of(problem)
    apart = 2.0 * words
    if problem.rotary.dim:
        apart -= _ROTATED * _rounding(problem) * problem.hdim
    if apart < max(1, words) or not problem.scale:
        return 0.0
    gap = _REST + log(max(1, problem.seqlen_k)) + 2 * _TERMS  # above other keys, and above a sink logit
    if problem.alibi is not Alibi.NONE:
        gap += NEAR
    return float(2.0 ** ceil(log2(gap / (abs(problem.scale) * min(apart, problem.hdim)))))


def _rounding(problem: Problem) -> float:
    """Unit roundoff of rotated keys as the cache keeps them; 1 for integers, of which a sign is one step."""
    kv = problem.kv_dtype
    if kv in (KvDType.SAME, KvDType.INT8):
        return 1.0 if kv is KvDType.INT8 else EPS.get(problem.dtype, 1.0)
    return EPS[DType(kv.value)]


def why_not(problem: Problem) -> str | None:
    """Why the answer of this fill is not known in closed form; None if it is."""
    items = problem.cache_batch_idx or ()
    if len(set(items)) < len(items):
        return "sequences share rows of the cache, and cannot have their own keys"
    if problem.rotary_cos:
        return "rotary tables need not turn back what they turn"
    if problem.softcap:
        return "the softcap presses the scores together"
    if not problem.scale:
        return "the scale is 0"
    if problem.alibi is not Alibi.NONE and problem.sink:
        return "ALiBi puts the keys of the sink too far away"
    if problem.hdim < bits_of(problem):
        return f"hdim {problem.hdim} has too few directions for {problem.seqlen_k} keys"
    length = length_of(problem)
    if not length:
        held = problem.dtype if problem.kv_dtype is KvDType.SAME else problem.kv_dtype
        return f"rotated keys in {held.value} are not far enough apart"
    if not problem.dtype.is_mx and 2 * length > largest(Element.of(problem.dtype, problem.fp8_encoding)):
        return f"a one-hot softmax needs queries of {length:g}, too large for {problem.dtype.value}"
    return None


def pointers(problem: Problem, b: int, h: Ints, i: Ints, seed: int) -> Ints:
    """(R,) the key that each row (h[r], i[r]) of sequence b points to; UNUSED for a row that sees none."""
    view = SequenceView(problem, {}, b)
    low, high = visible_range(view, i)
    if problem.alibi is not Alibi.NONE:
        near = np.clip(i + problem.mask.delta(view.seqlen_q, view.seqlen_k), low, np.maximum(low, high - 1))
        low, high = np.maximum(low, near - NEAR), np.minimum(high, near + NEAR + 1)
    front = count_sunk(problem, low, high)
    count = front + np.maximum(high - low, 0)
    row = (b * problem.heads + h) * max(1, problem.seqlen_q) + i
    word = mix(row.astype(np.uint64) + np.uint64(crc32(f"pointer {seed}".encode()))).astype(np.int64)
    chosen = np.select([word % 3 == 0, word % 3 == 1], [0, count - 1], word // 3 % np.maximum(count, 1))
    return np.where(count > 0, np.where(chosen < front, chosen, low + chosen - front), UNUSED)


def directions(problem: Problem, ids: Ints, seed: int) -> F64:
    """(..., hdim) of +1 and -1 for keys by their ids (``coded.key_id``); zeros for UNUSED."""
    m, stride = bits_of(problem), max(1, problem.seqlen_k)
    low = np.uint64(2**m - 1)
    key, head = (part.astype(np.uint64) for part in (ids % stride, ids // stride))
    out = np.zeros((*ids.shape, problem.hdim))
    for word in range(-(-problem.hdim // m)):
        salt = mix(head + np.uint64(crc32(f"key {seed} {word}".encode())))
        value = (key ^ salt) & low
        for factor in _MULTIPLIERS:
            value = value * np.uint64(factor) & low
            value ^= value >> np.uint64(max(1, m // 2))
        for bit in range(min(m, problem.hdim - word * m)):
            out[..., word * m + bit] = (value >> np.uint64(bit) & np.uint64(1)).astype(np.float64) * 2 - 1
    out[ids == UNUSED] = 0
    return out


def pointing(problem: Problem, name: str, seed: int, block_table: Array | None) -> Array | None:
    """The tensor ``name`` of this fill; None for one that has the values of ``normal``."""
    shape = choose_form(problem, name)
    if name in ("q_descale", "k_descale"):
        return np.ones(shape.shape, np.float32)
    if name == "k":
        ids = stored_ids(problem, name, block_table).reshape(-1)
        keys = np.empty((len(ids), problem.hdim), numpy_dtype(shape.dtype))
        for first in range(0, len(ids), _CHUNK):
            part = slice(first, first + _CHUNK)
            keys[part] = round_to(directions(problem, ids[part], seed), shape.dtype)
        return keys.reshape(shape.shape)
    if name == "k_new":
        out = directions(problem, stored_ids(problem, name), seed)
        for b, held in enumerate(problem.cache_seqlens or ()):
            where = problem.leftpads()[b] + held + np.arange(problem.append)
            for g in range(problem.kv_heads):
                rows = batched_rows(out, problem.layout, b, g)
                rows[...] = rotate(rows, -where, problem.rotary, problem.rotary_base)
        return round_to(out, shape.dtype)
    return _queries(problem, seed) if name == "q" else None


def _queries(problem: Problem, seed: int) -> Array:
    shape, length = choose_form(problem, "q"), np.copysign(length_of(problem) or 1.0, problem.scale)
    out = np.zeros(shape.shape, numpy_dtype(shape.dtype))
    ratio = problem.heads // problem.kv_heads
    for b, (count, keys) in enumerate(zip(problem.query_lengths(), problem.key_lengths(), strict=True)):
        i = np.arange(count)
        where = problem.leftpads()[b] + keys - count + i
        for h in range(problem.heads):
            at = pointers(problem, b, np.full(count, h), i, seed)
            ids = np.where(at == UNUSED, UNUSED, key_id(problem, b, h // ratio, at))
            rows = rotate(length * directions(problem, ids, seed), -where, problem.rotary, problem.rotary_base)
            head_rows(out, problem, problem.layout, problem.query_lengths(), b, h)[...] = round_to(rows, shape.dtype)
    return out

"""Values that hold their own position: every row of V encodes the id of its key, which explains a wrong row of O.

Element e of the row of key ``id`` is nibble e % 8 of mix(id, e // 8), minus 7.5: one of 16 values, exact in every
storage type but fp8_e5m2. mix is a bijection of 32-bit words, so the first eight elements encode the id, and the codes of
neighbouring ids are unrelated.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.oracle.tensors import Array, Ints, batched_rows, head_rows

U64 = npt.NDArray[np.uint64]

_WORD = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = (0x85EBCA6B, 0xC2B2AE35)
_SALT = np.uint64(0x9E3779B9)
_DIGITS = 8
_CENTRE = 7.5

UNUSED = -1
"""Id of a stored row that holds no key."""


def key_id(problem: Problem, b: int, g: int, j: npt.ArrayLike) -> Ints:
    """The number of key ``j`` of key/value head ``g`` of sequence ``b``."""
    return (b * problem.kv_heads + g) * max(1, problem.seqlen_k) + np.asarray(j, dtype=np.int64)


def key_of(problem: Problem, number: int) -> tuple[int, int, int]:
    """The inverse of :func:`key_id`: (b, g, j) of a number."""
    stride = max(1, problem.seqlen_k)
    return number // stride // problem.kv_heads, number // stride % problem.kv_heads, number % stride


def stored_ids(problem: Problem, name: str, block_table: Array | None = None) -> Ints:
    """Ids of the rows of k, v, k_new or v_new, in the tensor's shape without its last axis; UNUSED for rows without a key.

    ``block_table`` is needed for a paged k or v.
    """
    out = np.full(shapes_of(problem)[name].shape[:-1], UNUSED, dtype=np.int64)
    lengths = problem.key_lengths()
    for b, length in enumerate(lengths):
        held = length if problem.cache_seqlens is None else problem.cache_seqlens[b]
        j = np.arange(held, length) if name.endswith("_new") else np.arange(held)
        for g in range(problem.kv_heads):
            ids = key_id(problem, b, g, j)
            if name.endswith("_new"):
                batched_rows(out, problem.layout, b, g)[:] = ids
            elif problem.cache_seqlens is None:
                head_rows(out, problem, problem.layout, lengths, b, g)[:] = ids
            elif problem.paged:
                assert block_table is not None  # a paged problem has one
                page = problem.kv_cache.page
                out[block_table[b].astype(np.int64)[j // page], j % page, g] = ids
            else:
                first = problem.leftpads()[b]
                batched_rows(out, problem.layout, problem.cache_item(b), g)[first : first + held] = ids
    return out


def mix(x: U64) -> U64:
    """MurmurHash3 ``fmix32`` (Austin Appleby) of the low 32 bits, a bijection of them."""
    x = x & _WORD
    x = (x ^ (x >> np.uint64(16))) * np.uint64(_MULTIPLIERS[0]) & _WORD
    x = (x ^ (x >> np.uint64(13))) * np.uint64(_MULTIPLIERS[1]) & _WORD
    return x ^ (x >> np.uint64(16))


def _unmix(x: int) -> int:
    x ^= x >> 16
    x = x * pow(_MULTIPLIERS[1], -1, 2**32) % 2**32
    x ^= (x >> 13) ^ (x >> 26)
    x = x * pow(_MULTIPLIERS[0], -1, 2**32) % 2**32
    return x ^ (x >> 16)


def code(ids: npt.ArrayLike, dim: int) -> npt.NDArray[np.float32]:
    """(..., dim) code rows of the ids (each below 2^32)."""
    numbers = np.asarray(ids, dtype=np.int64).astype(np.uint64) & _WORD
    out = np.empty((*numbers.shape, dim), dtype=np.float32)
    for salt in range(-(-dim // _DIGITS)):
        word = mix(numbers ^ (np.uint64(salt) * _SALT & _WORD))
        for digit in range(min(_DIGITS, dim - salt * _DIGITS)):
            nibble = (word >> np.uint64(4 * digit)) & np.uint64(15)
            out[..., salt * _DIGITS + digit] = nibble.astype(np.float32) - np.float32(_CENTRE)
    return out


def decode_coded(row: npt.ArrayLike, tolerance: float = 0.25) -> int | None:
    """The id whose code equals ``row``, element by element within ``tolerance``; None if it is not a code.

    Needs at least eight elements.
    """
    values = np.asarray(row, dtype=np.float64)
    if len(values) < _DIGITS or not np.isfinite(values).all():
        return None
    digits = np.rint(values[:_DIGITS] + _CENTRE)
    if ((digits < 0) | (digits > 15)).any():
        return None
    number = _unmix(sum(int(d) << (4 * n) for n, d in enumerate(digits)))
    return number if np.abs(code(number, len(values)) - values).max() <= tolerance else None

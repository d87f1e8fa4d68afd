"""The key, head and sequence of each stored row of K or V; unused rows are marked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.features import CacheKind, Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets, shapes_of
from fmha_cli.oracle.tensors import Array

Ints = npt.NDArray[np.int64]
UNUSED = -1


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
    for b, length in enumerate(problem.key_lengths()):
        held = length if problem.cache_seqlens is None else problem.cache_seqlens[b]
        first, end = (held, length) if name.endswith("_new") else (0, held)
        j = np.arange(first, end)
        for g in range(problem.kv_heads):
            ids = key_id(problem, b, g, j)
            if name.endswith("_new"):
                _put(out, problem.layout, b, g, 0, ids)
            elif problem.paged:
                assert block_table is not None  # a paged problem has one
                page = problem.kv_cache.page
                out[block_table[b].astype(np.int64)[j // page], j % page, g] = ids
            elif problem.mode is Mode.GROUP and problem.kv_cache.kind is CacheKind.NONE:
                start = offsets(problem.key_lengths())[b]
                packed = slice(start, start + length)
                out[(g, packed) if problem.layout is Layout.BHSD else (packed, g)] = ids
            else:
                _put(out, problem.layout, b, g, problem.leftpads()[b], ids)
    return out


def _put(out: Ints, layout: Layout, b: int, g: int, first: int, ids: Ints) -> None:
    rows = slice(first, first + len(ids))
    out[(b, g, rows) if layout is Layout.BHSD else (b, rows, g)] = ids

"""The query rows to check: all of them, or a seeded sample that fits a time budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fmha_cli.domain.features import Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets
from fmha_cli.oracle.tensors import Array, Ints

_EDGE = 16
"""Tiles of every common height begin and end next to a multiple of this number of rows."""

_FLOPS_PER_SECOND = 30e9
_SECONDS_PER_PAIR = 10e-9
_SECONDS_PER_KEY_ELEMENT = 2e-9
"""Cost model of the blocked float64 reference on one core, deliberately pessimistic."""


@dataclass(frozen=True)
class Rows:
    """Chosen query rows, sorted by (b, h, i): row n is query i[n] of head h[n] of sequence b[n]."""

    b: Ints
    h: Ints
    i: Ints

    def __len__(self) -> int:
        return len(self.i)

    def groups(self, problem: Problem) -> Iterator[tuple[int, int, slice]]:
        """(sequence, key/value head, slice of the rows that use it), in order."""
        ratio = problem.heads // problem.kv_heads
        code = self.b * problem.kv_heads + self.h // ratio
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        for start, end in pairwise([*starts, len(code)]):
            yield int(code[start]) // problem.kv_heads, int(code[start]) % problem.kv_heads, slice(int(start), int(end))

    def index(self, problem: Problem, layout: Layout = Layout.BHSD) -> tuple[Ints, ...]:
        """The index of the rows, in order, in a tensor shaped like q or o in ``layout``, or like lse."""
        if problem.mode is Mode.BATCH:
            return (self.b, self.h, self.i) if layout is Layout.BHSD else (self.b, self.i, self.h)
        packed = np.array(offsets(problem.query_lengths()), dtype=np.int64)[self.b] + self.i
        return (self.h, packed) if layout is Layout.BHSD else (packed, self.h)

    def take(self, problem: Problem, tensor: Array, layout: Layout = Layout.BHSD) -> Array:
        """(rows, d) of a tensor shaped like q or o in ``layout``; (rows,) of one shaped like lse."""
        return tensor[self.index(problem, layout)]

    def name(self, n: int) -> str:
        """Row ``n`` in a form for people."""
        return f"(b={self.b[n]}, h={self.h[n]}, i={self.i[n]})"


def all_rows(problem: Problem) -> Rows:
    """Every query row."""
    return _rows_of(problem, [(b, h) for b in range(problem.batch) for h in range(problem.heads)], None)


def _rows_of(problem: Problem, heads: list[tuple[int, int]], chosen: list[Ints] | None) -> Rows:
    lengths = problem.query_lengths()
    index = [np.arange(lengths[b], dtype=np.int64) for b, _ in heads] if chosen is None else chosen
    count = [len(i) for i in index]
    b, h = (np.repeat(np.array([x[axis] for x in heads], dtype=np.int64), count) for axis in (0, 1))
    return Rows(b, h, np.concatenate(index) if index else np.zeros(0, np.int64))


def seconds_of(problem: Problem, rows: int, heads: int) -> float:
    """Estimated seconds of the reference for ``rows`` rows spread over ``heads`` (sequence, head) pairs."""
    keys = problem.visible_pairs() / max(1, sum(problem.query_lengths()))
    width = problem.hdim + problem.hdim_v
    pair = 2 * width / _FLOPS_PER_SECOND + _SECONDS_PER_PAIR
    return rows * keys * pair + heads * problem.seqlen_k * width * _SECONDS_PER_KEY_ELEMENT


def rows_within(problem: Problem, seconds: float, seed: int = 0) -> Rows:
    """All rows if the reference takes less than ``seconds``, else a sample. Equal arguments give equal rows.

    The sample holds the first and last (sequence, head) with a query and random others. Of each it holds the first
    and last row, rows at tile edges, and random ones. At least one row of two heads is kept.
    """
    total = problem.heads * sum(problem.query_lengths())
    if seconds_of(problem, total, problem.batch * problem.heads) <= seconds:
        return all_rows(problem)
    rng = np.random.Generator(np.random.PCG64([seed, 0x726F7773]))
    lengths = problem.query_lengths()
    heads = [(b, h) for b in range(problem.batch) if lengths[b] for h in range(problem.heads)]
    per_head = seconds_of(problem, 64, 1)
    count = min(len(heads), max(2, int(seconds / per_head)))
    middle = rng.permutation(len(heads) - 2)[: count - 2] + 1 if len(heads) > 2 else np.zeros(0, np.int64)
    picked = [heads[n] for n in sorted({0, len(heads) - 1, *(int(m) for m in middle)})]
    left = seconds - seconds_of(problem, 0, len(picked))
    limit = max(1, int(left / max(seconds_of(problem, 1, 0), 1e-12) / len(picked)))
    return _rows_of(problem, picked, [_sample(lengths[b], limit, rng) for b, _ in picked])


def _sample(length: int, limit: int, rng: np.random.Generator) -> Ints:
    if limit >= length:
        return np.arange(length, dtype=np.int64)
    ends = [length - 1, 0][:limit]
    edges = np.arange(_EDGE, length, _EDGE, dtype=np.int64)
    edges = np.concatenate([edges, edges - 1])
    edges = rng.permutation(edges)[: max(0, (limit - 2) // 2)]
    others = rng.integers(0, length, size=max(0, limit - 2 - len(edges)))
    return np.unique(np.concatenate([np.array(ends, np.int64), edges, others]))

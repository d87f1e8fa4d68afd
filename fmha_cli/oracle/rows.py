"""``Rows``: chosen query rows, and their places in tensors: all, or a seeded, stratified sample that fits a time budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

import numpy as np

from fmha_cli.domain.features import Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets
from fmha_cli.oracle.scores import KEY_BLOCK
from fmha_cli.oracle.tensors import Array, Ints


@dataclass(frozen=True)
class Rows:
    """Chosen query rows, sorted by (b, h, i): row n is query i[n] of head h[n] of sequence b[n]."""

    b: Ints
    h: Ints
    i: Ints

    def __len__(self) -> int:
        return len(self.i)

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, in order."""
        none = cls(*(np.zeros(0, np.int64) for _ in range(3)))
        b, h, i = (np.concatenate([getattr(part, name) for part in (*parts, none)]) for name in ("b", "h", "i"))
        return cls(b, h, i)

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
    lengths = np.array(problem.query_lengths(), dtype=np.int64)
    return Rows(*locate_rows(problem, lengths, np.arange(problem.heads * lengths.sum())))


def locate_rows(problem: Problem, counts: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """(b, h, n) of numbers that count ``counts[b]`` things in every head of sequence b, in order."""
    starts = problem.heads * np.concatenate([[0], np.cumsum(counts)])
    b = np.searchsorted(starts, numbers, side="right") - 1
    inside = numbers - starts[b]
    return b, inside // counts[b], inside % counts[b]


def number_rows(problem: Problem, lengths: Ints, b: Ints, h: Ints, i: Ints) -> Ints:
    """The numbers of rows (b, h, i), the inverse of ``locate_rows``."""
    return problem.heads * (np.cumsum(lengths) - lengths)[b] + h * lengths[b] + i


_EDGE = 16
"""Tiles of every common height begin and end next to a multiple of this number of rows."""

_FLOPS_PER_SECOND = 30e9
_SECONDS_PER_PAIR = 10e-9
_SECONDS_PER_KEY_ELEMENT = 2e-9
"""Cost model of the blocked float64 reference on one core, deliberately pessimistic."""


def seconds_of(problem: Problem, rows: int, *, sampled: bool = False) -> float:
    """Estimated seconds of the reference for ``rows`` rows; a sample's rows share their blocks of keys with fewer others."""
    longest, keys = problem.seqlen_k, problem.visible_pairs() / max(1, sum(problem.query_lengths()))
    if problem.mask.left is not None:
        keys += (2 if sampled else 1) * KEY_BLOCK
    elif sampled:
        keys *= 2
    width = problem.hdim + problem.hdim_v
    pair = 2 * width / _FLOPS_PER_SECOND + _SECONDS_PER_PAIR
    read = problem.kv_heads * sum(k for q, k in zip(problem.query_lengths(), problem.key_lengths(), strict=True) if q)
    return rows * min(keys, longest) * pair + read * width * _SECONDS_PER_KEY_ELEMENT


def rows_within(problem: Problem, seconds: float, seed: int = 0, fill: str = "") -> Rows:
    """All rows if the reference takes less than ``seconds``, else a sample. Equal arguments give equal rows.

    The sample holds, as far as the time allows and in this order: one row of every (sequence, head), even if that takes
    longer than ``seconds``; the rows of ``corner_rows`` in every (sequence, head); rows at tile edges, up to half of the
    rest; rows at random. Each stratum is spread evenly over heads and positions.
    """
    lengths = np.array(problem.query_lengths(), dtype=np.int64)
    total, pairs = int(problem.heads * lengths.sum()), problem.heads * int((lengths > 0).sum())
    if not total or seconds_of(problem, total) <= seconds:
        return all_rows(problem)
    bits = np.random.PCG64([seed, crc32(f"rows {fill}".encode())])
    base = seconds_of(problem, 0, sampled=True)
    count = max(pairs, int((seconds - base) / max(1e-12, seconds_of(problem, 1, sampled=True) - base)))
    if count >= total:
        return all_rows(problem)
    picked = [_corners(problem, lengths, bits, count)]
    edges = lengths // _EDGE + np.maximum(lengths - 1, 0) // _EDGE
    left = max(0, count - len(picked[0]))
    b, h, n = locate_rows(problem, edges, _spread(bits, int(problem.heads * edges.sum()), left // 2))
    picked.append(number_rows(problem, lengths, b, h, _EDGE * (n // 2 + 1) - 1 + n % 2))
    picked.append(_spread(bits, total, left - len(picked[-1])))
    return Rows(*locate_rows(problem, lengths, np.unique(np.concatenate(picked))))


def corner_rows(problem: Problem, seqlen_q: int, seqlen_k: int) -> Ints:
    """The rows of a sequence at which something begins or ends: the sequence, its last tile, and each bound of the mask.

    A bound of the mask begins or ends where the first or the last visible key reaches the first key, the last key or the
    end of the sink. The two neighbours of such a row are included.
    """
    low, high = problem.mask.span(np.arange(-1, seqlen_q + 1), seqlen_q, seqlen_k)
    below = (np.minimum(low, n) for n in (seqlen_k, problem.sink or 1))
    bent = (np.maximum(low, 1), *below, np.maximum(high, 1), np.minimum(high, seqlen_k))
    turns = np.flatnonzero(np.diff(bent, 2).any(axis=0))  # numbers of rows: the bounds stop there or start
    near = (turns[:, None] + np.arange(-1, 2)).ravel().tolist()
    last_tiles = [(seqlen_q - 1) // height * height for height in (_EDGE, 64, 128)]
    return np.array(sorted({n for n in (0, seqlen_q - 1, *last_tiles, *near) if 0 <= n < seqlen_q}), dtype=np.int64)


def _corners(problem: Problem, lengths: Ints, bits: np.random.PCG64, count: int) -> Ints:
    """Numbers of corner rows: one for every (sequence, head), round robin, then the others up to ``count``."""
    keys = np.array(problem.key_lengths(), dtype=np.int64)
    turn, one, others = int(bits.random_raw() >> 32), [], []
    for q, k in sorted(set(zip(lengths.tolist(), keys.tolist(), strict=True))):
        rows = corner_rows(problem, q, k)
        if len(rows):
            b = np.repeat(np.flatnonzero((lengths == q) & (keys == k)), problem.heads)
            h = np.tile(np.arange(problem.heads), len(b) // problem.heads)
            first = (np.arange(len(b)) + turn) % len(rows)
            one.append(number_rows(problem, lengths, b, h, rows[first]))
            rest = [number_rows(problem, lengths, b, h, rows[(first + n) % len(rows)]) for n in range(1, len(rows))]
            others += rest
    chosen, spare = np.concatenate(one), np.concatenate([*others, np.zeros(0, np.int64)])
    return np.concatenate([chosen, spare[_spread(bits, len(spare), count - len(chosen))]])


def _spread(bits: np.random.PCG64, total: int, count: int) -> Ints:
    """``count`` of the numbers below ``total``, at random, one in each of ``count`` equal parts; sorted."""
    if count >= total or count <= 0:
        return np.arange(total if count > 0 else 0, dtype=np.int64)
    place = (bits.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.unique(np.minimum(((np.arange(count) + place) * (total / count)).astype(np.int64), total - 1))

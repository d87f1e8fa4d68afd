"""``Rows``: chosen query rows, and their places in tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fmha_cli.domain.features import Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets
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
    def joined(cls, parts: Sequence[Rows]) -> Rows:
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
    return Rows(*located(problem, lengths, np.arange(problem.heads * lengths.sum())))


def located(problem: Problem, counts: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """(b, h, n) of numbers that count ``counts[b]`` things in every head of sequence b, in order."""
    starts = problem.heads * np.concatenate([[0], np.cumsum(counts)])
    b = np.searchsorted(starts, numbers, side="right") - 1
    inside = numbers - starts[b]
    return b, inside // counts[b], inside % counts[b]


def numbered(problem: Problem, lengths: Ints, b: Ints, h: Ints, i: Ints) -> Ints:
    """The numbers of rows (b, h, i), the inverse of ``located``."""
    return problem.heads * (np.cumsum(lengths) - lengths)[b] + h * lengths[b] + i

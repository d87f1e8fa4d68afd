"""Scores of a block of query rows against a block of keys, in float64: scale, softcap, bias or ALiBi, mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.tensors import F64, Ints, SequenceView

KEY_BLOCK = 1024
ROW_BLOCK = 256
"""Block sizes at which numpy's float64 product runs at full speed in a few MiB."""


@dataclass(frozen=True)
class RowBlock:
    """Query rows of one sequence that share a key/value head.

    q (R, hdim) float64; h, i (R,): head and row in the sequence; row r sees keys low[r] <= j < high[r]
    and j < min(sink, high[r]).
    """

    view: SequenceView
    q: F64
    h: Ints
    i: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, view: SequenceView, h: Ints, i: Ints) -> RowBlock:
        """The block of rows (h[r], i[r])."""
        q = np.empty((len(i), view.problem.hdim))
        for head in np.unique(h):
            mine = h == head
            q[mine] = view.queries(int(head), i[mine])
        low, high = visible_range(view, i)
        return cls(view, q, h, i, low, high)

    @property
    def delta(self) -> int:
        return self.view.problem.mask.delta(self.view.seqlen_q, self.view.seqlen_k)

    def sees(self, j: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """(R, keys): which rows see which keys."""
        window = (j >= self.low[:, None]) & (j < self.high[:, None])
        sink = (j < self.view.problem.sink) & (j < self.high[:, None])
        return window | sink

    def visible(self) -> Ints:
        """(R,) number of keys that each row sees."""
        window: Ints = np.maximum(self.high - self.low, 0)
        return window + sunk(self.view.problem, self.low, self.high)

    def lift(self) -> F64:
        """(R,) ``lift`` of the rows."""
        return lift(self.view, self.h, self.i)

    def key_blocks(self) -> Iterator[tuple[int, int]]:
        """(first, end) of the key blocks that any row sees, in order."""
        seen = self.visible() > 0
        if not seen.any():
            return
        low, high = int(self.low[seen].min()), int(self.high[seen].max())
        sink = min(self.view.problem.sink, high)
        for first in range(0, high, KEY_BLOCK):
            end = min(first + KEY_BLOCK, high)
            if end > low or first < sink:
                yield first, end

    def scores(self, k: F64, first: int, end: int, *, sloped: bool = False) -> tuple[F64, F64 | None]:
        """(R, end - first) scores, -inf where masked, and if ``sloped`` and there is a cap, its derivative 1 - tanh^2(s / cap).

        The derivative is 4 e / (1 + e)^2 with e = exp(-2 |s / cap|), which keeps its digits where tanh is near 1.

        ``k`` is (end - first, hdim), the keys first..end-1.
        """
        p = self.view.problem
        s = self.q @ k.T
        s *= p.scale
        slope: F64 | None = None
        if p.softcap > 0:
            s /= p.softcap
            if sloped:
                e = np.exp(-2 * np.abs(s))
                slope = 4 * e / (1 + e) ** 2
            np.tanh(s, out=s)
            s *= p.softcap
        self._add_bias(s, first, end)
        if first < self.low.max() or end > self.high.min():
            np.copyto(s, -np.inf, where=~self.sees(np.arange(first, end)))
        return s, slope

    def _add_bias(self, s: F64, first: int, end: int) -> None:
        slopes = self.view.slopes()
        if slopes is not None:
            distance = np.abs(self.i[:, None] + self.delta - np.arange(first, end))
            s -= slopes[self.h][:, None] * distance
        for head in np.unique(self.h):
            plane = self.view.bias(int(head))
            if plane is not None:
                mine = self.h == head
                s[mine] += plane[self.i[mine], first:end].astype(np.float64)


def visible_range(view: SequenceView, i: Ints) -> tuple[Ints, Ints]:
    """First visible key and end of the visible keys of rows ``i``, the sink apart (contract, section 2)."""
    mask, keys = view.problem.mask, view.seqlen_k
    diagonal = i + mask.delta(view.seqlen_q, keys)
    low = np.zeros_like(i) if mask.left is None else np.clip(diagonal - mask.left, 0, keys)
    high = np.full_like(i, keys) if mask.right is None else np.clip(diagonal + mask.right + 1, 0, keys)
    return low, high


def lift(view: SequenceView, h: Ints, i: Ints) -> F64:
    """(R,) the amount that ALiBi's shifted form, slope * j, adds to the scores of rows (h[r], i[r]): |slope| * (i + delta).

    16-bit GPU kernels use that form under a causal mask; otherwise the amount is 0.
    """
    slopes, p = view.slopes(), view.problem
    causal = p.mask.right == 0 and (p.mask.left is None or p.mask.left >= view.seqlen_k)
    if slopes is None or not causal or p.dtype is DType.FP32:
        return np.zeros(len(i))
    return np.abs(slopes[h] * (i + p.mask.delta(view.seqlen_q, view.seqlen_k)))


def sunk(problem: Problem, low: Ints, high: Ints) -> Ints:
    """(R,) number of keys that rows see in front of their windows, because the sink holds them."""
    return np.minimum(np.minimum(problem.sink, high), low)


def row_blocks(view: SequenceView, h: Ints, i: Ints) -> Iterator[RowBlock]:
    """The rows in blocks of at most ROW_BLOCK, in order. Far rows under a window share no keys, so they share no block."""
    far = np.flatnonzero(np.diff(visible_range(view, i)[0] // KEY_BLOCK)) + 1
    for first, end in pairwise([0, *far.tolist(), len(i)]):
        for start in range(first, end, ROW_BLOCK):
            part = slice(start, min(start + ROW_BLOCK, end))
            yield RowBlock.of(view, h[part], i[part])

"""Scores of a block of query rows against a block of keys, in float64: scale, softcap, bias or ALiBi, mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.budgets import SCORE_SPREAD, largest_score_error
from fmha_cli.oracle.tensors import F64, Bools, Ints, SequenceView, product

KEY_BLOCK = 1024
ROW_BLOCK = 256
"""Block sizes at which numpy's float64 product runs at full speed in a few MiB."""


@dataclass(frozen=True)
class RowBlock:
    """Query rows of one sequence that share a key/value head.

    q (R, hdim) float64; h, i (R,): head and row in the sequence; row r sees keys low[r] <= j < high[r]
    and j < min(sink, high[r]), but none whose bias is -inf. With ``shaken`` above 0, the scores are perturbed as single
    precision may perturb them: another number, other rounding errors. lead (R,) is then the key with each row's largest score.
    """

    view: SequenceView
    q: F64
    h: Ints
    i: Ints
    low: Ints
    high: Ints
    shaken: int = 0
    lead: Ints | None = None

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

    def part(self, rows: Ints, shaken: int = 0, lead: Ints | None = None) -> RowBlock:
        """Some rows of the block; ``lead`` is that of these rows."""
        chosen = {name: getattr(self, name)[rows] for name in ("q", "h", "i", "low", "high")}
        return replace(self, **chosen, shaken=shaken, lead=lead)

    def _within(self, j: Ints) -> Bools:
        """(R, keys): which keys the mask shows."""
        window = (j >= self.low[:, None]) & (j < self.high[:, None])
        sink = (j < self.view.problem.sink) & (j < self.high[:, None])
        shown: Bools = window | sink
        return shown

    def _barred(self, j: Ints) -> Bools | None:
        """(R, keys): where the bias is -inf; None without a bias."""
        if self.view.inputs.get("bias") is None:
            return None
        out = np.zeros((len(self.i), len(j)), np.bool_)
        for head in np.unique(self.h):
            plane, mine = self.view.bias(int(head)), self.h == head
            assert plane is not None
            out[mine] = np.isneginf(plane[self.i[mine][:, None], j].astype(np.float32))
        return out

    def sees(self, j: Ints) -> Bools:
        """(R, keys): which rows see which keys."""
        shown, barred = self._within(j), self._barred(j)
        return shown if barred is None else shown & ~barred

    def seen(self, first: int, end: int) -> Bools | None:
        """``sees`` of the keys first..end-1; None if every row sees all of them."""
        barred = self._barred(np.arange(first, end))
        inside = self.low.max() <= first and end <= self.high.min()
        if inside and (barred is None or not barred.any()):
            return None
        return self.sees(np.arange(first, end))

    def _shown(self) -> Ints:
        """(R,) number of keys that the mask shows to each row."""
        window: Ints = np.maximum(self.high - self.low, 0)
        return window + count_sunk(self.view.problem, self.low, self.high)

    def visible(self) -> Ints:
        """(R,) number of keys that each row sees."""
        count = self._shown()
        if self.view.inputs.get("bias") is not None:
            for first, end in self.key_blocks():
                seen = self.seen(first, end)
                if seen is not None:
                    count = count - (self._within(np.arange(first, end)) & ~seen).sum(axis=1)
        return count

    def lift(self) -> F64:
        """(R,) ``lift`` of the rows."""
        return lift(self.view, self.h, self.i)

    def key_blocks(self) -> Iterator[tuple[int, int]]:
        """(first, end) of the key blocks that the mask shows to any row, in order."""
        seen = self._shown() > 0
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
        s = product(self.q, k.T)
        s *= p.scale
        bits = np.random.Generator(np.random.PCG64([self.shaken, self.view.b, first]))
        if self.shaken:
            s += self._dot_errors(k) * self._signs(bits, first, end)
        slope: F64 | None = None
        if p.softcap > 0:
            s /= p.softcap
            if sloped:
                e = np.exp(-2 * np.abs(s))
                slope = 4 * e / (1 + e) ** 2
            np.tanh(s, out=s)
            s *= p.softcap
        unit = 2.0 ** bits.random() if self.shaken else 0.0
        self._add_bias(s, first, end, unit)
        s = _round_scores(s, unit)
        seen = self.seen(first, end)
        if seen is not None:
            np.copyto(s, -np.inf, where=~seen)
        return s, slope

    def _dot_errors(self, k: F64) -> F64:
        """(R, keys) the largest error of the inner products that single precision leaves, and of ALiBi's shifted form."""
        p, (q_size, k_size) = (
            self.view.problem,
            (np.linalg.norm(np.nan_to_num(x, posinf=0, neginf=0), axis=1) for x in (self.q, k)),
        )
        size: F64 = abs(p.scale) * q_size[:, None] * k_size + self.lift()[:, None]
        return SCORE_SPREAD * largest_score_error(p) * size

    def _signs(self, bits: np.random.Generator, first: int, end: int) -> F64:
        """(R, end - first) +1 or -1: which way errors move the scores.

        The first two numbers move the leading key against all others. Random signs would give the two keys that decide a row
        the same sign in each of eight draws once in 256 rows, and the row would seem to depend on no rounding.
        """
        if self.lead is None or self.shaken > 2:
            up = bits.integers(0, 2, (len(self.i), end - first)) > 0
        else:
            up = (np.arange(first, end) == self.lead[:, None]) == (self.shaken == 1)
        return np.where(up, 1.0, -1.0).astype(np.float64, copy=False)

    def _add_bias(self, s: F64, first: int, end: int, unit: float) -> None:
        slopes = self.view.slopes()
        if slopes is not None:
            distance = np.abs(self.i[:, None] + self.delta - np.arange(first, end))
            s -= _round_scores(slopes[self.h][:, None] * distance, unit)
        for head in np.unique(self.h):
            plane = self.view.bias(int(head))
            if plane is not None:
                mine = self.h == head
                s[mine] += _round_scores(plane[self.i[mine], first:end].astype(np.float64), unit)


def _round_scores(s: F64, unit: float) -> F64:
    """Scores in single precision (of any size), counted in units of ``unit``: exp takes units of 1, exp2 of 1 / log2 e. 0: as they are."""
    if not unit:
        return s
    fraction, exponent = np.frexp(s / unit)
    out: F64 = np.ldexp(np.rint(fraction * 2.0**24) * 2.0**-24, exponent) * unit
    return out


def visible_range(view: SequenceView, i: Ints) -> tuple[Ints, Ints]:
    """First visible key and end of the visible keys of rows ``i``, the sink apart (contract, section 2)."""
    low, high = view.problem.mask.span(i, view.seqlen_q, view.seqlen_k)
    return np.clip(low, 0, view.seqlen_k), np.clip(high, 0, view.seqlen_k)


def lift(view: SequenceView, h: Ints, i: Ints) -> F64:
    """(R,) the amount that ALiBi's shifted form, slope * j, adds to the scores of rows (h[r], i[r]): |slope| * (i + delta).

    16-bit GPU kernels use that form under a causal mask; otherwise the amount is 0.
    """
    slopes, p = view.slopes(), view.problem
    causal = p.mask.right == 0 and (p.mask.left is None or p.mask.left >= view.seqlen_k)
    if slopes is None or not causal or p.dtype is DType.FP32:
        return np.zeros(len(i))
    return np.abs(slopes[h] * (i + p.mask.delta(view.seqlen_q, view.seqlen_k)))


def count_sunk(problem: Problem, low: Ints, high: Ints) -> Ints:
    """(R,) number of keys that rows see in front of their windows, because the sink holds them."""
    return np.minimum(np.minimum(problem.sink, high), low)


def row_blocks(view: SequenceView, h: Ints, i: Ints) -> Iterator[RowBlock]:
    """The rows in blocks of at most ROW_BLOCK, in order. Far rows under a window share no keys, so they share no block."""
    far = np.flatnonzero(np.diff(visible_range(view, i)[0] // KEY_BLOCK)) + 1
    for first, end in pairwise([0, *far.tolist(), len(i)]):
        for start in range(first, end, ROW_BLOCK):
            part = slice(start, min(start + ROW_BLOCK, end))
            yield RowBlock.of(view, h[part], i[part])

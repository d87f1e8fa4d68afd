"""Reference answers of every row in O(seqlen x hdim): two fills whose softmax has a closed form.

The blocked reference takes O(seqlen^2), so a large problem is judged on a sample of its rows. Under these fills all rows
are judged. ``results/judging.md`` has the faults that they cannot show.

- ``means``: Q is 0, so every visible key has the same weight and O is the mean of the visible rows of V. Sums of V over any
  range of keys are differences of two prefix sums. V is ``coded``, so its sums are exact in float64. LSE is the logarithm of
  the number of visible keys; a learned sink adds exp(sink) to that number. tanh(0) = 0, so a cap changes nothing. Bias and
  ALiBi give keys unequal weights, and dropout removes some: then there is no closed form.
- ``pointer``: a row's own key has all the weight that a learned sink leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from fmha_cli.domain.features import CLOSED_FILLS, Alibi, Bias, Direction
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle import pointer
from fmha_cli.oracle.coded import UNUSED
from fmha_cli.oracle.pointer import pointers
from fmha_cli.oracle.reference import (
    Reference,
    RowResult,
    below_sink,
    equal_keys,
    flat_values,
    flush_subnormals,
    latent_noise,
    squares,
)
from fmha_cli.oracle.rows import Rows
from fmha_cli.oracle.scores import count_sunk, lift, visible_range
from fmha_cli.oracle.tensors import F64, Array, Inputs, Ints, SequenceView, appended_cache


class Pointed:
    """The answers of the rows of one sequence and key/value head."""

    def __init__(self, view: SequenceView, g: int, seed: int) -> None:
        self._view, self._seed = view, seed
        self._k, self._v = view.keys64("k", g), view.keys64("v", g)
        self._key, self._value = (float(squares(rows).max(initial=0.0)) ** 0.5 for rows in (self._k, self._v))

    def rows(self, h: int, i: Ints) -> RowResult:
        """Rows i of head h."""
        view, p = self._view, self._view.problem
        head = np.full(len(i), h)
        at = pointers(p, view.b, head, i, self._seed)
        sees, q = at != UNUSED, view.queries(h, i)
        score = self._scores(h, i, at, q)
        sinks = view.sinks()
        top = score if sinks is None else np.maximum(score, sinks[h])  # the largest of all terms of the sum
        lse = score if sinks is None else np.logaddexp(score, sinks[h])
        weight = np.exp(np.where(sees, score - np.where(sees, lse, 0), -np.inf))
        o = np.zeros((len(i), p.hdim_v))
        o[sees] = self._v[at[sees]] * weight[sees, None]
        low, high = visible_range(view, i)
        visible = np.maximum(high - low, 0) + count_sunk(p, low, high)
        noise = np.sqrt(squares(o))
        relative = np.exp(np.where(sees, score - np.where(sees, top, 0), -np.inf))
        return RowResult(
            o=o,
            lse=lse,
            noise=noise,
            reach=abs(p.scale) * np.sqrt(squares(q)) * self._key
            + np.where(sees, np.abs(score), 0)
            + lift(view, head, i),
            below=np.zeros(len(i)) if sinks is None else below_sink(score, sinks[head]),
            swing=np.zeros(len(i)),
            width=np.sqrt(visible) * self._value * np.exp(np.where(sees, np.where(sees, top, 0) - lse, 0)),
            peak=weight,
            visible=visible,
            lost=np.where(flush_subnormals(relative, p.dtype) != 0, noise, 0.0),
        )

    def _scores(self, h: int, i: Ints, at: Ints, q: F64) -> F64:
        """(R,) the score of each row's key; -inf for a row that sees none. q (R, hdim)."""
        view, p = self._view, self._view.problem
        score, sees = np.full(len(i), -np.inf), at != UNUSED
        score[sees] = p.scale * np.einsum("rd,rd->r", q[sees], self._k[at[sees]])
        plane, slopes = view.bias(h), view.slopes()
        if plane is not None:
            score[sees] += plane[i[sees], at[sees]].astype(np.float64)
        if slopes is not None:
            score[sees] -= slopes[h] * np.abs(i[sees] + p.mask.delta(view.seqlen_q, view.seqlen_k) - at[sees])
        return score


def _why_not_averaged(problem: Problem) -> str | None:
    """Why the answer of this fill is not known in closed form; None if it is."""
    name = "ALiBi" if problem.alibi is not Alibi.NONE else "the bias" if problem.bias is not Bias.NONE else None
    return name and f"{name} gives keys unequal weights"


class Averaged:
    """The answers of the rows of one sequence and key/value head."""

    def __init__(self, view: SequenceView, g: int, seed: int) -> None:
        self._view = view
        v = view.keys64("v", g)
        size = squares(v)
        self._sums, self._squares = _prefix_sums(v), _prefix_sums(size[:, None])[:, 0]
        self._sizes, self._equal = (
            _prefix_sums(np.sqrt(size)[:, None])[:, 0],
            equal_keys(view.problem, view.keys64("k", g)),
        )
        self._value = float(size.max(initial=0.0)) ** 0.5

    def rows(self, h: int, i: Ints) -> RowResult:
        """Rows i of head h."""
        p = self._view.problem
        low, high = visible_range(self._view, i)
        front, high = count_sunk(p, low, high), np.maximum(high, low)
        visible = high - low + front
        sums, sizes, whole = (
            total[high] - total[low] + total[front] for total in (self._sums, self._squares, self._sizes)
        )
        noise = latent_noise(p, np.sqrt(sizes), whole, self._equal) if p.v_in_k else np.sqrt(sizes)
        sinks = self._view.sinks()
        with np.errstate(divide="ignore"):
            count = np.log(visible)
        lse = count if sinks is None else np.logaddexp(count, sinks[h])
        some = visible > 0
        weight = np.exp(-np.where(some, lse, np.inf))
        top = 0.0 if sinks is None else max(0.0, float(sinks[h]))  # the largest of all terms of the sum
        lost = np.where(flush_subnormals(np.exp(np.full(1, -top)), p.dtype) != 0, np.sqrt(sizes) * weight, 0.0)
        return RowResult(
            o=sums * weight[:, None],
            lse=lse,
            noise=noise * weight,
            reach=np.zeros(len(i)),
            below=np.zeros(len(i)) if sinks is None else below_sink(np.where(some, 0.0, -np.inf), sinks[h]),
            swing=np.zeros(len(i)),
            width=np.sqrt(visible) * self._value * weight * np.exp(top),
            peak=weight,
            visible=visible,
            lost=lost,
        )


def _prefix_sums(rows: F64) -> F64:
    """(n + 1, d): the sum of the first 0, 1, ..., n rows."""
    out = np.zeros((len(rows) + 1, rows.shape[1]))
    np.cumsum(rows, axis=0, out=out[1:])
    return out


PIECE = 1 << 15
"""Rows of one piece of the answer."""

_HARMLESS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"means": frozenset({"block_table"}), "pointer": frozenset()}
)
"""Tensors that may come from a file without changing the closed form. Sequences that share pages cannot have their own keys."""


class Solver(Protocol):
    """The answers of one sequence and key/value head."""

    def rows(self, h: int, i: Ints) -> RowResult: ...


class _MakesSolver(Protocol):
    def __call__(self, view: SequenceView, g: int, seed: int) -> Solver: ...


_SOLVERS: Mapping[str, _MakesSolver] = MappingProxyType({"means": Averaged, "pointer": Pointed})
assert set(_SOLVERS) == set(CLOSED_FILLS)


def why_not(problem: Problem, kind: str, given: Collection[str] = ()) -> str | None:
    """Why the answer under fill ``kind`` is not known in closed form; None if it is.

    Args:
        given: names of the tensors that come from files.
    """
    if kind not in CLOSED_FILLS:
        return "its softmax has no closed form"
    if problem.direction is not Direction.FWD:
        return "gradients have no closed form"
    if problem.dropout:
        return "dropout keeps other keys in every row"
    files = sorted(set(given) - _HARMLESS[kind])
    if files:
        return f"{', '.join(files)} {'comes' if len(files) == 1 else 'come'} from a file"
    return _why_not_averaged(problem) if kind == "means" else pointer.why_not(problem)


class ClosedAnswer:
    """The answer under a closed fill, computed piece by piece: it needs no more memory than one head's K and V in float64.

    Args:
        seed: the seed that made the inputs.
    """

    def __init__(self, problem: Problem, kind: str, inputs: Inputs, seed: int = 0) -> None:
        self._problem, self._solver, self._inputs, self._seed = problem, _SOLVERS[kind], inputs, seed
        self.cache: dict[str, Array] = appended_cache(problem, inputs)
        pairs = [(b, g) for b in range(problem.batch) for g in range(problem.kv_heads)]
        self._flat = flat_values(problem, inputs, pairs)

    def pieces(self) -> Iterator[Reference]:
        """The answers of all rows, some at a time, ordered by (b, h, i)."""
        p = self._problem
        ratio = p.heads // p.kv_heads
        for b, count in enumerate(p.query_lengths()):
            view = SequenceView(p, self._inputs, b)
            for g in range(p.kv_heads if count else 0):
                solver = self._solver(view, g, self._seed)
                for h in range(g * ratio, (g + 1) * ratio):
                    for first in range(0, count, PIECE):
                        i = np.arange(first, min(first + PIECE, count))
                        rows = Rows(np.full(len(i), b), np.full(len(i), h), i)
                        yield Reference(**vars(solver.rows(h, i)), rows=rows, flat_v=self._flat)

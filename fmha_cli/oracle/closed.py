"""Reference answers of every row in O(seqlen x hdim): two fills whose softmax has a closed form.

The blocked reference takes O(seqlen^2), so a large problem is judged on a sample of its rows. Under these fills all rows
are judged. ``results/judging.md`` has the faults that they cannot show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from fmha_cli.domain.features import CLOSED_FILLS, Direction
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle import means, pointer
from fmha_cli.oracle.coded import UNUSED
from fmha_cli.oracle.pointer import pointers
from fmha_cli.oracle.reference import Reference, RowResult, below_sink, flat_values, flushed, squares
from fmha_cli.oracle.rows import Rows
from fmha_cli.oracle.scores import lift, sunk, visible_range
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
        visible = np.maximum(high - low, 0) + sunk(p, low, high)
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
            lost=np.where(flushed(relative, p.dtype) != 0, noise, 0.0),
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


_SOLVERS: Mapping[str, _MakesSolver] = MappingProxyType({"means": means.Averaged, "pointer": Pointed})
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
    return means.why_not(problem) if kind == "means" else pointer.why_not(problem)


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

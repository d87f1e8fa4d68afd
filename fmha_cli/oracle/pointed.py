"""The answers under the fill ``pointer``: a row's own key has all the weight that a learned sink leaves."""

from __future__ import annotations

import numpy as np

from fmha_cli.oracle.coded import UNUSED
from fmha_cli.oracle.pointer import pointers
from fmha_cli.oracle.reference import RowResult, below_sink, flushed, squares
from fmha_cli.oracle.scores import lift, sunk, visible_range
from fmha_cli.oracle.tensors import F64, Ints, SequenceView


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

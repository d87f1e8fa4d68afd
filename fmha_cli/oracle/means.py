"""The fill ``means``: Q is 0, so every visible key has the same weight and O is the mean of the visible rows of V.

Sums of V over any range of keys are differences of two prefix sums. V is ``coded``, so its sums are exact in float64. LSE is
the logarithm of the number of visible keys; a learned sink adds exp(sink) to that number. tanh(0) = 0, so a cap
changes nothing. Bias and ALiBi give keys unequal weights, and dropout removes some: then there is no closed form.
"""

from __future__ import annotations

import numpy as np

from fmha_cli.domain.features import Alibi, Bias
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.reference import RowResult, below_sink, equal_keys, flushed, latent_noise, squares
from fmha_cli.oracle.scores import sunk, visible_range
from fmha_cli.oracle.tensors import F64, Ints, SequenceView


def why_not(problem: Problem) -> str | None:
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
        front, high = sunk(p, low, high), np.maximum(high, low)
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
        lost = np.where(flushed(np.exp(np.full(1, -top)), p.dtype) != 0, np.sqrt(sizes) * weight, 0.0)
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

"""Forward attention in float64, blocked: the definition that every kernel is judged by.

The formula is the contract's, section 2; the blocked evaluation with a running maximum follows Milakov
and Gimelshein, "Online normalizer calculation for softmax" (2018). Memory is O(rows x (hdim_v + block)).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.blas import uses_one_thread
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import lse_shape, shapes_of
from fmha_cli.oracle.budgets import LEAST_NORMAL, is_far
from fmha_cli.oracle.dropout import Stream, fmha_stream, keep_factor, keep_scale
from fmha_cli.oracle.rows import Rows, all_rows
from fmha_cli.oracle.scores import RowBlock, row_blocks
from fmha_cli.oracle.tensors import (
    F64,
    Array,
    Bools,
    Inputs,
    Ints,
    SequenceView,
    appended_cache,
    product,
    value_tensors,
)

MAX_THREADS = 8
"""Each works on a block of some 20 MB."""

BELOW = 128.0
"""A weight of exp(-BELOW) is 0 in single precision, whatever its error."""

SHAKES = 8
"""Evaluations of a row whose answer may depend on how its scores are rounded. Source of the method: Parker, "Monte Carlo
Arithmetic" (1997)."""

Floats = TypeVar("Floats", npt.NDArray[np.float64], npt.NDArray[np.float32])


@dataclass(frozen=True)
class RowResult:
    """The result of attention for R rows.

    Attributes:
        o: (R, hdim_v).
        lse: (R,), natural logarithm.
        noise: (R,), sqrt(sum_j p_j^2 |v_j|^2): the error that independent relative errors of P leave in O.
        reach: (R,), a bound on the size of the scores, ALiBi's shifted form included. Rounding errors of the scores
            are proportional to it.
        below: (R,), how far the largest score is below a learned sink, at most ``BELOW``: the size of the exponents of all P.
        swing: (R,), in rows whose scores are so large that rounding them may change O (``budgets.is_far``), how far it does: the
            largest change in ``SHAKES`` evaluations with scores as single precision may have them. 0 in other rows.
        width: (R,), how far O moves if every P (relative to the row's largest) has a random absolute error of 1.
        peak: (R,), the largest probability before dropout.
        visible: (R,), number of visible keys.
        lost: (R,), the part of noise that comes from P below the least normal number of the inputs' type (relative to
            the row's largest so far), which some matrix units treat as zero.
    """

    o: F64
    lse: F64
    noise: F64
    reach: F64
    below: F64
    swing: F64
    width: F64
    peak: F64
    visible: Ints
    lost: F64


@dataclass(frozen=True)
class Attended(RowResult):
    """With the two parts of LSE, whose sum may have lost the second: ``top`` (R,), the largest term, and ``log_sum`` (R,), of the
    terms relative to it; +inf for a row without terms. ``lead`` (R,) is the key with the largest score, 0 for a row that sees none."""

    top: F64
    log_sum: F64
    lead: Ints

    def weights(self, s: F64) -> F64:
        """P (R, keys) of scores (R, keys), 0 where they are -inf."""
        weights = np.exp(s - np.where(np.isneginf(self.top), 0.0, self.top)[:, None] - self.log_sum[:, None])
        weights[np.isneginf(s)] = 0.0  # also in a row whose LSE is NaN
        return np.asarray(weights)


@dataclass(frozen=True)
class Reference(RowResult):
    """The float64 answer for some rows.

    Attributes:
        rows: the rows.
        flat_v: whether all rows of V are equal, which makes O the same for every softmax.
        cache: k and v after an append.
        leaks: (R, hdim_v), where O may be NaN because a key that the mask hides from the row has a V that is not
            finite: tiles multiply it by P = 0, and 0 * NaN is NaN. None if every V is finite.
    """

    rows: Rows
    flat_v: bool = False
    cache: dict[str, Array] = field(default_factory=dict)
    leaks: Bools | None = None

    def pieces(self) -> Iterator[Reference]:
        """The answer as parts that are compared one after the other: this one."""
        yield self

    def part(self, n: int, parts: int) -> Reference:
        """The rows n, n + parts, n + 2 parts, ... of this answer."""
        rows = Rows(*(getattr(self.rows, f.name)[n::parts] for f in fields(Rows)))
        values = {f.name: getattr(self, f.name)[n::parts] for f in fields(RowResult)}
        return replace(self, **values, rows=rows, leaks=None if self.leaks is None else self.leaks[n::parts])

    def o_tensor(self, problem: Problem) -> F64:
        """O in the problem's own shape (float64, NaN where a row was not computed)."""
        out = np.full(shapes_of(problem)["o"].shape, np.nan)
        out[self.rows.index(problem, problem.layout_out)] = self.o
        return out

    def lse_tensor(self, problem: Problem) -> F64:
        """LSE in the problem's own shape (float64, NaN where a row was not computed)."""
        out = np.full(lse_shape(problem), np.nan)
        out[self.rows.index(problem)] = self.lse
        return out


def forward(
    problem: Problem,
    inputs: Inputs,
    *,
    rows: Rows | None = None,
    stream: Stream = fmha_stream,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Reference:
    """Attention of the chosen rows (default: all), in float64.

    A masked, unused or padded row of K or V may hold anything, NaN included. A row that sees nothing gives
    O = 0 and LSE = -inf, or LSE = the sink logit with a learned sink.

    Args:
        stream: what dropout draws from.
        told: takes the number of rows that are done, and of all rows.

    Raises:
        UnsupportedError: O001 (the offset of a dropout stream), T001 (tensors without a form).
    """
    rows = all_rows(problem) if rows is None else rows
    shapes_of(problem)
    none = np.zeros(0)
    leaks = [np.zeros((0, problem.hdim_v), np.bool_)]
    finite = all(np.isfinite(values).all() for values in value_tensors(problem, inputs))
    seven, nothing = (none, none, none, none, none, none, none), np.zeros(0, np.int64)
    results = [RowResult(np.zeros((0, problem.hdim_v)), *seven, nothing, none)]
    done = 0
    with _mapping() as each:
        for b, g, part in rows.groups(problem):
            view = SequenceView(problem, inputs, b)
            k, v = view.keys64("k", g), view.keys64("v", g)
            blocks = list(row_blocks(view, rows.h[part], rows.i[part]))
            one = partial(_attend, k=k, v=v, stream=stream, equal=equal_keys(problem, k))
            for block, result in zip(blocks, each(one, blocks), strict=True):
                results.append(result)
                done += len(block.i)
                told(done, len(rows))
            leaks += [] if finite else [_leaks(block, v) for block in blocks]
    return Reference(
        **{f.name: np.concatenate([getattr(result, f.name) for result in results]) for f in fields(RowResult)},
        rows=rows,
        flat_v=flat_values(problem, inputs, [(b, g) for b, g, _ in rows.groups(problem)]),
        cache=appended_cache(problem, inputs),
        leaks=None if finite else np.concatenate(leaks),
    )


@contextmanager
def _mapping() -> Iterator[Callable[[Callable[[RowBlock], RowResult], list[RowBlock]], Iterable[RowResult]]]:
    """A ``map`` over row blocks, on several threads where each product has one: numpy releases the lock of the interpreter.
    The results do not depend on the number of threads."""
    count = min(usable_cores(), MAX_THREADS) if uses_one_thread(os.environ) else 1
    if count == 1:
        yield map
        return
    with ThreadPoolExecutor(count, thread_name_prefix="reference") as pool:
        yield pool.map


def _attend(block: RowBlock, k: F64, v: F64, stream: Stream, equal: int) -> Attended:
    with np.errstate(invalid="ignore", over="ignore"):  # each thread has its own
        return attend(block, k, v, stream, equal=equal)


def equal_keys(problem: Problem, k: F64) -> int:
    """The most keys (rows of k) that are equal, where V is in K; else 1."""
    return int(np.unique(k, axis=0, return_counts=True)[1].max()) if problem.v_in_k and len(k) else 1


def latent_noise(problem: Problem, noise: F64, whole: F64, equal: int) -> F64:
    """The noise of rows where V is in K. ``noise`` (R,) takes the errors of P as independent; ``whole`` (R,) is the sum of the
    terms' sizes, which no error exceeds.

    A value is a part of its key, and the key decides the weight's error. Equal keys have one error and one value, so their
    errors add up. And an error that depends on the score (that of exp2) goes with each of hdim columns that make the score, by
    about 1 / sqrt(hdim).
    """
    out: F64 = np.minimum(noise * equal**0.5 + whole / problem.hdim**0.5, whole)
    return out


def _leaks(block: RowBlock, v: F64) -> Bools:
    """``Reference.leaks`` of a block; v (seqlen_k, hdim_v)."""
    bad = np.flatnonzero(~np.isfinite(v).all(axis=1))
    hidden = (~block.sees(bad)).astype(np.float32)
    return np.asarray(hidden @ (~np.isfinite(v[bad])).astype(np.float32) > 0)


def flat_values(problem: Problem, inputs: Inputs, heads: Iterable[tuple[int, int]]) -> bool:
    """Whether the V of every (sequence, key/value head) has equal rows, although one has several."""
    several = False
    for b, g in heads:
        v = SequenceView(problem, inputs, b).keys("v", g)
        if len(v) > 1:
            several = True
            if (v[1:] != v[:1]).any():
                return False
    return several


def attend(
    block: RowBlock, k: F64, v: F64, stream: Stream, key_range: tuple[int, int] | None = None, equal: int = 1
) -> Attended:
    """Attention of one block of rows; ``key_range`` limits it to one split of the keys (no learned sink then).

    k (seqlen_k, hdim) and v (seqlen_k, hdim_v) are float64; ``equal`` is ``equal_keys`` of them.
    """
    p = block.view.problem
    count = len(block.i)
    sinks = block.view.sinks() if key_range is None else None
    top = np.full(count, -np.inf) if sinks is None else sinks[block.h]
    total = np.zeros(count) if sinks is None else np.ones(count)
    peak, square, lost = np.full(count, -np.inf), np.zeros(count), np.zeros(count)
    acc, left, whole = np.zeros((count, v.shape[1])), np.zeros(count), np.zeros(count)
    key_norm, values_square, lead = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
    for first, end in _clip_keys(block, key_range):
        keys, values = k[first:end], v[first:end]
        s, _ = block.scores(keys, first, end)
        best = s.argmax(axis=1)
        block_top = s[np.arange(count), best]
        lead = np.where(block_top > peak, first + best, lead)
        peak = np.maximum(peak, block_top)
        new_top = np.maximum(top, block_top)
        safe = np.where(np.isneginf(new_top), 0.0, new_top)
        shrink = np.exp(top - safe)
        scores = None if not p.dropout else np.where(np.isneginf(s), 0.0, s)
        s -= safe[:, None]
        weights = np.exp(s, out=s)
        total = total * shrink + weights.sum(axis=1)
        if p.dropout:
            weights *= stream(p, block.view.b, block.h, block.i, first, end) * keep_factor(stream, p)
        acc = acc * shrink[:, None] + weigh(block, weights, values, first, end)
        sizes = squares(values)
        square = square * shrink**2 + (weights**2) @ sizes
        if p.v_in_k:
            whole = whole * shrink + weights @ np.sqrt(sizes)
        if scores is not None:
            left = left * shrink**2 + ((weights * scores) ** 2) @ sizes
        lost = lost * shrink**2 + flush_subnormals(weights, p.dtype) ** 2 @ sizes
        seen, norms = block.seen(first, end), np.sqrt(squares(keys))
        key_norm = np.maximum(key_norm, norms.max() if seen is None else np.where(seen, norms, 0.0).max(axis=1))
        values_square += sizes.sum() if seen is None else np.where(seen, sizes, 0.0).sum(axis=1)
        top = new_top
    some = total > 0
    inverse = np.divide(1.0, total, where=some | np.isnan(total), out=np.zeros(count))
    lse = np.where(some | np.isnan(total), top + np.log(np.where(some, total, 1.0)), -np.inf)
    lse[np.isnan(total)] = np.nan
    reach = abs(p.scale) * np.sqrt(np.einsum("rd,rd->r", block.q, block.q)) * key_norm
    # dropout may leave improbable keys alone, whose scores are far from the row's largest
    root = np.sqrt(square)
    far = np.divide(np.sqrt(left), root, where=root > 0, out=np.zeros(count))
    size = np.maximum(np.where(np.isfinite(peak), np.abs(peak), 0.0), far)
    noise = latent_noise(p, root, whole, equal) if p.v_in_k else root
    visible = block.visible()
    result = Attended(
        o=acc * inverse[:, None],
        lse=lse,
        noise=noise * inverse,
        reach=reach + size + block.lift(),
        below=np.zeros(count) if sinks is None else below_sink(peak, sinks[block.h]),
        swing=np.zeros(count),
        width=np.sqrt(values_square) * inverse * keep_scale(p.dropout),
        peak=np.exp(np.where(np.isneginf(peak), -np.inf, peak - np.where(np.isneginf(peak), 0.0, top))) * inverse,
        visible=visible,
        lost=np.sqrt(lost) * inverse,
        top=top,
        log_sum=np.where(
            some | np.isnan(total), np.log(np.where(some, total, np.where(np.isnan(total), np.nan, 1.0))), np.inf
        ),
        lead=lead,
    )
    far = np.flatnonzero(is_far(p, result.reach) & (visible > 0))
    if len(far) and not block.shaken:
        shaken = [block.part(far, n, lead[far]) for n in range(1, SHAKES + 1)]
        others = [attend(other, k, v, stream, key_range, equal) for other in shaken]
        moved = [np.linalg.norm(np.nan_to_num(other.o - result.o[far], posinf=0, neginf=0), axis=1) for other in others]
        result.swing[far] = np.max(moved, axis=0)
    return result


def below_sink(peak: F64, sinks: F64) -> F64:
    """``RowResult.below`` of rows whose largest scores are ``peak`` (R,), -inf where they see no key."""
    return np.where(np.isneginf(peak), 0.0, np.clip(sinks - peak, 0.0, BELOW))


def flush_subnormals(terms: Floats, dtype: DType) -> Floats:
    """The terms that are subnormal in the type, with 0 for the others; all 0 for a type in which none matters."""
    least = LEAST_NORMAL.get(dtype)
    return np.zeros_like(terms) if least is None else np.where(np.abs(terms) < least, terms, terms.dtype.type(0))


def squares(rows: F64) -> F64:
    """(n,) squared lengths of the rows; elements that are not finite do not count."""
    out: F64 = np.einsum("kd,kd->k", rows, rows)
    bad = ~np.isfinite(out)
    if bad.any():
        rest = np.where(np.isfinite(rows[bad]), rows[bad], 0.0)
        out[bad] = np.einsum("kd,kd->k", rest, rest)
    return out


def _clip_keys(block: RowBlock, key_range: tuple[int, int] | None) -> list[tuple[int, int]]:
    low, high = key_range or (0, block.view.seqlen_k)
    pairs = ((max(first, low), min(end, high)) for first, end in block.key_blocks())
    return [(first, end) for first, end in pairs if first < end]


def weigh(block: RowBlock, weights: F64, values: F64, first: int, end: int) -> F64:
    """weights @ values, (R, hdim_v), where a key that a row does not see contributes nothing even if it is NaN."""
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if not len(bad):
        return product(weights, values)
    clean = values.copy()
    clean[bad] = 0.0
    out = product(weights, clean)
    sees = block.sees(np.arange(first, end)[bad])
    with np.errstate(invalid="ignore"):
        for column, j in enumerate(bad):
            seen = sees[:, column]
            out[seen] += weights[seen, j, None] * values[j]
    return out

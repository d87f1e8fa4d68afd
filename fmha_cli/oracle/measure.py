"""Errors in units of the rounding errors of an honest kernel: the numbers that ``tolerance`` limits.

The scale of row r is max(|ref_r|, floor_r), with the floor ::

    floor_r = noise_r * (1 + 2^-24 * (reach_r + sqrt(visible_r) + 2 below_r) / eps) + |ref_r| * 2^-24 * 2 below_r / eps
              + (sqrt(d) + width_r) * half_step / eps

- noise_r = sqrt(sum_j p_j^2 |v_j|^2) is the error that independent rounding errors of P leave in a row, even if its terms
  cancel. For ordinary 16-bit data it is close to |ref_r|.
- reach_r / 2^24 is the error of float32 scores, and sqrt(visible_r) / 2^24 the error of float32 sums. In far rows (``budgets.is_far``)
  reach_r does not count, but the swing of the reference does: it is subtracted from the error.
- below_r / 2^24 is the error of exponents far below a learned sink.
- half_step is the absolute error of a number that is too small for a relative error. An output row has sqrt(d) such
  errors, and width_r = sqrt(sum_j |v_j|^2) / sum_j exp(s_j - max s) / (1 - dropout) come from P.

Rotary kernels in 16 bits keep rotated queries, cosines and sines in 16 bits: reach_r / 2^24 becomes reach_r * (2^-24 + eps / sqrt(d))
(``score_error``).

Values that are not finite are apart from that: how many the inputs hold, and where an output may and must hold them. ``Worth`` says how
much the right answer of some rows would show about a kernel, and why a pass would prove little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from fmha_cli.domain.features import QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import pages_of
from fmha_cli.oracle.budgets import F32_EPS, HALF_STEP, eps_of, near_reach, score_error
from fmha_cli.oracle.coded import UNUSED, stored_ids
from fmha_cli.oracle.reference import Reference, RowResult, squares
from fmha_cli.oracle.tensors import F64, Array, Bools, Inputs, packed_bias

_NEAR = 2.0**-6


def nonfinite_elements(problem: Problem, inputs: Inputs) -> int:
    """Number of elements of the inputs that are NaN or infinite.

    Storage that holds no key or no bias, and scales of pages without keys, do not count, nor does a bias or sink logit of -inf, which hides its key.
    """
    count = 0
    for name, tensor in inputs.items():
        if name in ("o", "lse", "block_table"):
            continue
        bad = ~np.isfinite(tensor)
        if name in ("bias", "sink_logits"):
            bad &= ~np.isneginf(tensor.astype(np.float32))
        if not bad.any():
            continue
        if name in ("k", "v") and problem.cache_seqlens is not None:
            bad &= (stored_ids(problem, name, inputs.get("block_table")) != UNUSED)[..., None]
        if name in ("k_descale", "v_descale") and problem.paged and problem.qscale is QScale.KV_BLOCK:
            bad[~_pages_in_use(problem, inputs["block_table"], len(bad))] = False
        used = packed_bias(problem) if name == "bias" else None
        count += int((bad if used is None else bad & used).sum())
    return count


def _pages_in_use(problem: Problem, table: Array, pages: int) -> Bools:
    """Which pages of the pool hold keys."""
    used = np.zeros(pages, np.bool_)
    for b, length in enumerate(problem.key_lengths()):
        used[table[b, : pages_of(length, problem.kv_cache.page)]] = True
    return used


def wrong_kind(got: F64, want: F64, limit: float) -> Bools:
    """Where an element is of another kind than the reference's. Near overflow of the storage type both kinds are right."""
    size = np.abs(want)
    certain = ~np.isfinite(want) | (size <= limit * (1 - _NEAR)) | (size > limit * (1 + _NEAR))
    finite = np.isfinite(want) & (size <= limit)
    out: Bools = (np.isfinite(got) != finite) & certain
    return out | _other_kind(got, want)


def _other_kind(got: F64, want: F64) -> Bools:
    """Where both are not finite, but of kinds that exclude each other.

    NaN in place of an infinity is right too: a kernel may round P to 0, and 0 * inf is NaN. The reverse is not.
    """
    out: Bools = np.isinf(got) & (np.isnan(want) | (np.isinf(want) & (got != want)))
    return out


_CHUNK = 4096
"""Rows compared at a time, so a comparison needs little memory beyond the tensors."""


@dataclass(frozen=True)
class RowErrors:
    """Errors of R rows against a reference.

    Elements that are not finite on either side count only in ``mismatched`` and ``leaked``.

    Attributes:
        relative: (R,) |o - ref| / scale.
        mismatched: (R,) number of elements of another kind (finite, NaN, infinite) than the reference's.
        counted: rows whose answer or error is not zero throughout.
        answers: (R,) a number of each row's answer; rows with one answer have one number. Their errors are the same error, as are those
            of rows whose weights have one rounding (``row_errors``).
        leaked: elements that are NaN where the reference allows it (``Reference.leaks``).
        element: the largest |o - ref| / (|ref| + scale / sqrt(d)) of any element.
        absolute: its numerator.
        allowance: its denominator.
    """

    relative: F64
    mismatched: F64
    answers: F64
    counted: int
    leaked: int
    element: float
    absolute: float
    allowance: float

    @classmethod
    def join(cls, parts: Sequence[RowErrors]) -> RowErrors:
        """The errors of all parts' rows, in order."""
        worst = max(parts, key=lambda part: part.element, default=_NO_ROWS)
        return cls(
            np.concatenate([part.relative for part in (*parts, _NO_ROWS)]),
            np.concatenate([part.mismatched for part in (*parts, _NO_ROWS)]),
            np.concatenate([part.answers for part in (*parts, _NO_ROWS)]),
            sum(part.counted for part in parts),
            sum(part.leaked for part in parts),
            *(worst.element, worst.absolute, worst.allowance),
        )

    @property
    def distinct(self) -> int:
        """The number of different answers that are not zero throughout: how many errors ``rms`` is the mean of."""
        return int(np.unique(self.answers[self.answers != 0]).size)

    @property
    def rms(self) -> float:
        """Root mean square of ``relative`` over the counted rows."""
        with np.errstate(over="ignore"):
            return float(np.sqrt((self.relative**2).sum() / max(1, self.counted)))


_NO_ROWS = RowErrors(np.zeros(0), np.zeros(0), np.zeros(0), 0, 0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class LseErrors:
    """Errors of R rows' LSE.

    Attributes:
        absolute: (R,) |lse - ref|; 0 where one of them is not finite.
        allowance: (R,) 1 + |ref| + per_reach * reach / budget, the denominator of the rule.
        mismatched: (R,) whether LSE is finite on one side only, or not the infinity of the reference. Where the reference is
            NaN, an infinity is right too: upstream FlashAttention writes one (``softmax.h`` ``normalize_softmax_lse``).
    """

    absolute: F64
    allowance: F64
    mismatched: Bools

    @classmethod
    def join(cls, parts: Sequence[LseErrors]) -> LseErrors:
        """The errors of all parts' rows, in order."""
        none = cls(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))
        return cls(*(np.concatenate([getattr(part, f.name) for part in (*parts, none)]) for f in fields(cls)))


def lse_errors(actual: Array, reference: RowResult, per_reach: float) -> LseErrors:
    """Errors of ``actual`` (R,); ``per_reach`` is the error of LSE that a score's size allows, over the budget."""
    got, expected = actual.astype(np.float64), reference.lse
    comparable = np.isfinite(got) & np.isfinite(expected)
    absolute = np.abs(np.subtract(got, expected, where=comparable, out=np.zeros_like(expected)))
    reach = np.where(np.isfinite(reference.reach), reference.reach, 0.0)
    allowance = 1 + np.abs(np.where(comparable, expected, 0.0)) + per_reach * reach
    infinite = np.isinf(expected) & (got != expected)
    return LseErrors(absolute, allowance, (np.isfinite(got) != np.isfinite(expected)) | infinite)


def floors(
    problem: Problem,
    reference: RowResult,
    dim: int,
    *,
    flushes: bool = False,
    sums: float = F32_EPS,
    scores: bool = True,
    half_steps: float = 1.0,
) -> F64:
    """(R,) the floor of each row's scale; ``flushes``: the matrix unit treats subnormal P as zero; ``sums``: its error of a sum.
    Without ``scores``, their errors are left out; ``half_steps`` as in ``Budget``."""
    eps = eps_of(problem)
    # two roundings of an exponent that is as large in all keys of the row, so their errors may be equal
    below = 2 * F32_EPS * reference.below / eps
    terms = F32_EPS * np.sqrt(reference.visible) / eps + below
    if scores:
        terms = terms + score_error(problem, sums) * near_reach(problem, reference.reach) / eps
    size = np.sqrt(squares(reference.o))
    floor: F64 = reference.noise * (1 + terms) + size * below + dim**0.5 * HALF_STEP[problem.dtype_out] / eps
    floor += reference.width * half_steps * HALF_STEP[problem.dtype] / eps
    return floor + reference.lost / eps if flushes else floor


def row_errors(
    actual: Array,
    expected: F64,
    floor: F64,
    limit: float,
    leaks: Bools | None = None,
    swing: F64 | None = None,
    bare: F64 | None = None,
    alike: F64 | None = None,
) -> RowErrors:
    """Errors of ``actual`` (R, d) against ``expected`` (R, d); above ``limit`` the storage type overflows.

    Args:
        leaks: (R, d) elements that may be NaN.
        swing: (R,) the part of each row's error that the rounding of its scores explains, which does not count.
        bare: (R,) the floor without errors of scores, which never turn an answer into zeros.
        alike: (R,) numbers above 0 of rows whose largest weight is below 1: where they are equal, P is rounded alike.
    """
    count = len(expected)
    relative, mismatched, answers = np.zeros(count), np.zeros(count), np.zeros(count)
    probe = np.random.Generator(np.random.PCG64(0)).standard_normal(expected.shape[1])
    counted, leaked, worst = 0, 0, (0.0, 0.0, 1.0)
    swing, bare = np.zeros(count) if swing is None else swing, floor if bare is None else bare
    floor, bare = (np.where(np.isfinite(x), x, np.finfo(np.float64).tiny) for x in (floor, bare))
    swing = np.where(np.isfinite(swing), swing, 0.0)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        want, got = expected[part], actual[part].astype(np.float64)
        other = wrong_kind(got, want, limit)
        if leaks is not None:
            leaked += int((leaks[part] & np.isnan(got) & other).sum())
            other &= ~(leaks[part] & np.isnan(got))
        mismatched[part] = other.sum(axis=1)
        comparable = np.isfinite(got) & np.isfinite(want)
        absolute = np.abs(np.subtract(got, want, where=comparable, out=np.zeros_like(want)))
        size = np.abs(np.where(comparable, want, 0.0))
        some = got.any(axis=1)
        explained = np.where(some, swing[part], 0.0)
        scale = np.maximum(np.linalg.norm(size, axis=1), np.where(some, floor[part], bare[part]))
        relative[part] = np.maximum(np.linalg.norm(absolute, axis=1) - explained, 0.0) / scale
        counted += int((size.any(axis=1) | (relative[part] > 0)).sum())
        # a random projection in single precision: equal for equal rows, whose float64 sums may differ in the last bits
        answers[part] = (np.where(comparable, want, 0.0) @ probe).astype(np.float32)
        if absolute.size:
            absolute = np.maximum(absolute - explained[:, None], 0.0)
            allowance = size + (scale / expected.shape[1] ** 0.5)[:, None]
            quotient = absolute / allowance
            at = int(quotient.argmax())
            worst = max(worst, (float(quotient.flat[at]), float(absolute.flat[at]), float(allowance.flat[at])))
    if alike is not None:
        answers = np.where((alike > 0) & (answers != 0), -alike, answers)
    return RowErrors(relative, mismatched, answers, counted, leaked, *worst)


ONE_HOT = 1 - 2.0**-11
"""If the largest probability of a row is above this, a 16-bit output shows nothing of the other keys."""

_ONE_HOT_FILLS = ("large", "pointer")

_FEW = 64
"""With fewer elements, the integer fills may by chance give outputs of zeros, or rows of V that are all equal."""


@dataclass(frozen=True)
class Worth:
    """How much the right answer of some rows would show about a kernel.

    Attributes:
        elements: number of elements of O.
        seen: whether any row sees a key.
        finite: whether any row that sees a key has a finite element.
        nonzero: whether any row that sees a key has an element other than zero.
        varied: whether rows of V differ.
        choice: whether any row sees two keys or more.
        soft: whether the softmax of such a row is not one-hot.
    """

    elements: int
    seen: bool
    finite: bool
    nonzero: bool
    varied: bool
    choice: bool
    soft: bool

    @classmethod
    def of(cls, reference: Reference) -> Worth:
        """The worth of a reference's rows."""
        seen, choice = reference.visible > 0, reference.visible > 1
        o, peak = reference.o[seen], reference.peak[choice]
        return cls(
            elements=reference.o.size,
            seen=bool(seen.any()),
            finite=bool(np.isfinite(o).any()),
            nonzero=bool(o.any()),
            varied=not reference.flat_v,
            choice=bool(choice.any()),
            soft=bool((peak <= ONE_HOT).any()),
        )

    @classmethod
    def join(cls, parts: Iterable[Worth]) -> Worth:
        """The worth of all parts together."""
        found = [cls(0, False, False, False, False, False, False), *parts]
        flags = {f.name: any(getattr(part, f.name) for part in found) for f in fields(cls) if f.name != "elements"}
        return cls(sum(part.elements for part in found), **flags)


def distrust_of(worth: Worth, fill: str) -> str | None:
    """Why a pass would prove little: the data let wrong kernels give the right answer. None if a pass is trusted.

    A problem without any visible pair has zeros as its only right answer, so its pass is trusted. The pass of a
    problem whose rows see at most one key is trusted too: its softmax is one-hot for every kernel. The fills ``large`` and
    ``pointer`` are one-hot on purpose and exempt from that reason.
    """
    if not worth.seen:
        return None
    if not worth.finite:
        return "no element of the right answer is finite: a kernel that writes only NaN passes"
    if worth.elements >= _FEW:
        if not worth.nonzero:
            return "the right answer is zero in every element: a kernel that does nothing passes"
        if not worth.varied:
            return "all rows of V are equal: any softmax gives the same output"
    if fill not in _ONE_HOT_FILLS and worth.choice and not worth.soft:
        return "the softmax is one-hot in every row: the weights of the other keys are not tested"
    return None

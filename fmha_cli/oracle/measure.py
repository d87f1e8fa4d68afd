"""Errors in units of the rounding errors of an honest kernel: the numbers that ``tolerance`` limits.

The scale of row r is max(|ref_r|, floor_r), with the floor ::

    floor_r = noise_r * (1 + 2^-24 * (reach_r + sqrt(visible_r)) / eps) + (sqrt(d) + width_r) * half_step / eps

- noise_r = sqrt(sum_j p_j^2 |v_j|^2) is the error that independent rounding errors of P leave in a row, even if its terms
  cancel. For ordinary 16-bit data it is close to |ref_r|.
- reach_r / 2^24 is the error of float32 scores, and sqrt(visible_r) / 2^24 the error of float32 sums.
- half_step is the absolute error of a number that is too small for a relative error. An output row has sqrt(d) such
  errors, and width_r = sqrt(visible_r) max |v_j| / sum_j exp(s_j - max s) / (1 - dropout) come from P.

Rotary kernels in 16 bits keep rotated queries, cosines and sines in 16 bits: reach_r / 2^24 becomes reach_r * (2^-24 + eps / sqrt(d))
(``score_error``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.budgets import EPS, HALF_STEP, eps_of
from fmha_cli.oracle.reference import RowResult
from fmha_cli.oracle.tensors import F64, Array

F32_EPS = 2.0**-24

_CHUNK = 4096
"""Rows compared at a time, so that a comparison needs little memory besides the tensors."""

_NEAR = 2.0**-6


@dataclass(frozen=True)
class RowErrors:
    """Errors of R rows against a reference.

    Elements that are not finite on either side count only in ``mismatched``.

    Attributes:
        relative: (R,) |o - ref| / scale.
        mismatched: (R,) number of elements that are finite on one side only.
        counted: rows whose answer is not zero throughout.
        element: the largest |o - ref| / (|ref| + scale / sqrt(d)) of any element.
        absolute: its numerator.
        allowance: its denominator.
    """

    relative: F64
    mismatched: F64
    counted: int
    element: float
    absolute: float
    allowance: float

    @property
    def rms(self) -> float:
        """Root mean square of ``relative`` over the counted rows."""
        with np.errstate(over="ignore"):
            return float(np.sqrt((self.relative**2).sum() / max(1, self.counted)))


def score_error(problem: Problem) -> float:
    """The size of a score's error, in units of ``reach``.

    It is that of single precision. With rotary embedding in 16 bits, the error of an inner product whose d terms have
    independent errors of eps is added.
    """
    rotated = problem.rotary.dim > 0 and problem.dtype in (DType.FP16, DType.BF16)
    return F32_EPS + (EPS[problem.dtype] / problem.hdim**0.5 if rotated else 0.0)


def floors(problem: Problem, reference: RowResult, dim: int, *, flushes: bool = False) -> F64:
    """(R,) the floor of each row's scale; ``flushes``: the matrix unit treats subnormal P as zero."""
    eps = eps_of(problem)
    scores = (score_error(problem) * reference.reach + F32_EPS * np.sqrt(reference.visible)) / eps
    floor: F64 = reference.noise * (1 + scores) + dim**0.5 * HALF_STEP[problem.dtype_out] / eps
    floor += reference.width * HALF_STEP[problem.dtype] / eps
    return floor + reference.lost / eps if flushes else floor


def row_errors(actual: Array, expected: F64, floor: F64, limit: float) -> RowErrors:
    """Errors of ``actual`` (R, d) against ``expected`` (R, d); above ``limit`` the storage type overflows."""
    count = len(expected)
    relative, mismatched = np.zeros(count), np.zeros(count)
    counted, worst = 0, (0.0, 0.0, 1.0)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        want, got = expected[part], actual[part].astype(np.float64)
        mismatched[part] = _mismatched(got, want, limit)
        comparable = np.isfinite(got) & np.isfinite(want)
        absolute = np.abs(np.subtract(got, want, where=comparable, out=np.zeros_like(want)))
        size = np.abs(np.where(comparable, want, 0.0))
        scale = np.maximum(np.linalg.norm(size, axis=1), floor[part])
        relative[part] = np.linalg.norm(absolute, axis=1) / scale
        counted += int(size.any(axis=1).sum())
        if absolute.size:
            allowance = size + (scale / expected.shape[1] ** 0.5)[:, None]
            quotient = absolute / allowance
            at = int(quotient.argmax())
            worst = max(worst, (float(quotient.flat[at]), float(absolute.flat[at]), float(allowance.flat[at])))
    return RowErrors(relative, mismatched, counted, *worst)


def _mismatched(got: F64, want: F64, limit: float) -> F64:
    """(R,) number of elements that are finite on one side only. Near overflow of the storage type both are right."""
    size = np.abs(want)
    certain = ~np.isfinite(want) | (size <= limit * (1 - _NEAR)) | (size > limit * (1 + _NEAR))
    finite = np.isfinite(want) & (size <= limit)
    return np.asarray(((np.isfinite(got) != finite) & certain).sum(axis=1), np.float64)

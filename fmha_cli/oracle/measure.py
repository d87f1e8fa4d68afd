"""Errors in units of what the rounding of an honest kernel explains: the numbers that ``tolerance`` limits.

The scale of row r is max(|ref_r|, floor_r), with the floor ::

    floor_r = noise_r * (1 + 2^-24 * (reach_r + sqrt(visible_r)) / eps) + (sqrt(d) + width_r) * half_step / eps

noise_r = sqrt(sum_j p_j^2 |v_j|^2) is what independent rounding errors of P leave in a row even when its terms
cancel; reach_r / 2^24 the error of float32 scores; sqrt(visible_r) / 2^24 that of float32 sums; half_step the
absolute rounding error of a subnormal number, of which an output row has sqrt(d) and width_r = sqrt(visible_r) max |v_j|
/ sum_j exp(s_j - max s) come from P. For ordinary 16-bit data noise_r is close to |ref_r|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fmha_cli.oracle.budgets import HALF_STEP, eps_of
from fmha_cli.oracle.reference import RowResult
from fmha_cli.oracle.tensors import F64, Array
from fmha_cli.problem import Problem

F32_EPS = 2.0**-24


@dataclass(frozen=True)
class RowErrors:
    """Errors of R rows against a reference.

    relative (R,): |o - ref| / scale; element (R, d): |o - ref| / (|ref| + scale / sqrt(d)); absolute (R, d);
    allowance (R, d): the denominator of ``element``; mismatched (R,): elements finite on one side only, by
    row; counted: rows whose answer is not zero throughout. Elements that are not finite on either side count as
    error-free in the others.
    """

    relative: F64
    element: F64
    absolute: F64
    allowance: F64
    mismatched: F64
    counted: int

    @property
    def rms(self) -> float:
        """Root mean square of ``relative`` over the counted rows."""
        with np.errstate(over="ignore"):
            return float(np.sqrt((self.relative**2).sum() / max(1, self.counted)))


def floors(problem: Problem, reference: RowResult, dim: int) -> F64:
    """(R,) the floor of each row's scale."""
    eps = eps_of(problem)
    float32: F64 = F32_EPS * (reference.reach + np.sqrt(reference.visible)) / eps
    floor: F64 = reference.noise * (1 + float32) + dim**0.5 * HALF_STEP[problem.dtype_out] / eps
    floor += reference.width * HALF_STEP[problem.dtype] / eps
    return floor


def row_errors(actual: Array, expected: F64, floor: F64, limit: float) -> RowErrors:
    """Errors of ``actual`` (R, d) against ``expected`` (R, d); above ``limit`` the storage type overflows."""
    got = actual.astype(np.float64)
    # a reference near the type's largest value may round to either side of overflow
    overflows = np.abs(expected) > limit * (1 + 2.0**-6)
    may_overflow = np.abs(expected) > limit * (1 - 2.0**-6)
    finite = np.isfinite(expected) & ~overflows
    wrong = np.isfinite(got) != finite
    wrong &= ~(may_overflow & ~overflows & np.isfinite(expected))
    comparable = np.isfinite(got) & np.isfinite(expected)
    absolute = np.abs(np.subtract(got, expected, where=comparable, out=np.zeros_like(expected)))
    size = np.abs(np.where(comparable, expected, 0.0))
    scale = np.maximum(np.linalg.norm(size, axis=1), floor)
    allowance = size + (scale / max(1, expected.shape[1]) ** 0.5)[:, None]
    relative = np.linalg.norm(absolute, axis=1) / scale
    counted = int(size.any(axis=1).sum())
    return RowErrors(relative, absolute / allowance, absolute, allowance, wrong.sum(axis=1).astype(np.float64), counted)

"""The largest error that an honest kernel may have: measured constants from ``budgets.json``.

Every constant is a multiple of eps, the unit roundoff of the coarser of the input and output type, except
``lse``. Each entry carries the measurement behind it: ``used`` is the largest share of the budget that an honest
run took (``tests/checks/tolerance.py``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.tensors import F64, Bools

EPS = {
    DType.FP32: 2.0**-24,
    DType.FP16: 2.0**-11,
    DType.BF16: 2.0**-8,
    DType.FP8_E4M3: 2.0**-4,
    DType.FP8_E5M2: 2.0**-3,
    DType.MXFP8: 2.0**-4,
    DType.MXFP4: 2.0**-2,
}
"""Unit roundoff: the largest relative error of one rounding to nearest."""

HALF_STEP = {
    DType.FP32: 2.0**-126,
    DType.FP16: 2.0**-25,
    DType.BF16: 2.0**-126,
    DType.FP8_E4M3: 2.0**-10,
    DType.FP8_E5M2: 2.0**-17,
    DType.MXFP8: 2.0**-18,
    DType.MXFP4: 2.0**-4,
}
"""Largest absolute error of a number that is too small for a relative one: half a step of subnormal fp16 or fp8; for MX types
half a step of a block whose largest weight is 1. fp32 and bf16 kernels may treat a number below the smallest normal one as zero (every fast exp2 and the matrix units do)."""

LEAST_NORMAL = {DType.FP16: 2.0**-14}
"""Smallest normal number of the types whose subnormal numbers a softmax can reach. An architecture that states
``matrix_flushes_subnormals`` may lose smaller values."""

F32_EPS = EPS[DType.FP32]

SCORE_SPREAD = 4.0
"""The largest error of a score, or of a row's LSE, as a multiple of ``score_error``, which is the usual one. No budget multiplies it.

Scores that ALiBi or a bias cancels leave it visible in LSE. A float32 sum of 192 products in order came to 2.2, rotated scores
to 2.6, the converted LSE of GPU kernels with ALiBi under a causal mask to 2.5 (3000 keys).
"""

SHORT_SUMS = 2.0**-13
"""The error of the sums of 8-bit products in some matrix units (``matrix_sum_bits``), relative to the largest term."""

ANY = "*"


@dataclass(frozen=True)
class Budget:
    """The errors that the rules of ``tolerance`` allow for one output.

    Attributes:
        eps: the unit roundoff that counts.
        row: error of a row, relative to its scale, in eps.
        element: error of an element, likewise.
        rms: root mean square of the row errors in eps, for very many rows (fewer rows: ``rms_of``).
        lse: error of LSE relative to 1 + |LSE|.
        half_steps: the error of a P that is too small for a relative one, in ``HALF_STEP``: 2 where P is rounded towards zero.
    """

    eps: float
    row: float
    element: float
    rms: float
    lse: float
    half_steps: float = 1.0

    def rms_of(self, rows: int) -> float:
        """The rms budget for a sample of ``rows`` rows: few rows scatter more."""
        return float(self.rms * (1 + SMALL_SAMPLE / max(1, rows) ** 0.5))


SMALL_SAMPLE = 1.5


@cache
def _entries() -> tuple[dict[str, Any], ...]:
    text = files("fmha_cli.oracle").joinpath("budgets.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["budgets"])


def eps_of(problem: Problem) -> float:
    """The unit roundoff that counts for the problem.

    Raises:
        UnsupportedError: O003, a dtype without a measured budget.
    """
    for dtype in (problem.dtype, problem.dtype_out):
        if dtype not in EPS:
            raise UnsupportedError(f"no measured error budget for {dtype.value}", code="O003", where="--dtype")
    return max(EPS[problem.dtype], EPS[problem.dtype_out])


def score_error(problem: Problem, sums: float = F32_EPS) -> float:
    """The size of a score's error, in units of ``reach``.

    It is that of sums, which is single precision's but for some matrix units. With rotary embedding in 16 bits, the error of an inner product whose d terms have
    independent errors of eps is added.
    """
    rotated = problem.rotary.dim > 0 and problem.dtype in (DType.FP16, DType.BF16)
    return sums + (EPS[problem.dtype] / problem.hdim**0.5 if rotated else 0.0)


def largest_score_error(problem: Problem) -> float:
    """``score_error`` on the architecture that has the largest."""
    return score_error(problem, SHORT_SUMS if EPS.get(problem.dtype, 0.0) > EPS[DType.BF16] else F32_EPS)


FAR = 0.25
"""An error of a score above this may change more of a row than a budget proportional to it should allow."""


def is_far(problem: Problem, reach: F64) -> Bools:
    """(R,) whether the scores of rows are so large that their rounding may change the answer."""
    with np.errstate(over="ignore"):
        return np.asarray(SCORE_SPREAD * largest_score_error(problem) * reach > FAR)


def near_reach(problem: Problem, reach: F64) -> F64:
    """(R,) the reach that budgets may be proportional to: in far rows only that of a cap, whose tanh has its own
    rounding errors.
    """
    capped = min(problem.softcap, FAR / (SCORE_SPREAD * F32_EPS)) if problem.softcap > 0 else 0.0
    return np.where(is_far(problem, reach), np.minimum(capped, np.nan_to_num(reach)), reach)


def steepness(problem: Problem) -> float:
    """How much more an error of a score counts in gradients with a cap: it moves the logarithm of the cap's slope."""
    return max(1.0, 2 / problem.softcap) if problem.softcap > 0 else 1.0


def slope_unit(problem: Problem) -> float:
    """The largest factor that kernels may leave out of dS: with a cap they may keep it in units of scale / cap and multiply the
    sums by the cap (upstream FlashAttention, ``flash_bwd_kernel.h`` ``calculate_dtanh``).
    """
    return max(abs(problem.scale), problem.softcap)


def budget_of(problem: Problem, tensor: str = "o", family: str = ANY, backend: str = ANY) -> Budget:
    """The most specific entry for (tensor, family, dtype, backend); ``*`` in the file matches everything.

    Raises:
        UnsupportedError: O003, no entry matches.
    """
    eps = eps_of(problem)
    dtype = max((problem.dtype, problem.dtype_out), key=lambda d: EPS[d])
    wanted = {"tensor": tensor, "dtype": dtype.value, "family": family, "backend": backend}
    matching = [e for e in _entries() if all(e[key] in (ANY, value) for key, value in wanted.items())]
    if not matching:
        raise UnsupportedError(f"no measured error budget for {tensor} in {dtype.value}", code="O003", where="--dtype")
    best = max(matching, key=lambda e: [e[key] != ANY for key in ("backend", "family")])
    row, element, rms, lse = (float(best[key]) for key in ("row", "element", "rms", "lse"))
    return Budget(eps, row, element, rms, lse, float(best.get("half_steps", 1.0)))

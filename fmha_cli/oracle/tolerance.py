"""The rules by which an output is accepted; all of them must hold (``docs/numerics.md`` has the measurement).

1. row:      every row's |o - ref| <= budget.row * eps * scale (``measure`` defines the scale and its floor);
2. element:  every element's |o - ref| <= budget.element * eps * (|ref| + scale / sqrt(d));
3. rms:      the root mean square of rule 1's quotient over all rows stays within budget.rms * eps;
4. finite:   an element is non-finite exactly where the reference is (or where it overflows the output type);
5. LSE:      |lse - ref| <= budget.lse * (1 + |ref|) + 2^-24 * reach, and -inf exactly where expected; with rotary embedding in
             16 bits, 2^-24 + 4 eps / sqrt(d) (``measure.score_error``; up to 2.6 eps / sqrt(d) was measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.domain.verdict import Check, Comparison
from fmha_cli.oracle.budgets import ANY, HALF_STEP, Budget, budget_of
from fmha_cli.oracle.diagnose import diagnose, distrust_of
from fmha_cli.oracle.gradients import Gradients
from fmha_cli.oracle.measure import F32_EPS, RowErrors, floors, row_errors, score_error
from fmha_cli.oracle.reference import Reference
from fmha_cli.oracle.rows import Rows
from fmha_cli.oracle.tensors import F64, Array, numpy_dtype

LSE_SPREAD = 4.0
"""The largest error of a row's LSE as a multiple of a rotated score's error. No budget multiplies it."""


def compare(
    problem: Problem,
    o: Array,
    lse: Array | None,
    reference: Reference,
    *,
    fill: str = "normal",
    family: str = ANY,
    backend: str = ANY,
    flushes: bool = False,
    cache: dict[str, Array] | None = None,
) -> Comparison:
    """Judge a kernel's output on the reference's rows.

    Args:
        o: in dtype_out and layout_out, in the shape that ``fmha_cli.domain.tensors`` gives.
        lse: natural logarithm, or None if the kernel returns none.
        fill: name of the data, for the record. Under ``coded``, a note can name a wrong key.
        family, backend: select the budget.
        flushes: the device's matrix unit treats subnormal numbers as zero.
        cache: k and v after an append, if the kernel appends.

    Raises:
        UnsupportedError: O003, a dtype without a budget.
    """
    rows = reference.rows
    budget = budget_of(problem, "o", family, backend)
    got = rows.take(problem, o, problem.layout_out)
    limit = largest(Element.of(problem.dtype_out))
    errors = row_errors(got, reference.o, floors(problem, reference, problem.hdim_v, flushes=flushes), limit)
    check, worst = output_check(errors, budget, fill, rows)
    checks: list[tuple[str, Check]] = [("o", check)]
    notes = [] if check.passed else diagnose(problem, got, reference, fill, worst)
    if lse is not None:
        per_reach = F32_EPS + LSE_SPREAD * (score_error(problem) - F32_EPS)
        checks.append(("lse", lse_check(rows.take(problem, lse), reference, budget, fill, per_reach)))
    for name, tensor in (cache or {}).items():
        checks.append((name, cache_check(tensor, reference.cache[name], budget, fill)))
    return Comparison(checks=tuple(checks), distrust=distrust_of(problem, reference, fill), notes=tuple(notes))


def compare_gradients(
    problem: Problem,
    outputs: Mapping[str, Array],
    gradients: Gradients,
    *,
    fill: str = "normal",
    family: str = ANY,
    backend: str = ANY,
    flushes: bool = False,
) -> Comparison:
    """Judge dq, dk, dv and dbias (those that ``outputs`` holds) by rules 1 to 4; a row is the last axis, in dbias one element.
    ``flushes`` as in ``compare``.

    Raises:
        UnsupportedError: O003, a dtype without a budget.
    """
    limit = largest(Element.of(problem.dtype))
    keys = np.sqrt(max(problem.seqlen_q, problem.seqlen_k))
    checks, nonzero = [], False
    for name, actual in outputs.items():
        expected, noise = getattr(gradients, name), gradients.noise[name]
        budget = budget_of(problem, name, family, backend)
        dim = 1 if name == "dbias" else expected.shape[-1]  # every element of dbias is a separate sum
        floor = noise * (1 + F32_EPS * (gradients.reach + keys) / budget.eps)
        floor += (dim**0.5 + gradients.widths[name]) * HALF_STEP[problem.dtype] / budget.eps
        if flushes and name in gradients.lost:  # dS goes into dBias without a matrix product
            floor = floor + gradients.lost[name] / budget.eps
        errors = row_errors(actual.reshape(-1, dim), expected.reshape(-1, dim), floor.reshape(-1), limit)
        check, worst = output_check(errors, budget, fill, None)
        at = ", ".join(str(n) for n in np.unravel_index(worst, noise.shape)) if check.rows else ""
        checks.append((name, replace(check, worst=f"{name}[{at}]")))
        nonzero = nonzero or bool(expected.any())
    distrust = (
        None if nonzero or not problem.visible_pairs() else "every gradient is zero: a kernel that does nothing passes"
    )
    return Comparison(checks=tuple(checks), distrust=distrust)


def largest(element: Element) -> float:
    """The largest finite number of a storage type."""
    finfo: Any = ml_dtypes.finfo
    return float(finfo(numpy_dtype(element)).max)


def output_check(errors: RowErrors, budget: Budget, fill: str, rows: Rows | None) -> tuple[Check, int]:
    """Rules 1 to 4 for one output, and the number of the worst row."""
    n, eps = len(errors.relative), budget.eps
    worst, at = 0, None
    if n:
        worst = int((errors.mismatched * 1e30 + errors.relative / budget.row).argmax())
        at = rows.name(worst) if rows is not None else f"row {worst}"
    check = Check(
        row_l2=float(errors.relative.max(initial=0.0)),
        row_l2_budget=budget.row * eps,
        max_abs=errors.absolute,
        max_abs_budget=errors.allowance * budget.element * eps,
        rms=errors.rms,
        rms_budget=budget.rms_of(errors.counted) * eps,
        nonfinite=int(errors.mismatched.sum()),
        rows=n,
        fill=fill,
        worst=at,
    )
    return check, worst


def lse_check(actual: Array, reference: Reference, budget: Budget, fill: str, per_reach: float = F32_EPS) -> Check:
    """Rule 5. ``row_l2`` is max |lse - ref| / (1 + |ref| + per_reach * reach / budget)."""
    got, expected = actual.astype(np.float64), reference.lse
    same_kind = (np.isfinite(got) == np.isfinite(expected)) & (np.isneginf(got) == np.isneginf(expected))
    comparable = np.isfinite(got) & np.isfinite(expected)
    absolute = np.abs(np.subtract(got, expected, where=comparable, out=np.zeros_like(expected)))
    allowance = 1 + np.abs(np.where(comparable, expected, 0.0)) + per_reach * reference.reach / budget.lse
    quotient = absolute / allowance
    worst = int((quotient + ~same_kind * 1e30).argmax()) if len(got) else None
    return Check(
        row_l2=float(quotient.max(initial=0.0)),
        row_l2_budget=budget.lse,
        max_abs=0.0 if worst is None else float(absolute[worst]),
        max_abs_budget=0.0 if worst is None else float(allowance[worst]) * budget.lse,
        nonfinite=int((~same_kind).sum()),
        rows=len(got),
        fill=fill,
        worst=None if worst is None else reference.rows.name(worst),
    )


def cache_check(actual: Array, expected: Array, budget: Budget, fill: str) -> Check:
    """A cache after the append, with the budgets of O (a kernel rotates in float32), and NaN where it was NaN."""
    got, want = (x.astype(np.float64).reshape(-1, x.shape[-1]) for x in (actual, expected))
    size: F64 = np.maximum(np.linalg.norm(np.nan_to_num(want), axis=1), np.finfo(np.float64).tiny)
    errors = row_errors(got, want, size, np.inf)
    return output_check(errors, budget, fill, None)[0]

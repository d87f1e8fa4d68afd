"""The rules of acceptance for an output; all of them must hold (``results/judging.md`` has the measurement).

Errors that the rounding of very large scores explains (``RowResult.swing``) do not count; they never explain a row of zeros.

1. row:      every row's |o - ref| <= budget.row * eps * scale (``measure`` defines the scale and its floor);
2. element:  every element's |o - ref| <= budget.element * eps * (|ref| + scale / sqrt(d));
3. rms:      the root mean square of rule 1's quotient over all rows stays within budget.rms * eps;
4. finite:   an element is finite, NaN or infinite where the reference is (or non-finite where it overflows the output type;
             NaN may replace an infinity, and may leak from a hidden V: ``Reference.leaks``);
5. LSE:      |lse - ref| <= budget.lse * (1 + |ref|) + 4 * 2^-24 * reach, not finite exactly where expected; with rotary embedding
             in 16 bits, 4 * (2^-24 + eps / sqrt(d)) (``budgets.score_error``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from fmha_cli.domain.dtypes import KvDType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.domain.verdict import Check, Comparison
from fmha_cli.oracle.budgets import ANY, F32_EPS, HALF_STEP, SCORE_SPREAD, Budget, budget_of, score_error
from fmha_cli.oracle.coded import code, decode_coded, key_id, key_of
from fmha_cli.oracle.fills import CODED
from fmha_cli.oracle.gradients import Gradients
from fmha_cli.oracle.measure import LseErrors, RowErrors, Worth, distrust_of, floors, lse_errors, row_errors
from fmha_cli.oracle.reference import Reference, squares
from fmha_cli.oracle.rows import Rows
from fmha_cli.oracle.tensors import F64, Array, largest


class RightAnswer(Protocol):
    """The right answer for some rows, which may be too large to hold at once; ``cache`` is k and v after an append."""

    @property
    def cache(self) -> dict[str, Array]: ...

    def pieces(self) -> Iterator[Reference]: ...


def compare(
    problem: Problem,
    o: Array,
    lse: Array | None,
    reference: RightAnswer,
    *,
    fill: str = "normal",
    family: str = ANY,
    backend: str = ANY,
    flushes: bool = False,
    sums: float = F32_EPS,
    cache: dict[str, Array] | None = None,
) -> Comparison:
    """Judge a kernel's output on the reference's rows.

    Args:
        o: in dtype_out and layout_out, in the shape that ``fmha_cli.domain.tensors`` gives.
        lse: natural logarithm, or None if the kernel returns none.
        fill: name of the data, for the record. Under ``coded``, a note can name a wrong key.
        family, backend: select the budget.
        flushes: the device's matrix unit treats subnormal numbers as zero.
        sums: the error of its sums, relative to the largest term.
        cache: k and v after an append, if the kernel appends.

    Raises:
        UnsupportedError: O003, a dtype without a budget.
    """
    budget = budget_of(problem, "o", family, backend)
    total = problem.heads * sum(problem.query_lengths())
    limit = largest(Element.of(problem.dtype_out, problem.fp8_encoding))
    per_reach = SCORE_SPREAD * score_error(problem, sums) / budget.lse
    rows, errors, lse_parts, worths, undecided = [], [], [], [], 0
    suspect: tuple[float, Array, Reference, int] | None = None
    for piece in reference.pieces():
        got = piece.rows.take(problem, o, problem.layout_out)
        floor, bare = (
            floors(
                problem, piece, problem.hdim_v, flushes=flushes, sums=sums, scores=scores, half_steps=budget.half_steps
            )
            for scores in (True, False)
        )
        alike = np.ceil(piece.below / budget.eps)  # the largest P is exp(-below), and equal ones are rounded alike
        found = row_errors(got, piece.o, floor, limit, piece.leaks, piece.swing, bare, alike)
        if lse is not None:
            lse_parts.append(lse_errors(piece.rows.take(problem, lse), piece, per_reach))
        undecided += int((piece.swing > budget.row * budget.eps * np.linalg.norm(piece.o, axis=1)).sum())
        severity, worst = worst_row(found, budget)
        if suspect is None or severity > suspect[0]:
            suspect = severity, got, piece, worst
        rows.append(piece.rows)
        errors.append(found)
        worths.append(Worth.of(piece))
    judged, joined = Rows.join(rows), RowErrors.join(errors)
    check = output_check(joined, budget, fill, judged, total)
    if suspect is not None and check.rows:
        check = replace(check, column=worst_column(suspect[1][suspect[3]], suspect[2].o[suspect[3]]))
    checks: list[tuple[str, Check]] = [("o", check)]
    notes = [] if check.passed or suspect is None else diagnose(problem, *suspect[1:], fill)
    notes += [_describe_leak("o", joined.leaked)] if joined.leaked else []
    notes += [f"{undecided} of {len(judged)} rows of o depend on how single precision rounds their scores"] * (
        undecided > 0
    )
    if lse is not None:
        checks.append(("lse", lse_check(LseErrors.join(lse_parts), budget, fill, judged, total)))
    for name, tensor in (cache or {}).items():
        cached, words = cache_check(name, tensor, reference.cache[name], cache_budget(problem, budget), fill)
        checks.append((name, cached))
        notes += words
    return Comparison(
        checks=tuple(checks),
        distrust=distrust_of(Worth.join(worths), fill),
        notes=tuple(notes),
    )


def _describe_leak(name: str, count: int) -> str:
    cause = "a key that the row does not see has a V" if name == "o" else "a pair without weight has an input"
    return f"{count} elements of {name} are NaN because {cause} that is not finite (0 * NaN)"


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
    """Judge dq, dk, dv and dbias (the ones that ``outputs`` holds) by rules 1 to 4; a row is the last axis, in dbias
    one element. ``flushes`` as in ``compare``.

    Raises:
        UnsupportedError: O003, a dtype without a budget.
    """
    limit = largest(Element.of(problem.dtype))
    keys = np.sqrt(max(problem.seqlen_q, problem.seqlen_k))
    checks, notes, nonzero, finite = [], [], False, False
    for name, actual in outputs.items():
        expected, noise = getattr(gradients, name), gradients.noise[name]
        budget = budget_of(problem, name, family, backend)
        dim = 1 if name == "dbias" else expected.shape[-1]  # every element of dbias is a separate sum
        below = 2 * F32_EPS * gradients.below / budget.eps
        bare = noise * (1 + F32_EPS * keys / budget.eps + below)
        bare += (dim**0.5 + gradients.widths[name]) * HALF_STEP[problem.dtype] / budget.eps
        bare += below * np.sqrt(squares(expected.reshape(-1, dim))).reshape(noise.shape)
        if flushes and name in gradients.lost:  # dS goes into dBias without a matrix product
            bare += gradients.lost[name] / budget.eps
        floor = bare + noise * F32_EPS * gradients.reach / budget.eps
        want, leaks = expected.reshape(-1, dim), gradients.leaks.get(name)
        leaks = None if leaks is None else np.broadcast_to(leaks.reshape(-1, 1), want.shape)
        swing = gradients.swing[name].reshape(-1)
        errors = row_errors(actual.reshape(-1, dim), want, floor.reshape(-1), limit, leaks, swing, bare.reshape(-1))
        notes += [_describe_leak(name, errors.leaked)] if errors.leaked else []
        check, (_, worst) = output_check(errors, budget, fill, None, noise.size), worst_row(errors, budget)
        at = ", ".join(str(n) for n in np.unravel_index(worst, noise.shape)) if check.rows else ""
        column = worst_column(actual.reshape(-1, dim)[worst], want[worst]) if check.rows and dim > 1 else None
        checks.append((name, replace(check, worst=f"{name}[{at}]", column=column)))
        nonzero, finite = nonzero or bool(expected.any()), finite or bool(np.isfinite(expected).any())
    distrust = None if nonzero else "every gradient is zero: a kernel that does nothing passes"
    distrust = distrust if finite else "no gradient is finite: a kernel that writes only NaN passes"
    distrust = distrust if problem.visible_pairs() else None
    return Comparison(checks=tuple(checks), distrust=distrust, notes=tuple(notes))


def worst_row(errors: RowErrors, budget: Budget) -> tuple[float, int]:
    """A measure of the worst row, and its number; (0, 0) without rows."""
    if not len(errors.relative):
        return 0.0, 0
    severity = errors.mismatched * 1e30 + errors.relative / budget.row
    worst = int(severity.argmax())
    return float(severity[worst]), worst


def worst_column(got: Array, want: F64) -> int:
    """The element of a row (d,) with the largest error; one of another kind (finite, NaN, infinite) counts as infinite."""
    row = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(row - want)
    error[(row == want) | (np.isnan(row) & np.isnan(want))] = 0.0
    return int(np.where(np.isnan(error), np.inf, error).argmax())


def output_check(errors: RowErrors, budget: Budget, fill: str, rows: Rows | None, total: int) -> Check:
    """Rules 1 to 4 for one output, which has ``total`` rows."""
    n, eps, at = len(errors.relative), budget.eps, None
    if n:
        worst = worst_row(errors, budget)[1]
        at = rows.name(worst) if rows is not None else f"row {worst}"
    return Check(
        row_l2=float(errors.relative.max(initial=0.0)),
        row_l2_budget=budget.row * eps,
        max_abs=errors.absolute,
        max_abs_budget=errors.allowance * budget.element * eps,
        rms=errors.rms,
        rms_budget=budget.rms_of(errors.distinct) * eps,
        nonfinite=int(errors.mismatched.sum()),
        rows=n,
        rows_total=total,
        fill=fill,
        worst=at,
    )


def lse_check(errors: LseErrors, budget: Budget, fill: str, rows: Rows, total: int) -> Check:
    """Rule 5 for ``rows`` of ``total``. ``row_l2`` is the largest error over its allowance."""
    quotient = errors.absolute / errors.allowance
    worst = int((quotient + errors.mismatched * 1e30).argmax()) if len(quotient) else None
    return Check(
        row_l2=float(quotient.max(initial=0.0)),
        row_l2_budget=budget.lse,
        max_abs=0.0 if worst is None else float(errors.absolute[worst]),
        max_abs_budget=0.0 if worst is None else float(errors.allowance[worst]) * budget.lse,
        nonfinite=int(errors.mismatched.sum()),
        rows=len(quotient),
        rows_total=total,
        fill=fill,
        worst=None if worst is None else rows.name(worst),
    )


def cache_budget(problem: Problem, budget: Budget) -> Budget:
    """The budget of a cache after an append: that of O, with the unit roundoff of the cache's own type."""
    eps = {KvDType.INT8: 2.0**-8, KvDType.FP8_E4M3: 2.0**-4, KvDType.FP8_E5M2: 2.0**-3}.get(
        problem.kv_dtype, budget.eps
    )
    return budget if eps <= budget.eps else replace(budget, eps=eps)


def cache_check(name: str, actual: Array, expected: Array, budget: Budget, fill: str) -> tuple[Check, list[str]]:
    """A cache after the append, with the budgets of O (a kernel rotates in float32), and NaN where it was NaN.

    A record has no place for this check, so a note says which row of the tensor is wrong.
    """
    got, want = (x.astype(np.float64).reshape(-1, x.shape[-1]) for x in (actual, expected))
    size: F64 = np.maximum(np.linalg.norm(np.nan_to_num(want), axis=1), np.finfo(np.float64).tiny)
    errors = row_errors(got, want, size, np.inf)
    check = output_check(errors, budget, fill, None, len(got))
    if check.passed:
        return check, []
    worst = ", ".join(str(n) for n in np.unravel_index(worst_row(errors, budget)[1], actual.shape[:-1]))
    wrong = int(((errors.mismatched > 0) | (errors.relative > check.row_l2_budget)).sum())
    often = f"{wrong} of {len(got)} rows differ from the reference" if wrong else "the error is spread over all rows"
    return check, [f"{name} after the append is wrong: {often}; the worst is {name}[{worst}]"]


_SAME = 2.0**-5
_ALIGNED = 0.9


def diagnose(problem: Problem, got: Array, reference: Reference, worst: int, fill: str) -> list[str]:
    """Notes about row ``worst`` of ``got`` (rows, hdim_v); empty when no cause is known.

    Under a fill whose V is coded the error points along (v_j - o) for the key j that is missing or should be masked.
    """
    row, expected = got[worst].astype(np.float64), reference.o[worst]
    name = reference.rows.name(worst)
    if not np.isfinite(row).all():
        return [f"row {name}: {int((~np.isfinite(row)).sum())} of {len(row)} elements are not finite"]
    if not row.any() and expected.any():
        return [f"row {name} is zero"]
    notes = []
    distance = np.linalg.norm(reference.o - row, axis=1)
    other = int(distance.argmin())
    if other != worst and distance[other] <= _SAME * np.linalg.norm(row):
        notes.append(f"row {name} holds the answer of row {reference.rows.name(other)}")
    if fill in CODED and not (problem.v_in_k and fill == "pointer"):  # there V is as K, whose rows point
        notes += _name_key(problem, row, expected, reference, worst)
    return notes


def _name_key(problem: Problem, row: F64, expected: F64, reference: Reference, worst: int) -> list[str]:
    b, h = int(reference.rows.b[worst]), int(reference.rows.h[worst])
    name, own = reference.rows.name(worst), h // (problem.heads // problem.kv_heads)
    exact = decode_coded(row)
    if exact is not None and exact != decode_coded(expected):
        at = key_of(problem, exact)
        return [f"row {name} is the value row of key j={at[2]} of key/value head {at[1]}, sequence {at[0]}"]
    error = row - expected
    best: tuple[float, int, int] = (0.0, 0, 0)
    for g in range(problem.kv_heads):
        codes = code(key_id(problem, b, g, np.arange(problem.key_lengths()[b])), problem.hdim_v)
        direction = codes.astype(np.float64) - expected
        sizes = np.linalg.norm(direction, axis=1) * np.linalg.norm(error)
        cosine = direction @ error / np.where(sizes > 0, sizes, 1.0)
        if len(cosine):
            j = int(np.abs(cosine).argmax())
            best = max(best, (float(cosine[j]), g, j), key=lambda x: abs(x[0]))
    cosine_best, g, j = best
    if abs(cosine_best) < _ALIGNED:
        return []
    what = "counts too much, or should be masked" if cosine_best > 0 else "is missing, or counts too little"
    where = "" if g == own else f" of key/value head {g} (its own is {own})"
    return [f"row {name}: key j={j}{where} {what}"]

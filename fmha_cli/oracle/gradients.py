"""Backward attention in float64, blocked: dQ, dK, dV and dBias.

With P the probabilities, Z the kept-and-scaled dropout factors and D_i = sum_e dO_ie O_ie ::

    dV_j = sum_i P_ij Z_ij dO_i        dP_ij = Z_ij (dO_i . V_j)        dS_ij = P_ij (dP_ij - D_i)
    dBias = dS summed over the broadcast axes
    dQ_i = scale sum_j dS_ij c_ij K_j  dK_j = scale sum_i dS_ij c_ij Q_i

c_ij = 1 - tanh^2(s / cap) with a cap, else 1. Source: Dao et al., "FlashAttention" (2022), appendix B.4; a
learned sink only enlarges the denominator of P. Where V is K's first columns, dK_j holds dV_j in those. Memory is O((rows + keys) x d + block), and dBias itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import CacheKind
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import bias_shape, shapes_of
from fmha_cli.oracle.budgets import EPS, F32_EPS, HALF_STEP, eps_of, is_far, near_reach, slope_unit, steepness
from fmha_cli.oracle.dropout import Stream, fmha_stream, keep_factor
from fmha_cli.oracle.measure import nonfinite_elements
from fmha_cli.oracle.reference import (
    SHAKES,
    Attended,
    RowResult,
    attend,
    equal_keys,
    flush_subnormals,
    latent_noise,
    squares,
)
from fmha_cli.oracle.rows import all_rows
from fmha_cli.oracle.scores import RowBlock, row_blocks
from fmha_cli.oracle.tensors import F64, Bools, Inputs, Ints, SequenceView, head_rows, product

LSE_SHARE = 0.25
"""The largest part of P that the rounding of a given LSE to single precision may take away. Scores for which that is not enough
need weights from their own largest one, which cancels exactly."""


@dataclass(frozen=True)
class Gradients:
    """float64 gradients, shaped like q, k, v (in ``layout``) and bias; dbias is None without a bias.

    Where V is in K, dk, its noise, width and lost part hold V's share too, and dv is that share alone.

    Attributes:
        noise: by name, for every row (for dbias every element): the size of the error that relative errors of the terms
            P (dP - D), and of D's own terms dO O, leave in it.
        widths: by name, for every row (for dbias one number): how far it moves if every P or dS has a random absolute error of 1.
        lost: for dq, dk and dv, in the shape of their noise: the part of a row that comes from P and dS below the
            least normal number of their type.
        reach: the largest ``RowResult.reach`` of rows that are not far; with a cap below 2, 2 / cap times it: so far an error of a
            score moves the cap's slope.
        below: the largest ``RowResult.below``.
        swing: by name, in the shape of the noise: how far the rounding of scores and LSE of far rows (``budgets.is_far``) may move it.
        shares: while adding up, the part of swing that is LSE's, whose errors in several rows are independent.
        leaks: by name, in the shape of the noise: rows that share a sequence and key/value head with an input that is not
            finite. They may be NaN: kernels compute exp(-inf - LSE) and 0 * dP for hidden keys. Empty if all is finite.
    """

    dq: F64
    dk: F64
    dv: F64
    dbias: F64 | None
    noise: dict[str, F64]
    lost: dict[str, F64]
    swing: dict[str, F64]
    shares: dict[str, F64]
    widths: dict[str, Any] = field(default_factory=dict)
    reach: float = 0.0
    below: float = 0.0
    leaks: dict[str, Bools] = field(default_factory=dict)


def backward(
    problem: Problem,
    inputs: Inputs,
    *,
    stream: Stream = fmha_stream,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Gradients:
    """Gradients of sum(O * dO); ``inputs`` holds q, k, v, do and the inputs of the forward pass.

    Args:
        stream: what dropout draws from.
        told: takes the number of query rows that are done, and of all.

    Raises:
        ImpossibleProblem: P007, a KV cache, which has no backward pass.
        UnsupportedError: O001 (the offset of a dropout stream), T001 (tensors without a form).
    """
    if problem.kv_cache.kind is not CacheKind.NONE:
        raise ImpossibleProblem(
            "--direction bwd and --kv-cache contradict each other",
            code="P007",
            where="--kv-cache",
            help="leave one of them out",
        )
    out = _zeros(problem)
    rows, reach, below, done = all_rows(problem), 0.0, 0.0, 0
    for b, g, part in rows.groups(problem):
        view = SequenceView(problem, inputs, b)
        k64, v64 = view.keys64("k", g), view.keys64("v", g)
        equal = equal_keys(problem, k64)
        for block in row_blocks(view, rows.h[part], rows.i[part]):
            with np.errstate(invalid="ignore", over="ignore"):
                forward = _block(block, g, k64, v64, stream, out, equal)
            reach = max(reach, near_reach(problem, forward.reach).max(initial=0.0))
            below, done = max(below, forward.below.max(initial=0.0)), done + len(block.i)
            told(done, len(rows))
    for squares_of in (out.noise, out.lost, out.widths, out.shares):
        for square in squares_of.values():
            np.sqrt(square, out=square)
    for name, share in out.shares.items():
        out.swing[name] += share
    out = replace(out, reach=steepness(problem) * reach, below=below, widths=_widths(problem, out.widths), shares={})
    out = replace(out, leaks=_leaks(problem, inputs, out))
    return _add_share_of_v(problem, out) if problem.v_in_k else out


def _add_share_of_v(p: Problem, out: Gradients) -> Gradients:
    """The gradients with V's share added to the columns of dK that it concerns.

    A budget spreads the noise of a row evenly over its elements. V's noise is in hdim_v of them, so it counts as that of
    a row in which all elements had it.
    """
    dk, spread = out.dk.copy(), sqrt(p.hdim / p.hdim_v)
    dk[..., : p.hdim_v] += out.dv

    def both(of: dict[str, Any]) -> dict[str, Any]:
        return of | {"dk": np.hypot(of["dk"], of["dv"] * spread)}

    noise, lost, widths, swing = (both(of) for of in (out.noise, out.lost, out.widths, out.swing))
    return replace(out, dk=dk, noise=noise, lost=lost, widths=widths, swing=swing)


def _leaks(p: Problem, inputs: Inputs, out: Gradients) -> dict[str, Bools]:
    """``Gradients.leaks``; a bias may be shared by all heads."""
    biased = "bias" in inputs and nonfinite_elements(p, {"bias": inputs["bias"]}) > 0
    if not biased and all(np.isfinite(inputs[name]).all() for name in ("q", "k", "v", "do") if name in inputs):
        return {}
    leaks = {name: np.zeros(noise.shape, np.bool_) for name, noise in out.noise.items()}
    ratio = p.heads // p.kv_heads
    for b in range(p.batch):
        view = SequenceView(p, inputs, b)
        for g in range(p.kv_heads):
            heads = range(g * ratio, (g + 1) * ratio)
            rows = [view.keys("k", g), view.keys("v", g), *(view.rows(name, h) for name in ("q", "do") for h in heads)]
            if not biased and all(np.isfinite(part).all() for part in rows):
                continue
            for name in ("dk", "dv"):
                head_rows(leaks[name], p, p.layout, p.key_lengths(), b, g)[...] = True
            for h in heads:
                head_rows(leaks["dq"], p, p.layout, p.query_lengths(), b, h)[...] = True
            for name in {"dbias"} & set(leaks):
                leaks[name][...] = True
    return leaks


def _widths(p: Problem, sizes: dict[str, F64]) -> dict[str, Any]:
    """``Gradients.widths`` from the lengths of the rows of K, Q and dO that each row of dQ, dK and dV adds up."""
    scale = slope_unit(p)
    kept = 1 / (1 - p.dropout)  # P counts so often in dV
    of_bias = sqrt(p.batch * p.heads * p.seqlen_k * (p.seqlen_q if p.bias.shape(1, 1, 2, 1)[2] == 1 else 1))
    return {"dq": scale * sizes["dq"], "dk": scale * sizes["dk"], "dv": kept * sizes["dv"], "dbias": of_bias}


def _zeros(problem: Problem) -> Gradients:
    shapes = {f"d{name}": shapes_of(problem)[name].shape for name in ("q", "k")}
    shapes["dv"] = (*shapes["dk"][:-1], problem.hdim_v)
    bias = bias_shape(problem)
    rows = {name: shape[:-1] for name, shape in shapes.items()}
    terms = rows | ({} if bias is None else {"dbias": bias})
    dq, dk, dv = map(np.zeros, shapes.values())
    return Gradients(
        dq=dq,
        dk=dk,
        dv=dv,
        dbias=None if bias is None else np.zeros(bias),
        noise={name: np.zeros(shape) for name, shape in terms.items()},
        lost={name: np.zeros(shape) for name, shape in rows.items()},
        swing={name: np.zeros(shape) for name, shape in terms.items()},
        shares={name: np.zeros(shape) for name, shape in terms.items()},
        widths={name: np.zeros(shape) for name, shape in rows.items()},
    )


def _block(block: RowBlock, g: int, k: F64, v: F64, stream: Stream, out: Gradients, equal: int) -> Attended:
    """Add the share of a block of key/value head ``g`` to ``out``, and return the answer of its rows.

    Until all blocks are done, noise, lost, widths and shares are stored as squares.
    """
    view = block.view
    p = view.problem
    kinds = (out.noise, out.lost, out.widths, out.swing, out.shares)
    of_keys = [
        head_rows(tensor, p, p.layout, p.key_lengths(), view.b, g)
        for tensor in (out.dk, out.dv, *(kind[name] for kind in kinds for name in ("dk", "dv")))
    ]
    dk, dv, dk_square, dv_square, dk_lost, dv_lost, dk_width, dv_width, dk_swing, dv_swing, dk_share, dv_share = of_keys
    forward = attend(block, k, v, stream, equal=equal)
    do = np.empty_like(forward.o)
    for head in np.unique(block.h):
        mine = block.h == head
        do[mine] = view.rows("do", int(head))[block.i[mine]]
    dot = np.einsum("rd,rd->r", do, forward.o)
    dot_noise = np.linalg.norm(do * forward.o, axis=1) + np.linalg.norm(do, axis=1) * _output_noise(p, forward)
    eps, far_rows = eps_of(p), is_far(p, forward.reach)
    known = near_reach(p, forward.reach)
    share = np.where(far_rows, LSE_SHARE, 0.0)[:, None]
    dq, mean_key = np.zeros_like(block.q), np.zeros_like(block.q)
    dq_square, dq_lost, dq_whole, dq_width = np.zeros((4, len(block.i)))
    do_size, q_size = squares(do), squares(block.q)
    for first, end in block.key_blocks():
        keys = _clean(block, k, first, end)
        s, slope = block.scores(keys, first, end, sloped=True)
        weights = forward.weights(s)
        factor = None
        if p.dropout:
            kept = stream(p, view.b, block.h, block.i, first, end)
            factor = kept * keep_factor(stream, p)
        used = weights if factor is None else np.where(kept, weights * factor, 0.0)  # a dropped NaN is 0 too
        far = _distance(p, np.log(np.where(weights > 0, weights, 1.0)), known)
        dv[first:end] += _sum_terms(used, do)
        dv_square[first:end] += ((used * far) ** 2).T @ do_size
        dv_share[first:end] += ((used * share) ** 2).T @ do_size
        dv_lost[first:end] += (flush_subnormals(used, p.dtype) ** 2).T @ do_size
        values = _clean(block, v, first, end)
        dp = product(do, values.T)
        # the products of dP may cancel, and where a learned sink takes all weight, D is too small to hide their rounding
        least = np.sqrt(do**2 @ (values**2).T) if p.dtype is DType.FP32 else np.zeros(())
        if factor is not None:
            dp, least = dp * factor, least * factor
        unused = weights == 0  # the dP of a hidden key may come from a NaN
        dp[unused] = 0.0
        ds = np.where(unused, 0.0, weights * (dp - dot[:, None]))
        size = np.maximum(np.abs(dp), least) + (np.abs(dot) + dot_noise)[:, None]
        spread = np.where(unused, 0.0, (weights * far + _least(p)) * size)
        _add_bias(block, ds, out.dbias, first, end)
        _add_bias(block, spread**2, out.noise.get("dbias"), first, end)
        _add_bias(block, (share * ds) ** 2, out.shares.get("dbias"), first, end)
        if slope is not None:
            ds *= slope
            # tanh is near 1 where the slope is near 0, and the rounding of 1 - tanh^2 is that of 1
            spread = spread * slope + np.where(unused, 0.0, weights * size) * 2 * (1 - slope) * F32_EPS / eps
        lost = flush_subnormals(ds, p.dtype) * p.scale
        ds *= p.scale
        spread *= abs(p.scale)
        key_size, terms = squares(keys), np.where(unused, 0.0, 1.0)
        dq += _sum_terms(ds.T, keys)
        dq_square += (spread**2) @ key_size
        dq_whole += spread @ np.sqrt(key_size)
        dq_lost += (lost**2) @ key_size
        dq_width += terms @ key_size
        mean_key += _sum_terms((weights * p.scale).T, keys)
        dk[first:end] += _sum_terms(ds, block.q)
        dk_square[first:end] += (spread**2).T @ q_size
        dk_lost[first:end] += (lost**2).T @ q_size
        dk_share[first:end] += ((share * ds) ** 2).T @ q_size
        dk_width[first:end] += terms.T @ q_size
        dv_width[first:end] += terms.T @ do_size
    # an error of D moves all terms of a row together
    terms_noise = latent_noise(p, np.sqrt(dq_square), dq_whole, equal) if p.v_in_k else np.sqrt(dq_square)
    dq_noise = terms_noise + dot_noise * np.linalg.norm(mean_key, axis=1)
    dq_swing = np.zeros(len(block.i))
    rows, sums = np.flatnonzero(far_rows), (dk_swing, dv_swing, out.swing.get("dbias"))
    if len(rows):
        dq_swing[rows] = _add_swing(block, rows, k, v, stream, forward, do, sums)
    of_rows = (dq_noise**2, dq_lost, dq_width, dq_swing, squares(dq) * share[:, 0] ** 2)
    for head in np.unique(block.h):
        mine = block.h == head
        for tensor, part in ((out.dq, dq), *((kind["dq"], part) for kind, part in zip(kinds, of_rows, strict=True))):
            head_rows(tensor, p, p.layout, p.query_lengths(), view.b, int(head))[block.i[mine]] = part[mine]
    return forward


def _add_swing(
    block: RowBlock,
    rows: Ints,
    k: F64,
    v: F64,
    stream: Stream,
    forward: Attended,
    do: F64,
    sums: tuple[F64, F64, F64 | None],
) -> F64:
    """Add the possible effect of rounding errors in the scores of ``rows`` to sums for dK, dV and dBias.

    Returns:
        (len(rows),) the same for dQ.
    """
    p, (dk, dv, dbias) = block.view.problem, sums
    sub, do = block.part(rows), do[rows]
    shaken = [block.part(rows, n, forward.lead[rows]) for n in range(1, SHAKES + 1)]
    answers = [attend(other, k, v, stream) for other in shaken]
    own = replace(forward, top=forward.top[rows], log_sum=forward.log_sum[rows])
    do_size, q_size, dq = np.sqrt(squares(do)), np.sqrt(squares(sub.q)), np.zeros(len(rows))
    dot, moved = np.abs(np.einsum("rd,rd->r", do, forward.o[rows])), do_size * forward.swing[rows]
    for first, end in sub.key_blocks():
        keys, values = _clean(sub, k, first, end), _clean(sub, v, first, end)
        exact = _weigh(sub, own, keys, first, end)
        others = [_weigh(*pair, keys, first, end) for pair in zip(shaken, answers, strict=True)]
        of_p, of_s = (
            np.nan_to_num(np.max([np.abs(other[n] - exact[n]) for other in others], axis=0)) for n in range(2)
        )
        factor: Any = stream(p, sub.view.b, sub.h, sub.i, first, end) * keep_factor(stream, p) if p.dropout else 1.0
        size = np.nan_to_num(np.abs(do @ values.T)) * factor + (dot + moved)[:, None]
        dv[first:end] += (of_p * factor).T @ do_size
        _add_bias(sub, of_p * size + exact[0] * moved[:, None], dbias, first, end)
        terms = (of_s * size + exact[1] * moved[:, None]) * abs(p.scale)
        dk[first:end] += terms.T @ q_size
        dq += terms @ np.sqrt(squares(keys))
    return dq


def _weigh(block: RowBlock, answer: Attended, keys: F64, first: int, end: int) -> tuple[F64, F64]:
    """P (R, end - first), and P times the slope of the cap."""
    s, slope = block.scores(keys, first, end, sloped=True)
    weights = answer.weights(s)
    return weights, weights if slope is None else weights * slope


def _sum_terms(terms: F64, rows: F64) -> F64:
    """terms.T @ rows, (keys, d), where a term of 0 contributes nothing even if its row is NaN."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if not len(bad):
        return product(terms.T, rows)
    clean = rows.copy()
    clean[bad] = 0.0
    out = product(terms.T, clean)
    for r in bad:
        seen = terms[r] != 0
        out[seen] += terms[r, seen, None] * rows[r]
    return out


def _output_noise(p: Problem, forward: RowResult) -> F64:
    """(R,) size of the error that rounding errors of P leave in an element of O. D is computed from a rounded O."""
    noise: F64 = (forward.noise + forward.width * _least(p)) / sqrt(p.hdim_v)
    return noise


def _distance(p: Problem, exponents: F64, reach: F64) -> F64:
    """How much larger than the budgets take it (1 + 2^-24 (reach + sqrt(keys)) / eps) the relative error of an improbable P is.

    The exponent s - lse of such a P, (R, keys), is a large number in fp32, whose rounding moves P by 2^-24 times its size. It does not
    matter in O, where such a P has no weight, but a row of dK or dV may have no other.
    """
    eps, known = EPS.get(p.dtype, EPS[DType.FP32]), EPS[DType.FP32] * (reach + sqrt(p.seqlen_k))
    far: F64 = np.maximum(1.0, EPS[DType.FP32] * np.abs(exponents) / (eps + known)[:, None])
    return far


def _least(p: Problem) -> float:
    """The number below which the error of a rounded P is absolute. Some kernels take dS from a P in the inputs' type."""
    return HALF_STEP[p.dtype] / EPS[p.dtype] if p.dtype in EPS else 0.0


def _clean(block: RowBlock, rows: F64, first: int, end: int) -> F64:
    """Keys or values first..end-1. The ones that no row of the block sees are zero here, because they may hold any
    value.
    """
    part = rows[first:end]
    unseen = ~np.isfinite(part).all(axis=1)
    if unseen.any():
        unseen &= ~block.sees(np.arange(first, end)).any(axis=0)
        part = part.copy()
        part[unseen] = 0.0
    return part


def _add_bias(block: RowBlock, terms: F64, total: F64 | None, first: int, end: int) -> None:
    """Add terms (R, end - first) to a sum in the shape of the bias, if there is one."""
    if total is None:
        return
    for head in np.unique(block.h):
        mine = block.h == head
        b = block.view.b if len(total) > 1 else 0
        h = int(head) if total.shape[1] > 1 else 0
        if len(total[b, h]) < block.view.problem.seqlen_q:
            total[b, h, 0, first:end] += terms[mine].sum(axis=0)
        else:
            total[b, h, block.i[mine], first:end] += terms[mine]

"""A numpy model of fused kernels: the output of an honest kernel, and of one with a planted fault.

It is a tiled online softmax in float32. The inputs have the storage type; S = Q.K^T and the softmax are in float32. P
is rounded to the input type before P.V, as matrix instructions require. The accumulators are float32, and O is rounded
once at the end. The loop is that of FlashAttention-2 (Dao, 2023), algorithm 1. The heads of a sequence are computed
together. The bias and dropout parts need up to O(seqlen^2) memory per sequence, so the model suits small problems.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.dtypes import MX_BLOCK, DType
from fmha_cli.domain.features import Bias, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, lse_shape, offsets, shapes_of
from fmha_cli.oracle.dropout import keep_scale, stream_of
from fmha_cli.oracle.mx import encode_rows
from fmha_cli.oracle.reference import flush_subnormals
from fmha_cli.oracle.scores import visible_range
from fmha_cli.oracle.tensors import Array, Inputs, SequenceView, head_rows, numpy_dtype, round_to
from tests.support.models.faults import ExtremeFault, Fault

F32 = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

SCALE_FAULT = 1 + 1 / 16
_LOG2E = np.float32(1.4426950408889634)


def decode_rows(codes: Array, scales: Array) -> npt.NDArray[np.float64]:
    """The numbers that ``encode_rows`` stands for, (..., n) float64."""
    factors = scales.astype(np.float64).repeat(MX_BLOCK, axis=-1)[..., : codes.shape[-1]]
    return codes.astype(np.float64) * factors


@dataclass(frozen=True)
class Style:
    """The free choices of an honest kernel.

    Attributes:
        tile: keys per tile.
        round_p: whether P is rounded to the input type.
        base2: exp2 instead of exp.
        truncate_p: P is rounded towards zero, as AMD's packed conversion to fp16 does.
        stretch_p: the factor of P before rounding, and the divisor of the product, as in fp8 kernels with scales.
        flush: P and dS that are subnormal in the input type count as zero (``reference.flush_subnormals``).
        p_type: the type to which P is rounded, if that is not the input type; FP32 = no rounding. MX types round P in
            blocks of 32 keys.
    """

    tile: int = 64
    round_p: bool = True
    base2: bool = False
    truncate_p: bool = False
    stretch_p: float = 1.0
    flush: bool = False
    p_type: DType | None = None


@dataclass(frozen=True)
class Modelled:
    """O in dtype_out and layout_out; LSE float32 as ``fmha_cli.domain.tensors.lse_shape``."""

    o: Array
    lse: F32


@np.errstate(over="ignore", invalid="ignore")  # a kernel on a GPU gives no warning either
def model_forward(
    problem: Problem, inputs: Inputs, *, fault: Fault | ExtremeFault | None = None, style: Style | None = None
) -> Modelled:
    """The output of the modelled kernel with the given ``fault``.

    Raises:
        UnsupportedError: O001, O002 (dropout), T001 (tensors without a form).
    """
    style = style or Style()
    element = Element.of(problem.dtype_out)
    o = np.empty(shapes_of(problem)["o"].shape, dtype=numpy_dtype(element))
    lse = np.empty(lse_shape(problem), dtype=np.float32)
    for b in range(problem.batch):
        view = SequenceView(problem, inputs, b)
        if not view.seqlen_q:
            continue
        rows, log_sum = _sequence(view, fault, style)
        lse[_lse_index(problem, b)] = log_sum
        for h in range(problem.heads):
            head_rows(o, problem, problem.layout_out, problem.query_lengths(), b, h)[...] = round_to(rows[h], element)
    return Modelled(o, lse)


def _lse_index(problem: Problem, b: int) -> tuple[int] | tuple[slice, slice]:
    if problem.mode is Mode.BATCH:
        return (b,)
    first, end = offsets(problem.query_lengths())[b : b + 2]
    return slice(None), slice(first, end)


def _sequence(view: SequenceView, fault: Fault | ExtremeFault | None, style: Style) -> tuple[F32, F32]:
    """O (heads, seqlen_q, hdim_v) and LSE (heads, seqlen_q) of one sequence, float32."""
    p = view.problem
    q, k, v = operands(view, fault)
    sees = _visible(view, k.shape[1], fault)
    shape = (p.heads, view.seqlen_q)
    sinks = view.sinks()
    top = np.full(shape, -np.inf, np.float32)
    total, acc = np.zeros(shape, np.float32), np.zeros((*shape, p.hdim_v), np.float32)
    if sinks is not None:
        total += 1
        top = np.broadcast_to(sinks[:, None].astype(np.float32), shape).copy()
    tiles = _tiles(k.shape[1], style.tile, fault)
    for n, (first, end) in enumerate(tiles):
        s = scores32(view, q, k, first, end, fault)
        s[~np.broadcast_to(sees[:, first:end], s.shape)] = -np.inf
        new_top = np.maximum(top, s.max(axis=-1))
        safe = np.where(np.isneginf(new_top), np.float32(0), new_top)
        shrink = _exp(top - safe, style)
        weights = _exp(s - safe[..., None], style)
        if fault is ExtremeFault.SCALED_MAXIMUM:
            weights = late_weights(s, safe)
        total = total * shrink
        if not (fault is Fault.ROW_SUM_SHORT and n == len(tiles) - 1):
            total = total + weights.sum(axis=-1, dtype=np.float32)
        weights = _dropped(view, weights, first, end, fault)
        p_type = style.p_type or p.dtype
        if style.round_p and p_type is not DType.FP32:
            if p_type.is_mx:
                weights = decode_rows(*encode_rows(weights, Element.of(p_type))).astype(np.float32)
            else:
                weights = _rounded(weights, Element.of(p_type), style)
            if style.flush:
                weights = weights - flush_subnormals(weights, p.dtype)
        if fault is not Fault.STALE_MAX:
            acc = acc * shrink[..., None]
        values = _values(v, first, end, fault)
        acc = acc + (seen_product(weights, values) if hides_keys(p, fault) else weights @ values)
        if fault is Fault.LOW_PRECISION_ACC:
            low = Element.BF16 if p.dtype is DType.FP32 else Element.of(p.dtype)
            acc = round_to(acc, Element.BF16 if p.dtype.is_mx else low).astype(np.float32)
        top = new_top
    return _finish(view, acc, total, top, fault)


def _rounded(weights: F32, element: Element, style: Style) -> F32:
    """P (not negative) as the second product reads it."""
    stretch = np.float32(style.stretch_p)
    low = round_to(weights * stretch, element)
    if style.truncate_p:
        low = np.where(low.astype(np.float32) > weights * stretch, np.nextafter(low, low.dtype.type(0)), low)
    out: F32 = low.astype(np.float32) / stretch
    return out


def _values(v: F32, first: int, end: int, fault: Fault | ExtremeFault | None) -> F32:
    values = v[:, first:end]
    if fault is Fault.V_ROWS_SWAPPED and end - first > 1:
        values = values.copy()
        values[:, :2] = values[:, 1::-1]
    return values


def hides_keys(problem: Problem, fault: Fault | ExtremeFault | None) -> bool:
    """Whether a kernel skips the V of keys without weight. One without a bias multiplies whole tiles, as upstream's do."""
    return problem.bias is not Bias.NONE and fault is not ExtremeFault.BIASED_KEY


def seen_product(weights: F32, values: F32) -> F32:
    """weights @ values (heads, rows, d), where a weight of 0 takes nothing from a row that is not finite."""
    bad = ~np.isfinite(values).all(axis=-1)
    if not bad.any():
        return weights @ values
    out = weights @ np.where(bad[..., None], np.float32(0), values)
    for h, j in np.argwhere(bad):
        taken = weights[h, :, j] != 0
        out[h, taken] += weights[h, taken, j, None] * values[h, j]
    return out


def late_weights(s: F32, top: F32) -> F32:
    """exp2(fma(s, log2 e, -round(top * log2 e))): the fma keeps what the rounded maximum has lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (top * _LOG2E).astype(np.float64)[..., None]
        out: F32 = np.exp2((s.astype(np.float64) * float(_LOG2E) - scaled).astype(np.float32))
    return out


def _exp(x: F32, style: Style) -> F32:
    out: F32 = np.exp2(x * _LOG2E) if style.base2 else np.exp(x)
    return out


def _finish(view: SequenceView, acc: F32, total: F32, top: F32, fault: Fault | ExtremeFault | None) -> tuple[F32, F32]:
    some = total > 0
    safe_total = np.where(some, total, np.float32(1))
    o = acc * np.where(some, 1 / safe_total, np.float32(0))[..., None]
    lse: F32 = np.where(some, top + np.log(safe_total), np.float32(-np.inf))
    if fault is Fault.LSE_LOG2:
        lse = lse * _LOG2E
    if fault is Fault.NAN_ROW:
        o[-1, -1] = np.nan
    return o, lse


def operands(view: SequenceView, fault: Fault | ExtremeFault | None) -> tuple[F32, F32, F32]:
    """q (heads, seqlen_q, hdim), and k, v (heads, keys, d) repeated for the query heads, float32."""
    p = view.problem
    q = np.stack([view.queries(h, np.arange(view.seqlen_q)) for h in range(p.heads)]).astype(np.float32)
    if p.rotary.dim:
        q = round_to(q, Element.of(p.dtype)).astype(np.float32)
    ratio = p.heads // p.kv_heads
    swapped = fault is Fault.GQA_HEADS_SWAPPED
    group = [h % p.kv_heads if swapped else h // ratio for h in range(p.heads)]
    k, v = (np.stack([view.keys64(name, g) for g in range(p.kv_heads)]).astype(np.float32) for name in ("k", "v"))
    if fault is Fault.V_COLUMNS and p.v_in_k:
        v = k[..., p.mla_rope :]
    if fault is Fault.MASK_OFF_BY_ONE and p.mask.right is None:
        k, v = (np.concatenate([x, np.zeros_like(x, shape=(len(x), 1, x.shape[-1]))], axis=1) for x in (k, v))
    return q, k[group], v[group]


def _visible(view: SequenceView, keys: int, fault: Fault | ExtremeFault | None) -> Bools:
    """(seqlen_q, keys): the keys that each row sees, with the fault."""
    mask, rows, length = view.problem.mask, view.seqlen_q, view.seqlen_k
    i, j = np.arange(rows)[:, None], np.arange(keys)
    low, high = (x[:, None] for x in visible_range(view, np.arange(rows)))
    if fault is Fault.WINDOW_SIDE:
        diagonal = i + mask.delta(rows, length)
        low = diagonal * 0 if mask.right is None else np.maximum(diagonal - mask.right, 0)
        high = diagonal * 0 + length if mask.left is None else np.clip(diagonal + mask.left + 1, 0, length)
    if fault is Fault.MASK_OFF_BY_ONE:
        high = high + 1 if mask.right is None else np.clip(i + mask.delta(rows, length) + mask.right + 2, 0, length)
    if fault is Fault.LAST_KEY_DROPPED:
        high = high - 1
    sees: Bools = (j < high) & ((j >= low) | (j < view.problem.sink))
    return sees


def _tiles(keys: int, size: int, fault: Fault | ExtremeFault | None) -> list[tuple[int, int]]:
    tiles = [(first, min(first + size, keys)) for first in range(0, keys, size)]
    if fault is Fault.TILE_SKIPPED and tiles:
        if len(tiles) > 1:
            return tiles[:1] + tiles[2:]
        return [(0, max(1, keys // 2))]
    return tiles


def scores32(view: SequenceView, q: F32, k: F32, first: int, end: int, fault: Fault | ExtremeFault | None) -> F32:
    """(heads, seqlen_q, end - first) float32 before the mask."""
    p = view.problem
    scale = p.scale * (SCALE_FAULT if fault is Fault.SCALE_WRONG else 1.0)
    s: F32 = (q @ k[:, first:end].transpose(0, 2, 1)) * np.float32(scale)
    if p.softcap > 0:
        s = np.tanh(s / np.float32(p.softcap)) * np.float32(p.softcap)
    slopes = view.slopes()
    rows = np.arange(view.seqlen_q)[:, None]
    if slopes is not None:
        sign = np.float32(1 if fault is Fault.ALIBI_SIGN else -1)
        distance = np.abs(rows + p.mask.delta(view.seqlen_q, view.seqlen_k) - np.arange(first, end))
        s += sign * slopes.astype(np.float32)[:, None, None] * distance.astype(np.float32)
    real = min(end, view.seqlen_k)
    for h in range(p.heads):
        plane = view.bias(h)
        if plane is not None:
            bias = plane[:, first:real].astype(np.float32)
            s[h, :, : real - first] += bias
            if fault is not ExtremeFault.BIASED_KEY:
                s[h, :, : real - first][np.isneginf(bias)] = -np.inf
    return s


def _dropped(view: SequenceView, weights: F32, first: int, end: int, fault: Fault | ExtremeFault | None) -> F32:
    p = view.problem
    if not p.dropout:
        return weights
    rows = np.arange(view.seqlen_q)
    heads = [stream_of("fmha")(p, view.b, np.full_like(rows, h), rows, first, end) for h in range(p.heads)]
    kept = np.stack(heads)
    if fault is Fault.DROPOUT_INVERTED:
        kept = ~kept
    out: F32 = weights * kept * np.float32(keep_scale(p.dropout))
    return out

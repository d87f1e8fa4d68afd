"""A model of fused backward kernels in numpy: P and dS rounded to the input type, float32 accumulators.

The recomputation from Q, K and LSE is that of FlashAttention-2 (Dao, 2023), algorithm 2. D is computed from the
rounded O, as in kernels. The model needs O(seqlen^2) memory per sequence, so it suits small problems.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, bias_shape, shapes_of
from fmha_cli.oracle.dropout import fmha_stream, keep_scale
from fmha_cli.oracle.reference import flush_subnormals
from fmha_cli.oracle.scores import visible_range
from fmha_cli.oracle.tensors import Array, Inputs, SequenceView, head_rows, round_to
from tests.support.models.faults import ExtremeFault
from tests.support.models.kernel_model import (
    Style,
    hides_keys,
    late_weights,
    model_forward,
    operands,
    scores32,
    seen_product,
)

F32 = npt.NDArray[np.float32]


@np.errstate(over="ignore", invalid="ignore")  # a kernel on a GPU gives no warning either
def model_backward(
    problem: Problem, inputs: Inputs, *, fault: ExtremeFault | None = None, style: Style | None = None
) -> dict[str, Array]:
    """The gradients of the modelled kernel with the given ``fault``: dq, dk, dv, and dbias when there is a bias, in the problem's dtype and layout. Where V is in K, dk holds dv's share.

    Raises:
        UnsupportedError: O001, O002 (dropout), T001 (tensors without a form).
    """
    style = style or Style()
    element, shapes = Element.of(problem.dtype), shapes_of(problem)
    out: dict[str, F32] = {f"d{name}": np.zeros(shapes[name].shape, np.float32) for name in ("q", "k")}
    out["dv"] = np.zeros((*out["dk"].shape[:-1], problem.hdim_v), np.float32)
    bias = bias_shape(problem)
    if bias is not None:
        out["dbias"] = np.zeros(bias, np.float32)
    o = model_forward(problem, inputs, style=style).o
    for b in range(problem.batch):
        view = SequenceView(problem, inputs, b)
        if view.seqlen_q and view.seqlen_k:
            _sequence(view, {**inputs, "o": o}, style, out, fault)
    if problem.v_in_k:
        out["dk"][..., : problem.hdim_v] += out.pop("dv")
    return {name: round_to(x, element) for name, x in out.items()}


def _sequence(
    view: SequenceView, inputs: Inputs, style: Style, out: dict[str, F32], fault: ExtremeFault | None
) -> None:
    p = view.problem
    rows, keys = np.arange(view.seqlen_q), view.seqlen_k
    q, k, v = operands(view, None)
    s = scores32(view, q, k, 0, keys, fault)
    low, high = (x[:, None] for x in visible_range(view, rows))
    j = np.arange(keys)
    s = np.where((j < high) & ((j >= low) | (j < p.sink)), s, np.float32(-np.inf))
    weights = _softmax(view, s, fault)
    full = SequenceView(p, inputs, view.b)
    o, do = (np.stack([full.rows(name, h) for h in range(p.heads)]).astype(np.float32) for name in ("o", "do"))
    factor = np.ones_like(weights)
    if p.dropout:
        kept = [fmha_stream(p, view.b, np.full_like(rows, h), rows, 0, keys) for h in range(p.heads)]
        factor = np.stack(kept).astype(np.float32) * np.float32(keep_scale(p.dropout))
    low_p = _low(weights * factor, p, style)
    ds = weights * ((do @ v.transpose(0, 2, 1)) * factor - (o * do).sum(axis=-1, keepdims=True))
    hides = hides_keys(p, fault)
    if hides:
        ds[weights == 0] = 0
    if "dbias" in out:
        _add_bias(view, ds, out["dbias"])
    if p.softcap > 0:
        ds = ds * (1 - np.tanh(_before_cap(view, q, k)) ** 2)
    low_ds = _low(ds, p, style)
    scale, ratio = np.float32(p.scale), p.heads // p.kv_heads
    dq = (seen_product(low_ds, k) if hides else low_ds @ k) * scale
    dk, dv = low_ds.transpose(0, 2, 1) @ q * scale, low_p.transpose(0, 2, 1) @ do
    for h in range(p.heads):
        head_rows(out["dq"], p, p.layout, p.query_lengths(), view.b, h)[...] = dq[h]
        head_rows(out["dk"], p, p.layout, p.key_lengths(), view.b, h // ratio)[...] += dk[h]
        head_rows(out["dv"], p, p.layout, p.key_lengths(), view.b, h // ratio)[...] += dv[h]


def _softmax(view: SequenceView, s: F32, fault: ExtremeFault | None) -> F32:
    top = s.max(axis=-1, keepdims=True)
    sinks = view.sinks()
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None].astype(np.float32))
    top = np.where(np.isneginf(top), np.float32(0), top)
    weights = np.exp(s - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total += np.exp(sinks[:, None, None].astype(np.float32) - top)
    if fault is ExtremeFault.SCALED_MAXIMUM:
        return late_weights(s, (top + np.log(np.where(total > 0, total, np.float32(1))))[..., 0])
    out: F32 = (weights / np.where(total > 0, total, np.float32(1))).astype(np.float32)
    return out


def _before_cap(view: SequenceView, q: F32, k: F32) -> F32:
    out: F32 = q @ k.transpose(0, 2, 1) * np.float32(view.problem.scale / view.problem.softcap)
    return out


def _low(x: F32, p: Problem, style: Style) -> F32:
    if not style.round_p or p.dtype is DType.FP32:
        return x
    low = round_to(x, Element.of(p.dtype)).astype(np.float32)
    return low - flush_subnormals(low, p.dtype) if style.flush else low


def _add_bias(view: SequenceView, ds: F32, dbias: F32) -> None:
    b = view.b if len(dbias) > 1 else 0
    for h, plane in enumerate(ds):
        rows = plane if dbias.shape[2] == view.problem.seqlen_q else plane.sum(axis=0, keepdims=True)
        dbias[b, h if dbias.shape[1] > 1 else 0, : len(rows), : view.seqlen_k] += rows

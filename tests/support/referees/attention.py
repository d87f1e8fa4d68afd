"""Two referees of attention that know nothing of the product: a formula in numpy's float64, and PyTorch's float64 with autograd.

The formula also bounds how far an honest kernel may be from it. Scores of single precision are off by e, so a weight lies between the
softmax with its score e lower and all others e higher, and the opposite; O is as far off as these weights can move it. In a row whose
weights can move by more than a quarter in all, rounding decides which keys count: the row is called *open*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.generators.extreme_problem import Bools, Doubles, Lane

Values = dict[str, Doubles]
OPEN = 0.25
USUAL_LSE = 1024.0
"""The size of an LSE up to which gradients must be as exact as their type."""
MOST_PARTS = 8
"""Parts of the keys that are joined: O may be the sum of as many."""
SUM = "sum of dv"
"""(kv_heads, 1, d): dV summed over the keys, which is dO summed over the rows: a row that is lost is missing here too."""


@dataclass(frozen=True)
class Precision:
    """How a kernel rounds.

    Attributes:
        unit: unit roundoff of scores and sums.
        out, p: of its outputs, and of P and dS.
        least: the absolute error of a number of O's or P's type that is too small.
        lse: the rounding of the LSE from which a backward kernel takes P, if it does.
    """

    unit: float
    out: float
    p: float
    least: float
    lse: float


UNITS = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
LARGEST = {"fp32": 3.4028235e38, "fp16": 65504.0, "bf16": 3.3895314e38}
DOUBLE = Precision(2.0**-49, 2.0**-49, 2.0**-49, 2.0**-1022, 2.0**-49)
"""Of another program in float64; its sums may be in any order."""


def precision_of(out: str, p: str | None = None) -> Precision:
    """Of kernels with scores in single precision, outputs of a type, and P of another."""
    p = p or out
    least = 2.0**-25 if "fp16" in (out, p) else 2.0**-126
    return Precision(2.0**-24, UNITS[out], UNITS[p], least, 2.0**-22)


@dataclass
class Answer:
    """What is right for one sequence: (heads, rows, d), (kv_heads, keys, d), (heads, rows) or, for dbias, (heads, rows, keys).

    Attributes:
        slack: how far each number may be from its value.
        open: (heads, rows), whether rounding decides.
        top: (heads, rows), the largest score of a row's keys.
        zero: (heads, rows), whether a row of O may be 0 throughout: no rounding of scores takes all keys from a row.
        rough: the slack of gradients from P = exp(s - LSE) with the roundings of s and of an LSE of any size, and that of O where
            parts of the keys are joined by such weights.
    """

    values: Values
    slack: Values
    open: Bools
    top: Doubles
    zero: Bools
    rough: Values


def formula(lane: Lane, precision: Precision) -> Answer:
    """O, LSE and, where there is dO, the gradients of one sequence by their formulas."""
    with np.errstate(all="ignore"):
        return _Formula(lane, precision).answer()


class _Formula:
    """One sequence. Arrays are (heads, rows, keys) unless said; K and V are repeated for the query heads."""

    def __init__(self, lane: Lane, precision: Precision) -> None:
        self.lane, self.pr, self.u = lane, precision, precision.unit
        self.heads, self.n, self.d = lane.q.shape
        self.groups = self.heads // len(lane.k)
        self.k, self.v = (x.repeat(self.groups, axis=0) for x in (lane.k, lane.v))
        self.keys = self.k.shape[1]
        self._scores()
        self._weights()

    def sums(self, terms: int) -> float:
        """The relative error of a sum of products in the kernel's precision."""
        return (8 + terms**0.5) * self.u

    def _scores(self) -> None:
        lane, u = self.lane, self.u
        raw, size = lane.q @ turned(self.k), np.abs(lane.q) @ turned(np.abs(self.k))
        x = raw * lane.scale
        e = abs(lane.scale) * (self.sums(self.d) * size + self.d * self.pr.least * (u > 1e-9)) + 2 * u * np.abs(x)
        self.slope, self.slope_error = np.ones_like(x), np.zeros_like(x)
        y = x
        if lane.softcap:
            cap = lane.softcap
            y = cap * np.tanh(x / cap)
            e = np.maximum(*(np.abs(cap * np.tanh((x + sign * e) / cap) - y) for sign in (-1, 1))) + 4 * u * cap
            self.slope = flatness(x / cap)
            spread = (self.sums(self.d) * size * abs(lane.scale) + 2 * u * np.abs(x)) / cap
            low, high = (flatness(np.maximum(np.abs(x / cap) + sign * spread, 0)) for sign in (-1, 1))
            self.slope_error = np.maximum(np.abs(low - self.slope), np.abs(high - self.slope)) + 8 * u
        sees = np.broadcast_to(lane.sees, x.shape)
        s, e = y, e + 4 * u * np.abs(y)
        if lane.bias is not None:
            sees = sees & ~np.isneginf(lane.bias)
            bias = np.where(sees, lane.bias, 0)
            s, e = s + bias, e + 4 * u * np.abs(bias)
        if lane.slopes is not None:
            distance = np.abs(np.arange(self.n)[:, None] + lane.delta - np.arange(self.keys))
            reach = lane.slopes[:, None, None] * (distance + self.n + self.keys)
            s, e = s - lane.slopes[:, None, None] * distance, e + 4 * u * reach
        self.sees, self.s, self.e = sees, s, e + 2 * u * np.abs(s)

    def _weights(self) -> None:
        lane, u = self.lane, self.u
        s, e = np.where(self.sees, self.s, -np.inf), np.where(self.sees, self.e, 0)
        if lane.sinks is not None:
            sink = np.broadcast_to(lane.sinks[:, None, None], (self.heads, self.n, 1))
            s, e = np.concatenate([s, sink], axis=-1), np.concatenate([e, 4 * u * np.abs(sink)], axis=-1)
            e = np.where(np.isinf(s), 0, e)
        if not s.shape[-1]:
            s, e = np.full((self.heads, self.n, 1), -np.inf), np.zeros((self.heads, self.n, 1))
        self.top = s[..., : self.keys].max(axis=-1, initial=-np.inf)
        top = s.max(axis=-1, keepdims=True)
        nonfinite = (np.isnan(s) | np.isposinf(s)).any(axis=-1)
        top = np.where(np.isneginf(top), 0, top)
        a = s - top
        e = np.where(np.isneginf(a), 0, e + 4 * u * (1 + np.abs(a)))
        total = np.logaddexp.reduce(a, axis=-1, keepdims=True)
        p = np.where(np.isneginf(a), 0, np.exp(a - total))
        high = sigmoid(a + e - others(a - e))
        low = sigmoid(a - e - others(a + e))
        moved = np.where(np.isneginf(a), 0, np.maximum(np.maximum(high - p, p - low), 0))
        self.lse = (top + total)[..., 0]
        reach = np.stack([np.logaddexp.reduce(a + sign * e, axis=-1) for sign in (-1, 1)])
        self.lse_slack = np.abs(reach - total[..., 0]).max(axis=0) + 1e-5 * (1 + np.abs(self.lse)) * (u > 1e-9)
        self.lse_slack += 64 * u * np.abs(self.lse)
        for x in (p, moved):
            x[nonfinite[..., None] & ~np.isneginf(s)] = np.nan
        self.open = moved.sum(axis=-1) > OPEN
        self.p, self.moved = p[..., : self.keys], moved[..., : self.keys]
        self.sink_moved = moved[..., self.keys :].sum(axis=-1) if lane.sinks is not None else np.zeros_like(self.lse)

    def answer(self) -> Answer:
        pr, lane = self.pr, self.lane
        z = np.ones_like(self.p) if lane.kept is None else lane.kept
        pz = self.p * z
        o = pz @ self.v
        far = np.zeros_like(o)
        for h in range(self.heads):  # how far O moves when weights move from key to key
            apart = np.abs(self.v[h][None] * z[h][..., None] - o[h][:, None]) if lane.kept is not None else None
            apart = np.abs(self.v[h][None] - o[h][:, None]) if apart is None else apart
            far[h] = np.einsum("ij,ijd->id", self.moved[h], apart) + self.sink_moved[h][:, None] * np.abs(o[h])
        size, seen = np.abs(self.v), np.where(self.sees, z, 0)
        slack = (2 * pr.p + self.sums(self.keys)) * (pz @ size) + pr.least * (seen @ size)
        slack += 2 * pr.out * np.abs(o) + pr.least
        zero = (np.abs(o) <= slack + (far if lane.kept is not None or lane.sinks is not None else 0)).all(axis=-1)
        slack = slack + far
        values, bounds = {"o": o, "lse": self.lse}, {"o": slack, "lse": self.lse_slack}
        joined = np.minimum(np.expm1(pr.lse * np.abs(self.lse)), MOST_PARTS)[..., None]
        rough: Values = {"o": slack + joined * (pz @ size)}
        if lane.do is not None:
            for of_any_size, found in ((True, rough), (False, bounds)):
                gradients, slacks = self._gradients(lane.do, z, o, slack, of_any_size)
                found |= slacks
            values |= gradients
        rough = {name: np.where(np.isnan(x), np.inf, x) for name, x in rough.items()}  # inf * 0
        return Answer(values, bounds, self.open, self.top, zero, rough)

    def _gradients(
        self, do: Doubles, z: Doubles, o: Doubles, o_slack: Doubles, of_any_size: bool
    ) -> tuple[Values, Values]:
        """The gradients and their slack: of P = exp(s - LSE) with the roundings of s and an LSE of any size, or of a usual one."""
        values: Values = {}
        bounds: Values = {}
        pr, lane = self.pr, self.lane
        g, g_size = z * (do @ turned(self.v)), z * (np.abs(do) @ turned(np.abs(self.v)))
        delta = (do * o).sum(axis=-1, keepdims=True)
        dv = self.v.shape[-1]
        delta_slack = (np.abs(do) * (o_slack + self.sums(dv) * np.abs(o))).sum(axis=-1, keepdims=True)
        rounded = pr.lse * np.abs(self.lse)[..., None]
        grown = np.expm1(rounded + self.e if of_any_size else np.minimum(rounded, pr.lse * USUAL_LSE))
        kept, pz = z > 0, np.where(z > 0, self.p * z, 0)  # a dropped weight is 0, also of a row of NaN
        moved = self.moved + np.where(self.p + self.moved > 0, (self.p + self.moved) * grown, 0)
        p_slack = np.where(self.sees, moved + self.p * 2 * pr.p + pr.least, 0)
        ds = np.where(self.sees, self.p * (g - delta), 0)
        reach = np.where(self.sees, np.abs(g - delta), 0)  # D is NaN in a row that is not finite
        ds_slack = np.where(self.sees, (self.p + p_slack) * (self.sums(dv) * g_size + delta_slack), 0) + p_slack * reach
        ds_slack += 2 * pr.p * np.abs(ds) + pr.least * self.sees * (1 + reach)
        inner = ds * self.slope
        inner_slack = ds_slack * (self.slope + self.slope_error) + np.abs(ds) * self.slope_error
        inner_slack += 2 * pr.p * np.abs(inner) + pr.least * self.sees
        scale = abs(lane.scale)
        found = {
            "dv": (turned(pz) @ do, turned(np.where(kept, p_slack * z, 0)) @ np.abs(do), turned(pz) @ np.abs(do)),
            "dq": (
                lane.scale * (inner @ self.k),
                scale * (inner_slack @ np.abs(self.k)),
                scale * (np.abs(inner) @ np.abs(self.k)),
            ),
            "dk": (
                lane.scale * (turned(inner) @ lane.q),
                scale * (turned(inner_slack) @ np.abs(lane.q)),
                scale * (turned(np.abs(inner)) @ np.abs(lane.q)),
            ),
        }
        for name, (value, slack, size) in found.items():
            slack = slack + self.sums(self.n * self.groups + self.keys) * size
            if name != "dq":
                value, slack = (x.reshape(-1, self.groups, *x.shape[1:]).sum(axis=1) for x in (value, slack))
            values[name], bounds[name] = value, slack + 2 * pr.out * np.abs(value) + pr.least
        values["dbias"], bounds["dbias"] = ds, ds_slack
        if lane.kept is None and lane.sinks is None:  # the weights of a row are 1 in all, whatever rounding decides
            whole = (self.p.sum(axis=-1, keepdims=True) * do).sum(axis=1, keepdims=True)
            error = (self.p * (2 * pr.p + grown + self.sums(self.keys))).sum(axis=-1, keepdims=True)
            least = (pr.least * self.sees).sum(axis=-1, keepdims=True)
            slack = ((error + least) * np.abs(do)).sum(axis=1, keepdims=True)
            whole, slack = (x.reshape(-1, self.groups, *x.shape[1:]).sum(axis=1) for x in (whole, slack))
            stored = 2 * pr.out * (np.abs(values["dv"]) + bounds["dv"]) + pr.least
            values[SUM], bounds[SUM] = whole, slack + stored.sum(axis=1, keepdims=True)
        return values, bounds


def turned(x: Doubles) -> Doubles:
    """The last two axes exchanged."""
    return x.swapaxes(-1, -2)


def flatness(t: Doubles) -> Doubles:
    """1 - tanh(t)^2 with all its digits."""
    e = np.exp(-2 * np.abs(t))
    out: Doubles = 4 * e / (1 + e) ** 2
    return out


def sigmoid(x: Doubles) -> Doubles:
    out: Doubles = np.exp(-np.logaddexp(0, -x))
    return out


def others(x: Doubles) -> Doubles:
    """The logarithm of the sum of all other exp(x) along the last axis."""
    none = np.full_like(x[..., :1], -np.inf)
    before = np.logaddexp.accumulate(x, axis=-1)[..., :-1]
    after = np.logaddexp.accumulate(x[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    out: Doubles = np.logaddexp(np.concatenate([none, before], axis=-1), np.concatenate([after, none], axis=-1))
    return out


def torch_values(lane: Lane) -> Values:
    """What PyTorch makes of the sequence in float64: its SDPA where that has the features, else its softmax; gradients by autograd.

    PyTorch has NaN in rows that see nothing, and multiplies what is hidden by 0. So such rows are taken out, and what a row may not read is
    0 in a ``Lane``.

    Raises:
        ImportError: PyTorch is not installed.
    """
    import torch

    def tensor(x: Any) -> Any:
        return torch.tensor(np.asarray(x), dtype=torch.float64)

    q, k, v = (tensor(x) for x in (lane.q, lane.k, lane.v))
    heads, rows, keys = q.shape[0], q.shape[1], k.shape[1]
    bias = torch.zeros(heads, rows, keys, dtype=torch.float64) if lane.bias is None else tensor(lane.bias)
    for x in (q, k, v, bias):
        x.requires_grad_(lane.do is not None)
    mask = bias
    if lane.slopes is not None:
        distance = (torch.arange(rows)[:, None] + lane.delta - torch.arange(keys)).abs()
        mask = mask - tensor(lane.slopes)[:, None, None] * distance
    hidden = ~torch.tensor(lane.sees) | torch.isneginf(bias)
    mask = mask.masked_fill(hidden, -torch.inf)
    empty = torch.isneginf(mask).all(dim=-1, keepdim=True)
    mask = mask.masked_fill(empty, 0.0)
    groups = heads // k.shape[0]
    wide_k, wide_v = (x.repeat_interleave(groups, dim=0) for x in (k, v))
    scores = (q @ wide_k.mT) * lane.scale
    if lane.softcap:
        scores = torch.tanh(scores / lane.softcap) * lane.softcap
    scores = (scores + mask).masked_fill(hidden, -torch.inf)
    if lane.sinks is not None:
        scores = torch.cat([scores, tensor(lane.sinks)[:, None, None].expand(heads, rows, 1)], dim=-1)
    lse = torch.logsumexp(scores, dim=-1)
    if lane.softcap or lane.sinks is not None or lane.kept is not None or torch.isposinf(bias).any():
        nothing = torch.isneginf(scores).all(dim=-1, keepdim=True)
        p = torch.softmax(scores.masked_fill(nothing, 0.0), dim=-1)[..., :keys]
        p = p.masked_fill(nothing | hidden, 0.0)
        if lane.kept is not None:
            p = p.masked_fill(tensor(lane.kept) == 0, 0.0) * tensor(lane.kept)  # also in a row of NaN
        o = p @ wide_v
    else:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        o = sdpa(q[None], wide_k[None], wide_v[None], attn_mask=mask[None], scale=lane.scale)[0]
        o = o.masked_fill(empty, 0.0)
    out = {"o": o, "lse": lse}
    if lane.do is not None:
        gradients = torch.autograd.grad(o, (q, k, v, bias), tensor(lane.do), allow_unused=True)
        out |= {f"d{name}": x for name, x in zip(("q", "k", "v", "bias"), gradients, strict=True) if x is not None}
    if "dv" in out:
        out[SUM] = out["dv"].sum(dim=1, keepdim=True)
    return {name: x.detach().numpy() for name, x in out.items()}


def apart(got: Doubles, want: Doubles, slack: Doubles, most: float = np.inf) -> Bools:
    """Elements that are not what they may be. Where the right one is not finite, so is an honest one; one that may be beyond ``most``
    may be infinite."""
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= slack
        near |= (np.abs(want) + slack > most) & np.isinf(got) & np.isfinite(want)
        out: Bools = np.where(
            np.isfinite(want), ~near, np.where(np.isneginf(want), ~np.isneginf(got), np.isfinite(got))
        )
    return out


def beyond(got: Doubles, want: Doubles, slack: Doubles, most: float) -> Bools:
    """As ``apart``, but a number without a bound may be NaN too."""
    out: Bools = apart(got, want, slack, most) & ~np.isposinf(slack)
    return out

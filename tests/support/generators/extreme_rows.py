"""Rows of extreme scores on emulated GPUs: what a formula gives, what a kernel gives, and whether ``fmha explain`` says what it loses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli import api, plugin
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.run import attention as walked
from tests.support.generators.extreme_draws import drawn as extreme_problem
from tests.support.generators.extreme_problem import Family
from tests.support.referees.extreme_attention import run
from tests.support.referees.extreme_judging import Judged

Array = npt.NDArray[Any]
NUMPY: dict[str, Any] = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}
LEAST = {dtype: float(ml_dtypes.finfo(kind).min) for dtype, kind in NUMPY.items()}
LIMIT = {"fp16": 2.0**28 * log(2), "bf16": 2.0**31 * log(2), "fp32": 2.0**31 * log(2)}
"""Scores whose exponents, in bits, are rounded by up to half a unit of P's type: 8 bits, 64 bits. Larger ones lose rows."""
LOST, EMPTY, OVERFLOW = "largest score is", "-inf throughout is NaN", "below -2.36e38"
HIDDEN, ROUGH, JOINED = "K or V is not finite", "|LSE| * 2^-22", "joined by weights exp(LSE"
"""Words of the reports in ``arch_specs/_known_bad.json``."""
HEADS, DIM = 2, 64
ALL = slice(None)


@dataclass(frozen=True)
class Rows:
    """Inputs (1, HEADS, length, DIM). A causal problem has as many rows as keys."""

    inputs: dict[str, Array]
    dtype: str
    scale: float = DIM**-0.5
    bias: Array | None = None
    causal: bool = False
    direction: str = "fwd"
    splits: int = 0

    @property
    def flags(self) -> str:
        bias = "" if self.bias is None else "--bias elementwise:bhss"
        lengths = f"-s {self.inputs['q'].shape[2]} --seqlen-k {self.inputs['k'].shape[2]}"
        mask = f"{'--causal' if self.causal else ''} {f'--splits {self.splits}' if self.splits else ''}"
        pass_ = "--lse" if self.direction == "fwd" else f"--direction {self.direction}"
        return f"-H {HEADS} {lengths} -d {DIM} --dtype {self.dtype} --scale {self.scale!r} {pass_} {bias} {mask}"

    @property
    def scores(self) -> Array:
        """(1, HEADS, rows, keys), float64; a hidden key has -inf, whatever it holds."""
        q, k = (self.inputs[name].astype(np.float64) for name in "qk")
        bias = np.zeros((1, HEADS, q.shape[2], k.shape[2])) if self.bias is None else self.bias.astype(np.float64)
        if self.causal:
            bias = np.where(np.tri(q.shape[2], dtype=bool), bias, -np.inf)
        return np.where(np.isneginf(bias), -np.inf, q @ k.swapaxes(2, 3) * self.scale + bias)

    def right(self) -> tuple[Array, Array]:
        """O and LSE."""
        s = self.scores
        top = np.maximum(s.max(axis=-1, keepdims=True), -1e300)  # of a row that sees no key
        p = np.exp(s - top)
        total = p.sum(axis=-1, keepdims=True)
        v = np.where(np.isneginf(s).all(axis=2)[..., None], 0, self.inputs["v"].astype(np.float64))
        with np.errstate(divide="ignore"):
            return p @ v / np.where(total > 0, total, 1), (np.log(total) + top)[..., 0]


def drawn(dtype: str, rows: int = 48, keys: int = 64, *, causal: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    made = {"q": (HEADS, rows), "k": (HEADS, keys), "v": (HEADS, keys)}
    inputs = {n: rng.standard_normal((1, *shape, DIM)).astype(NUMPY[dtype]) for n, shape in made.items()}
    return Rows(inputs, dtype, causal=causal)


def below(rows: Rows, size: float) -> Rows:
    """With the scale that makes ``size`` the largest score of all."""
    return replace(rows, scale=size / float(replace(rows, scale=1.0).scores.max()))


def beyond(rows: Rows, size: float) -> Rows:
    """With the scale that gives half of the rows a largest score of ``size`` and more."""
    return replace(rows, scale=size / float(np.median(replace(rows, scale=1.0).scores.max(axis=-1))))


def biased(rows: Rows, *values: tuple[Any, Any, Any, float]) -> Rows:
    """With a bias of zeros but for some (heads, rows, keys, value)."""
    bias = np.zeros(rows.scores.shape, NUMPY[rows.dtype])
    for heads, at, keys, value in values:
        bias[0, heads, at, keys] = value
    return replace(rows, bias=bias)


def halves(dtype: str) -> Rows:
    """Two parts of 256 equal keys and values: each has the same LSE, and O is that of either."""
    rows = drawn(dtype, 3, 256)
    twice = {name: np.concatenate([x, x], axis=2) for name, x in rows.inputs.items() if name != "q"}
    return replace(rows, inputs=rows.inputs | twice, splits=2)


def lost(rows: Rows, backend: str, device: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Array, Array]:
    """Of a kernel on an emulated device: which rows' O are not the formula's, and which LSE; (HEADS, rows) each."""
    if device.startswith("emu:sm_"):  # products and sums as ptxas joins them
        monkeypatch.setattr(walked, "Request", partial(walked.Request, emu_arith=plugin.Arithmetic.HARDWARE))
    tensors = {} if rows.bias is None else {"bias": rows.bias}
    flags: dict[str, Any] = ({"causal": True} if rows.causal else {}) | ({"splits": rows.splits} if rows.splits else {})
    got = api.attention(
        **rows.inputs, tensors=tensors, backend=backend, device=device, lse=True, scale=rows.scale, **flags
    )
    o, lse = rows.right()
    found = got.outputs["lse"].astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(got.o.astype(np.float64) - o).max(axis=-1) <= 0.02
        same = (np.abs(found - lse) <= 1e-4 + 1e-6 * np.abs(lse)) | (found == lse)
    return ~near[0], ~same[0]


def replayed(
    number: int, family: str, dtype: str, backend: str, device: str, monkeypatch: pytest.MonkeyPatch, *, square: int = 0
) -> Judged:
    """One problem of the campaign (results/extremes.md)."""
    if device.startswith("emu:sm_"):
        monkeypatch.setattr(walked, "Request", partial(walked.Request, emu_arith=plugin.Arithmetic.HARDWARE))
    problem = extreme_problem(number, Family(family), dtype, plain=True, square=square)
    return run(problem, api.build_registry(), backend=backend, device=device)


def error_of_dv(rows: Rows, backend: str, device: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """The largest error of dV, relative to the sum of P |dO|: that of P."""
    if device.startswith("emu:sm_"):
        monkeypatch.setattr(walked, "Request", partial(walked.Request, emu_arith=plugin.Arithmetic.HARDWARE))
    do = np.random.default_rng(1).standard_normal(rows.inputs["q"].shape).astype(NUMPY[rows.dtype])
    got = api.attention(**rows.inputs, do=do, direction="bwd", backend=backend, device=device, scale=rows.scale)
    s = rows.scores
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p = (p / p.sum(axis=-1, keepdims=True)).swapaxes(2, 3)
    far = np.abs(got.outputs["dv"].astype(np.float64) - p @ do.astype(np.float64))
    return float(np.nan_to_num(far / (p @ np.abs(do.astype(np.float64)) + 0.01), nan=np.inf).max())


def said(backend: str, arch: str, rows: Rows) -> str:
    """The note of the kernel that is chosen."""
    decisions = (
        api.build_registry().backend(backend).decide(api.Problem.from_cli(rows.flags), DeviceFacts.of_arch(arch))
    )
    return min((d for d in decisions if isinstance(d, api.Supported)), key=lambda d: d.rank).note

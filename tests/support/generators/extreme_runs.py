"""Honest and faulty runs of the kernel model under extreme scores, biases and sinks; a seed determines everything.

Scores reach from 1e5 to 1e30 times the usual ones, a bias of one row, key or element is that of a padding mask or much larger, keys
that a bias of -inf hides hold NaN, and learned sinks are far above or below all scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import Array, largest, round_to
from tests.support.generators.campaign import DTYPES, Run, gradient_checks, judged_run, sample_problem, sample_style
from tests.support.models.faults import ExtremeFault
from tests.support.models.kernel_model import model_forward
from tests.support.models.kernel_model_backward import model_backward


class Extreme(StrEnum):
    """The extreme part of a problem."""

    SCALE = "scale"
    SIZE = "size of Q and K"
    BIAS = "bias"
    HIDDEN = "hidden keys"
    SINKS = "learned sinks"


_FLAGS = {
    Extreme.BIAS: "--bias elementwise:bhss",
    Extreme.HIDDEN: "--bias elementwise:1hss",
    Extreme.SINKS: "--sink-logits filled",
}
_SIZES = {DType.FP32: (2, 14), DType.BF16: (2, 14), DType.FP16: (3.6, 3.9)}
SHOWN_BY = {
    ExtremeFault.SCALED_MAXIMUM: (Extreme.SCALE, Extreme.SIZE, Extreme.BIAS),
    ExtremeFault.BIASED_KEY: (Extreme.HIDDEN,),
}
"""The problem that shows each fault."""


def extreme_case(
    rng: np.random.Generator, dtype: DType, extreme: Extreme, *, extra: str = ""
) -> tuple[Problem, dict[str, Array]]:
    """A random small problem and its inputs."""
    while True:
        try:
            problem = sample_problem(rng, dtype, None, extra=f"{extra} {_FLAGS.get(extreme, '')}")
            break
        except FmhaError:  # a bias together with ALiBi
            continue
    inputs = fill(problem, "normal", int(rng.integers(2**31)))
    if extreme is Extreme.SCALE:
        power = rng.uniform(3, 5.5) if dtype is DType.FP16 and problem.direction.backward else rng.uniform(5, 30)
        problem = replace(problem, scale=float(rng.choice([-1.0, 1.0]) * 10**power))
    elif extreme is Extreme.SIZE:
        factor = np.float32(10 ** rng.uniform(*_SIZES[dtype]))
        for name in ("q", "k"):
            inputs[name] = round_to(inputs[name].astype(np.float32) * factor, Element.of(problem.dtype))
    elif extreme is Extreme.SINKS:
        size = float(largest(Element.FP32)) if rng.integers(3) == 0 else 10 ** rng.uniform(1, 5)
        inputs["sink_logits"] = (inputs["sink_logits"] + rng.choice([-1, 1]) * np.float32(size)).astype(np.float32)
    else:
        _set_bias(rng, inputs, extreme, float(largest(Element.of(problem.dtype))))
    return problem, inputs


def _set_bias(rng: np.random.Generator, inputs: dict[str, Array], extreme: Extreme, most: float) -> None:
    bias = inputs["bias"]
    rows, keys = bias.shape[2:]
    for _ in range(3):
        value = -np.inf if extreme is Extreme.HIDDEN else float(rng.choice([-most, -1e9, -1e4, 1e4, 1e20]))
        value = max(-most, min(most, value)) if np.isfinite(value) else value
        row, key = int(rng.integers(rows)), int(rng.integers(keys))
        part = rng.integers(3) if extreme is Extreme.BIAS else 1 + rng.integers(2)
        if part == 0:
            bias[..., row, key] = value
        elif part == 1:
            bias[..., row, :] = value
        else:
            bias[..., key] = value
            if extreme is Extreme.HIDDEN and "k" in inputs and inputs["k"].ndim == 4:
                at = (slice(None), slice(None), key) if inputs["k"].shape[2] == keys else (slice(None), key)
                for name in {"k", "v"} & set(inputs):
                    inputs[name][at] = rng.choice([np.nan, np.inf])


def extreme_run(seed: int, dtype: DType, extreme: Extreme, fault: ExtremeFault | None = None) -> Run:
    """One forward run; a faulty one is on the seed's first case whose output the fault changes."""
    rng = np.random.Generator(np.random.PCG64([seed, 4]))
    with np.errstate(all="ignore"):
        while True:
            problem, inputs = extreme_case(rng, dtype, extreme)
            style = sample_style(rng, None)
            got = model_forward(problem, inputs, fault=fault, style=style)
            if fault is not None:
                honest = model_forward(problem, inputs, style=style)
                if _same(got.o, honest.o):
                    continue
            return judged_run(problem, inputs, got, extreme.value, fault, forward(problem, inputs))


def extreme_gradient_runs(
    seed: int, dtype: DType, extreme: Extreme, fault: ExtremeFault | None = None
) -> list[tuple[str, Run]]:
    """One backward run: (tensor, run) pairs."""
    rng = np.random.Generator(np.random.PCG64([seed, 5]))
    with np.errstate(all="ignore"):
        while True:
            problem, inputs = extreme_case(rng, dtype, extreme, extra="--direction bwd")
            style = sample_style(rng, None)
            got = model_backward(problem, inputs, fault=fault, style=style)
            if fault is not None:
                honest = model_backward(problem, inputs, style=style)
                if _same(got["dv"], honest["dv"]):
                    continue
            return gradient_checks(problem, inputs, got, extreme.value, fault)


def _same(one: Array, other: Array) -> bool:
    """Whether no row differs by more than half of itself."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    apart = np.linalg.norm(a - b, axis=-1) > 0.5 * np.linalg.norm(b, axis=-1)
    return bool(not apart.any() and np.array_equal(np.isnan(a), np.isnan(b)))


def plan_extreme(count: int, first_seed: int = 0) -> Iterator[tuple[int, DType, Extreme]]:
    """(seed, dtype, extreme) of ``count`` honest runs that cycle through all combinations."""
    kinds = list(Extreme)
    for n in range(count):
        yield first_seed + n, DTYPES[n % 3], kinds[n // 3 % len(kinds)]


def plan_extreme_faults(per_cell: int, first_seed: int = 0) -> Iterator[tuple[int, DType, Extreme, ExtremeFault]]:
    """(seed, dtype, extreme, fault): ``per_cell`` runs for every fault, dtype, and extreme that shows it.

    Gradients may be NaN wherever an input is not finite, so ``BIASED_KEY`` shows in forward runs alone.
    """
    cells = [(d, extreme, fault) for fault, kinds in SHOWN_BY.items() for extreme in kinds for d in DTYPES]
    cells = [
        cell for cell in cells if cell[0] is not DType.FP16 or cell[1] in (Extreme.SCALE, Extreme.HIDDEN)
    ]  # 65504 is seldom enough
    for n in range(per_cell * len(cells)):
        yield first_seed + n, *cells[n % len(cells)]

"""The oracle agrees with OpenVINO's CPU plugin (float32 inference): ScaledDotProductAttention of opset 13."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward

ov = pytest.importorskip("openvino", reason="OpenVINO is not installed (extra: peers)")


@pytest.mark.parametrize("flags", ["", "--mask causal-tl", "--bias elementwise:1hss", "--scale 0.3"])
def test_scaled_dot_product_attention(flags: str) -> None:
    problem = Problem.from_cli(f"-b 2 -H 4 -s 31 -d 32 --dtype fp32 {flags}")
    inputs = fill(problem)
    ops = ov.opset13
    names = [name for name in ("q", "k", "v", "bias") if name in inputs]
    parameters = [ops.parameter(inputs[name].shape, np.float32) for name in names]
    mask = parameters[3] if "bias" in inputs else ops.constant(np.zeros((31, 31), np.float32))
    scale = ops.constant(np.float32(problem.scale))
    node = ops.scaled_dot_product_attention(*parameters[:3], mask, scale, causal="causal" in flags)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(ov.Model([node], parameters, "sdpa"), "CPU", config)
    got = next(iter(compiled([inputs[name] for name in names]).values()))
    np.testing.assert_allclose(got, forward(problem, inputs).o_tensor(problem), rtol=1e-5, atol=3e-6)

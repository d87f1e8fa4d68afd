"""The CPU's backward kernels against PyTorch's autograd in float64, without the oracle's gradients in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from tests.support.builds.cpu_outputs import outputs, tensors

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")

from tests.peers.test_torch import FEATURES, by_operations, doubles  # noqa: E402 - it needs PyTorch

GRADIENTS = ("dq", "dk", "dv")
BASE = "-b 2 -H 6 --kv-heads 2 -s 137 --seqlen-k 253 -d 32 --hdim-v 24 --direction bwd"
LARGEST = {"fp32": 2e-6, "fp16": 2e-3, "bf16": 2e-2}
"""The largest error, as a share of the largest element of the gradient."""


DAILY = "window:90,40"
"""The mask of the default suite."""


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(mask, marks=() if mask == DAILY else pytest.mark.slow)
        for mask in ("none", "causal", DAILY, "window-tl:30,12")
    ],
)
@pytest.mark.parametrize(
    "flags", [*FEATURES, "--sink-logits filled", "--softcap 3 --bias elementwise:1hss --dropout 0.2"]
)
def test_gradients(flags: str, mask: str, dtype: str, shared_cache: Path) -> None:
    problem = Problem.from_cli(f"{BASE} --dtype {dtype} --mask {mask} --sink 1 {flags}")
    inputs = tensors(problem)
    t = doubles({name: x for name, x in inputs.items() if name not in ("o", "lse")})
    wanted = [t[name].requires_grad_(True) for name in "qkv"]
    grads = torch.autograd.grad(by_operations(problem, t), wanted, t["do"])
    for name, grad, got in zip(GRADIENTS, grads, outputs(problem, inputs, shared_cache, *GRADIENTS), strict=True):
        expected = torch.nan_to_num(grad).numpy()
        assert np.abs(got - expected).max() <= LARGEST[dtype] * np.abs(expected).max(), name

"""The oracle agrees with Pallas' attention for GPUs, which JAX interprets on the processor: a third opinion, and no backend."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward

jax = pytest.importorskip("jax", reason="JAX is not installed (extra: peers)")
attention = pytest.importorskip("jax.experimental.pallas.ops.gpu.attention", reason="this JAX has no Pallas attention")

BLOCKS = attention.BlockSizes(block_q=32, block_k=32, block_q_dkv=32, block_kv_dkv=32, block_q_dq=32, block_kv_dq=32)


@pytest.mark.parametrize("flags", ["--seqlen-k 96", "--causal", "--causal -b 2 --scale 0.3"])
def test_mha(flags: str) -> None:
    problem = Problem.from_cli(f"-H 2 -s 64 -d 32 --dtype fp32 --layout bshd --lse {flags}")
    inputs, causal = fill(problem), "causal" in flags
    with jax.default_device(jax.devices("cpu")[0]):
        got = attention.mha(
            *(inputs[name] for name in "qkv"),
            None,
            problem.scale,
            causal,
            BLOCKS,
            interpret=True,
            return_residuals=True,
        )
    expected = forward(problem, inputs)
    np.testing.assert_allclose(got[0], expected.o_tensor(problem), rtol=1e-5, atol=3e-6)
    lse = got[1] * np.log(2)  # it is base 2
    np.testing.assert_allclose(lse, expected.lse_tensor(problem), rtol=1e-5, atol=3e-6)

"""The reference finds out which rows depend on how their scores are rounded, however the random signs fall."""

from __future__ import annotations

import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import forward

ROWS = 3000


def test_two_leading_keys_show_that_a_row_depends_on_rounding() -> None:
    """Two keys lead each row with one score of about three million, which single precision cannot tell apart by 0.2."""
    problem = Problem.from_cli(f"-b 1 -H 1 -s {ROWS} --seqlen-k 40 -d 16 --dtype fp32 --direction fwd+bwd")
    inputs = fill(problem, "normal", 1)
    leading = inputs["k"][0, 0, [7]]
    inputs["q"][0, 0] = 1e6 * (leading + 0.1 * inputs["q"][0, 0])
    inputs["k"][0, 0, [7, 31]] = leading
    answer = forward(problem, inputs)
    values = inputs["v"][0, 0].astype(np.float64)
    np.testing.assert_allclose(answer.o, np.broadcast_to(values[[7, 31]].mean(axis=0), answer.o.shape), rtol=1e-5)
    change = np.linalg.norm(values[7] - values[31])
    assert (answer.swing > 0.1 * change).all(), int((answer.swing <= 0.1 * change).sum())
    dq = backward(problem, inputs).swing["dq"][0, 0]
    assert (dq > 0).all()

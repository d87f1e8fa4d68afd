"""Split-KV gives the same result as the unsplit pass."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from tests.support.models.splitkv import combine, partials, split_ranges


@pytest.mark.parametrize("splits", [1, 3, 7, 40])
@pytest.mark.parametrize(
    "line",
    [
        "-b 2 -H 4 --kv-heads 2 -s 3 --seqlen-k 33 -d 8 --causal",
        "-H 2 -s 9 --seqlen-k 5 -d 8 --causal --sink-logits filled",
        "-H 2 -s 4 --seqlen-k 30 -d 8 --mask window:3,0 --sink 2 --alibi",
        "-b 2 -H 2 -s 2 -d 8 --kv-cache paged:4 --cache-seqlens 3,17 --append 1 --rotary 8 --dropout 0.2",
        "--seqlens-q 2,0,5 --seqlens-k 11,4,0 -H 2 -d 8",
    ],
)
def test_combined_parts_equal_the_whole(line: str, splits: int) -> None:
    problem = Problem.from_cli(line)
    inputs = fill(problem, "large", 4)
    whole = forward(problem, inputs)
    o, lse = partials(problem, inputs, splits)
    sinks = inputs["sink_logits"][whole.rows.h].astype(np.float64) if problem.sink_logits else None
    o, lse = combine(o, lse, sinks)
    np.testing.assert_allclose(o, whole.o, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(lse, whole.lse, rtol=1e-12, atol=1e-13)


def test_ranges_cover_the_keys() -> None:
    assert split_ranges(10, 3) == [(0, 4), (4, 8), (8, 10)]
    assert split_ranges(2, 4) == [(0, 1), (1, 2), (2, 2), (2, 2)]
    assert split_ranges(0, 2) == [(0, 0), (0, 0)]

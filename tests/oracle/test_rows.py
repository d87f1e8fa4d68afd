"""Row sampling and the memory use of the reference."""

from __future__ import annotations

import tracemalloc

import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.rows import all_rows, rows_within


def test_small_problems_are_checked_whole() -> None:
    problem = Problem.from_cli("-b 2 -H 3 -s 5 -d 8")
    assert len(rows_within(problem, 1.0)) == len(all_rows(problem)) == 30


def test_a_sample_is_bounded_reproducible_and_holds_the_ends() -> None:
    problem = Problem.from_cli("-b 4 -H 32 --kv-heads 8 -s 16k -d 128")
    rows = rows_within(problem, 0.5)
    assert 64 < len(rows) < 3000
    again = rows_within(problem, 0.5)
    np.testing.assert_array_equal(rows.i, again.i)
    assert not np.array_equal(rows.i, rows_within(problem, 0.5, seed=1).i)
    pairs = set(zip(rows.b.tolist(), rows.h.tolist(), strict=True))
    assert {(0, 0), (3, 31)} <= pairs
    for b, h in pairs:
        mine = rows.i[(rows.b == b) & (rows.h == h)]
        assert {0, 16383} <= set(mine.tolist())
        assert ((mine % 16 == 0) | (mine % 16 == 15)).any()
    assert (np.diff((rows.b * 32 + rows.h) * 16384 + rows.i) > 0).all()


def test_sampled_rows_are_the_rows_of_the_whole() -> None:
    problem = Problem.from_cli(
        "--seqlens-q 0,700,90 --seqlens-k 4,600,300 -H 4 --kv-heads 2 -d 16 --causal --dropout 0.1"
    )
    inputs = fill(problem)
    whole = forward(problem, inputs)
    rows = rows_within(problem, 0.001)
    assert len(rows) < len(whole.rows)
    part = forward(problem, inputs, rows=rows)
    for name in ("o", "lse"):
        full = getattr(whole, f"{name}_tensor")(problem)
        taken = rows.take(problem, full, problem.layout_out) if name == "o" else rows.take(problem, full)
        np.testing.assert_allclose(getattr(part, name), taken, rtol=1e-12, atol=1e-14)


def test_no_query_at_all() -> None:
    problem = Problem.from_cli("--seqlens-q 0,0 --seqlens-k 3,4 -H 2 -d 8")
    assert len(rows_within(problem, 1.0)) == 0
    assert forward(problem, fill(problem)).o.shape == (0, 8)


def test_memory_is_linear_in_the_sequence() -> None:
    problem = Problem.from_cli("-H 1 -s 16k -d 64 --dtype bf16 --causal")
    inputs = fill(problem)
    tracemalloc.start()
    forward(problem, inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # O(seqlen^2) float64 scores would take 2 GB

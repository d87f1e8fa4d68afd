"""Row sampling and the memory use of the reference."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.rows import all_rows, corner_rows, rows_within
from fmha_cli.oracle.scores import row_blocks
from fmha_cli.oracle.tensors import SequenceView


def test_small_problems_are_checked_whole() -> None:
    problem = Problem.from_cli("-b 2 -H 3 -s 5 -d 8")
    assert len(rows_within(problem, 1.0)) == len(all_rows(problem)) == 30


def test_a_sample_is_bounded_reproducible_and_differs_by_seed_and_fill() -> None:
    problem = Problem.from_cli("-b 4 -H 32 --kv-heads 8 -s 16k -d 128")
    rows = rows_within(problem, 3.0)
    assert 128 < len(rows) < 10_000
    again = rows_within(problem, 3.0)
    np.testing.assert_array_equal(rows.i, again.i)
    assert not np.array_equal(rows.i, rows_within(problem, 3.0, seed=1).i)
    assert not np.array_equal(rows.i, rows_within(problem, 3.0, fill="coded").i)
    assert (np.diff((rows.b * 32 + rows.h) * 16384 + rows.i) > 0).all()
    assert ((rows.i % 16 == 0) | (rows.i % 16 == 15)).mean() > 0.3, "tile edges are an eighth of the rows"


@pytest.mark.parametrize(
    "line",
    [
        "-b 4 -H 32 --kv-heads 8 -s 16k -d 128",
        "-b 300 -H 8 -s 1 --seqlen-k 4k -d 64",
        "--seqlens-q 0,700,1,0,90,0 --seqlens-k 40,600,3,0,300,7 -H 4 --kv-heads 2 -d 16",
    ],
)
def test_every_sequence_and_head_is_judged_whatever_it_costs(line: str) -> None:
    problem = Problem.from_cli(line)
    rows = rows_within(problem, 1e-9)
    found = set(zip(rows.b.tolist(), rows.h.tolist(), strict=True))
    lengths = problem.query_lengths()
    assert found == {(b, h) for b in range(problem.batch) if lengths[b] for h in range(problem.heads)}
    assert len(rows) == len(found) or len(rows) == problem.heads * sum(lengths)
    assert all(i < lengths[b] for b, i in zip(rows.b, rows.i, strict=True))


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
def test_corners_come_first() -> None:
    """Without much time every corner is judged in some head, with more time in every head."""
    problem = Problem.from_cli("-H 32 -s 4k -d 64 --mask window:700,-5 --sink 9")
    corners = set(corner_rows(problem, 4096, 4096).tolist())
    assert {0, 4095} < corners
    assert set(rows_within(problem, 1e-9).i.tolist()) == corners
    rows = rows_within(problem, 0.5)
    for h in range(32):
        assert corners <= set(rows.i[rows.h == h].tolist())


@pytest.mark.parametrize(
    "mask",
    [*("none", "causal", "causal-tl", "window:5,2", "window:3,-1", "window-tl:-1,4", "window-tl:9,0"), "generic:4,-2"],
)
@pytest.mark.parametrize("sizes", [(40, 40), (40, 25), (25, 40)])
@pytest.mark.parametrize("sink", [0, 3])
def test_corners_are_where_the_visible_set_begins_or_ends_to_be_limited(
    mask: str, sizes: tuple[int, int], sink: int
) -> None:
    rows, keys = sizes
    problem = Problem.from_cli(f"-H 1 -s {rows} --seqlen-k {keys} -d 8 --mask {mask} --sink {sink}")

    def state(i: int) -> tuple[bool, ...]:
        seen = [j for j in range(keys) if problem.mask.visible(i, j, rows, keys, problem.sink)]
        return (
            not seen,
            0 in seen,
            keys - 1 in seen,
            seen == list(range(min(seen, default=0), max(seen, default=-1) + 1)),
        )

    turns = {n for i in range(1, rows) if state(i) != state(i - 1) for n in (i - 1, i)}
    assert turns <= set(corner_rows(problem, rows, keys).tolist())


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
def test_a_larger_budget_judges_more_and_an_infinite_one_all() -> None:
    problem = Problem.from_cli("-H 4 -s 4k -d 64 --causal")
    sizes = [len(rows_within(problem, seconds)) for seconds in (0.05, 0.1, 0.2, float("inf"))]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 4 * 4096
    assert sizes[2] > 1.5 * sizes[1]


def test_far_rows_under_a_window_are_not_scored_against_all_keys_between_them() -> None:
    problem = Problem.from_cli("-H 1 -s 64k -d 8 --mask window:100,0 --sink 2")
    view = SequenceView(problem, {"q": np.zeros((1, 1, 65536, 8), np.float16)}, 0)
    i = np.arange(0, 65536, 50)
    spans = [int(block.high.max() - block.low.min()) for block in row_blocks(view, np.zeros_like(i), i)]
    assert max(spans) < 2200
    blocks = [block.i for block in row_blocks(view, np.zeros_like(i), i)]
    np.testing.assert_array_equal(np.concatenate(blocks), i)


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


@pytest.mark.slow
@pytest.mark.ci
def test_memory_is_linear_in_the_sequence() -> None:
    problem = Problem.from_cli("-H 1 -s 16k -d 64 --dtype bf16 --causal")
    inputs = fill(problem)
    tracemalloc.start()
    forward(problem, inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # O(seqlen^2) float64 scores would take 2 GB

"""Scratch tensors, sequences and copies of rows: what CUDA backends share apart from their drivers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fmha_cli.backends.cuda.copies import (
    blind_rows,
    broadcast_sum,
    copy_rows_in,
    copy_rows_out,
    lse_in,
    lse_out,
    rows_of,
)
from fmha_cli.backends.cuda.scratch import Scratch, workspaces
from fmha_cli.backends.cuda.sequences import Sequences
from fmha_cli.backends.gpu.arena_views import Bytes, view
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.backends.gpu.choosing import nearest_hdim
from fmha_cli.domain.plan import Plan, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Signature
from fmha_cli.run.layout import layout_of


def bound(line: str) -> tuple[Call[None], Bytes]:
    problem = Problem.from_cli(line)
    layout = layout_of(problem, gaps=True)
    arena = np.arange(layout.size, dtype=np.int64).astype(np.uint8)
    return Call(Plan(problem, ()), None, layout.tensors, 0, {}), arena


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("-b 2 -H 3 -s 5 -d 8 --layout bhsd", (2, 5, 3, 8)),
        ("-b 2 -H 3 -s 5 -d 8 --layout bshd", (2, 5, 3, 8)),
        ("--seqlens-q 2,3 -H 3 -d 8 --layout bhsd", (5, 3, 8)),
    ],
)
def test_rows_go_to_a_dense_padded_copy_and_back(line: str, shape: tuple[int, ...]) -> None:
    call, arena = bound(line)
    rows = rows_of(call, arena, "q")
    assert rows.shape == shape
    rows[...] = np.arange(rows.size).reshape(shape) % 100
    copy = np.full((shape[-3] * (shape[0] if len(shape) == 4 else 1), 3, 16), np.nan, np.float16)
    copy_rows_in(rows, copy)
    assert (copy[..., 8:] == 0).all()
    assert np.array_equal(copy[..., :8].reshape(shape), rows)
    back = rows_of(call, arena.copy(), "q")
    back[...] = 0
    copy_rows_out(copy, back)
    assert np.array_equal(back, rows)


def test_values_of_a_wrong_kernel_are_copied_without_a_word_of_numpy() -> None:
    """NaN, infinities of both signs, which sum to NaN, and numbers beyond fp16 are for the judge."""
    source = np.array([[[np.nan], [1e30], [np.inf], [-np.inf]]], np.float32)
    for heads, want in ((4, [np.nan, np.inf, np.inf, -np.inf]), (2, [np.nan, np.nan])):
        rows = np.zeros((1, heads, 1), np.float16)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            copy_rows_out(source, rows)
        assert np.array_equal(rows[0, :, 0], np.array(want, np.float16), equal_nan=True)
    one = np.zeros((1, 1, 1), np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broadcast_sum(source, one)
    assert np.isnan(one).all()


def test_the_output_has_a_layout_of_its_own() -> None:
    call, arena = bound("-b 2 -H 3 -s 5 -d 8 --hdim-v 16 --layout bshd:bhsd")
    assert rows_of(call, arena, "o").shape == (2, 5, 3, 16)
    assert rows_of(call, arena, "o").strides[1] < rows_of(call, arena, "o").strides[2]


def test_heads_are_repeated_on_the_way_in_and_summed_on_the_way_out() -> None:
    rows = np.arange(2 * 2 * 3.0).reshape(2, 2, 3).astype(np.float16)
    copy = np.zeros((2, 6, 3), np.float16)
    copy_rows_in(rows, copy)
    assert np.array_equal(copy[:, :3], np.repeat(rows[:, :1], 3, axis=1))
    copy_rows_out(copy, out := np.zeros_like(rows))
    assert np.array_equal(out, 3 * rows)


def test_a_broadcast_axis_is_summed() -> None:
    parts = np.arange(2 * 3 * 4 * 8.0, dtype=np.float32).reshape(2, 3, 4, 8)
    for shape in ((2, 3, 4, 5), (1, 3, 4, 5), (1, 1, 4, 5)):
        broadcast_sum(parts, target := np.zeros(shape, np.float32))
        axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)
        assert np.array_equal(target, parts[..., :5].sum(axis=axes, keepdims=True))


@pytest.mark.parametrize(
    ("line", "shape"),
    [("-b 2 -H 3 -s 5 --seqlen-k 4", (2, 3, 8)), ("--seqlens-q 2,0,5 --seqlens-k 3,3,4 -H 2", (3, 2, 8))],
)
def test_the_lse_goes_to_a_padded_copy_and_back(line: str, shape: tuple[int, ...]) -> None:
    problem = Problem.from_cli(f"{line} --direction bwd --mask causal")
    padded = Scratch(shape)
    layout = layout_of(problem, workspaces({"padded": padded}), gaps=True)
    arena = np.zeros(layout.size, np.uint8)
    call: Call[None] = Call(Plan(problem, ()), None, layout.tensors, 0, {})
    lse = view(arena, layout.tensors["lse"])
    lse[...] = np.arange(lse.size).reshape(lse.shape)
    blind = np.concatenate(blind_rows(problem)).reshape((2, 1, 5) if problem.seqlens_q is None else (1, 7))
    lse[np.broadcast_to(blind, lse.shape)] = -np.inf
    before = lse.copy()
    lse_in(call, arena, "padded", shape, np.inf)
    copy = view(arena, layout.tensors["padded"]).view(np.float32).reshape(shape)
    assert np.isposinf(copy[..., 5:]).all()
    assert not np.isneginf(copy).any()
    assert copy[0, 1, 1] == before[..., 1, 1].flat[0] or np.isposinf(copy[0, 1, 1])
    lse[...] = 0
    lse_out(call, arena, "padded", shape)
    assert np.array_equal(lse, before)


@pytest.mark.parametrize(
    "line",
    [
        "-b 2 -s 9 --seqlen-k 4 --causal", "-s 9 --seqlen-k 4 --mask window-tl:2,0", "-s 4 --seqlen-k 9 --mask window:2,1",
        "-s 9 --seqlen-k 4 --mask generic:-1,3", "--seqlens-q 3,0,4 --seqlens-k 0,5,2 --causal", "-s 3 --seqlen-k 0",
    ],
)  # fmt: skip
def test_blind_rows_are_those_that_see_no_key(line: str) -> None:
    p = Problem.from_cli(line)
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    for blind, (rows, keys) in zip(blind_rows(p), lengths, strict=True):
        seen = [any(p.mask.visible(i, j, rows, keys) for j in range(keys)) for i in range(rows)]
        assert blind.tolist() == [not one for one in seen]


def test_sequences_of_a_batch_a_group_and_a_cache() -> None:
    batch = Sequences(Problem.from_cli("-b 2 -s 3 --seqlen-k 5 -H 4 --kv-heads 2 -d 8 --hdim-v 16 --layout bhsd:bshd"))
    assert (batch.apart, batch.rows, batch.key_rows) == (False, 6, 10)
    group = Sequences(Problem.from_cli("--seqlens-q 3,4 --seqlens-k 0,6 -H 4 -d 8"))
    assert group.apart
    assert batch.arrays("q", "k", "held") == {}
    assert {name: array.tolist() for name, array in group.arrays("q", "k", "held").items()} == {
        "q": [0, 3, 7],
        "k": [0, 0, 6],
    }
    cache = Sequences(Problem.from_cli("-b 2 -s 1 --kv-cache linear --cache-seqlens 5,9 --cache-leftpad 3,0 -H 1 -d 8"))
    assert (cache.cached, cache.apart, cache.key_rows) == (True, True, 18)
    found = {name: array.tolist() for name, array in cache.arrays("q", "k", "held").items()}
    assert found == {"q": [0, 1, 2], "k": [3, 9, 18], "held": [5, 9]}


def test_scratch_tensors_are_dense_workspaces() -> None:
    made = {"a": Scratch((6, 4, 8), 2, spare=3), "empty": Scratch((0, 4))}
    assert workspaces(made) == (Workspace("a", 2 * (6 * 4 * 8 + 3)),)
    assert made["a"].strides == (32, 8, 1)
    assert made["a"].rows(batch=2) == Strides(batch=3 * 32, head=8, row=32)


def test_cases_come_from_just_large_enough_to_too_small() -> None:
    problem = Problem.from_cli("-d 40 --hdim-v 80")
    cases = [Signature(dtype=problem.dtype, dtype_out=problem.dtype, hdim=d, hdim_v=d) for d in (32, 256, 64, 96)]
    assert [case.hdim for case in sorted(cases, key=lambda case: nearest_hdim(problem, case))] == [96, 256, 64, 32]

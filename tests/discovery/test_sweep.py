"""Sweeps: lists, ranges, order, limits, impossible points."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.discovery.sweep import LIMIT, Dropped, expand, nothing_left, resolve_point
from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.fields import FIELDS
from fmha_cli.domain.problem import Problem


def resolved(given: dict[str, str], *, skip: bool = False) -> list[Problem | Dropped]:
    sweep = expand(given)
    return [resolve_point(sweep, raw, skip_impossible=skip) for raw in sweep.points()]


def values_of(text: str, flag: str = "seqlen") -> list[str]:
    return [str(point[flag]) for point in expand({flag: text}).points()]


@pytest.mark.promise("README: runs one problem per length", "Lists and ranges run a sweep, whose rows come in order.")
@pytest.mark.parametrize(
    ("flag", "text", "values"),
    [
        ("seqlen", "512", ["512"]),
        ("seqlen", "512,1k", ["512", "1k"]),
        ("seqlen", "512:4096:*2", ["512", "1024", "2048", "4096"]),
        ("seqlen", "512:3000:*2", ["512", "1024", "2048", "3000"]),
        ("seqlen", "1k:4k:+1k", ["1024", "2048", "3072", "4096"]),
        ("seqlen", "7,16:64:*2,100", ["7", "16", "32", "64", "100"]),
        ("seqlen", "8:8:+1", ["8"]),
        ("dropout", "0:0.3:+0.1", ["0", "0.1", "0.2", "0.3"]),
        ("softcap", "10:50:+20", ["10", "30", "50"]),
        ("splits", "auto,1:4:*2", ["auto", "1", "2", "4"]),
        ("dtype", "fp8_e4m3:bf16", ["fp8_e4m3:bf16"]),
        ("dtype", "fp16,fp8_e4m3:bf16", ["fp16", "fp8_e4m3:bf16"]),
        ("seqlens_q", "1,2,3", ["1,2,3"]),
        ("cache_seqlens", "1,2", ["1,2"]),
        ("cache_leftpad", "1,2", ["1,2"]),
        ("mask", "window:4,0", ["window:4,0"]),
    ],
)
def test_values(flag: str, text: str, values: list[str]) -> None:
    assert values_of(text, flag) == values


@pytest.mark.parametrize("text", ["1:4:+0", "4:1:+1", "1:4:*1", "0:4:*2", "1,,2", "1,", "1:4:+-1"])
def test_malformed_ranges_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="seqlen") as caught:
        expand({"seqlen": text})
    assert caught.value.code == "S001"


def test_a_bound_that_is_no_number() -> None:
    with pytest.raises(ImpossibleProblem, match="not an integer"):
        expand({"seqlen": "1:4x:+1"})


@pytest.mark.promise("A range holds both its ends, and more than 100,000 points are refused.")
def test_order_is_that_of_the_flag_table_first_flag_slowest() -> None:
    sweep = expand({"mask": ["none", "causal"], "seqlen": "16,32", "batch": "1,2"})
    points = [(p["batch"], p["seqlen"], p["mask"]) for p in sweep.points()]
    assert points == [(b, s, m) for b in "12" for s in ("16", "32") for m in ("none", "causal")]


@pytest.mark.promise("A range holds both its ends, and more than 100,000 points are refused.")
def test_defaults_bind_per_point() -> None:
    problems = [Problem.from_raw(raw) for raw in expand({"heads": "4,8", "hdim": "32,64", "seqlen": "16,32"}).points()]
    assert len(problems) == 8
    assert all(p.kv_heads == p.heads and p.hdim_v == p.hdim and p.seqlen_k == p.seqlen_q for p in problems)
    assert {round(p.scale**-2) for p in problems} == {32, 64}


@pytest.mark.promise("An impossible point ends the run before anything starts, or is dropped with a note.")
def test_an_impossible_point_is_refused_before_anything_runs() -> None:
    with pytest.raises(ImpossibleProblem) as caught:
        resolved({"heads": "8,9", "kv_heads": "4"})
    assert caught.value.code == "P006"
    assert caught.value.where == "the point --heads 9"
    assert "--skip-impossible" in (caught.value.help or "")


@pytest.mark.promise("An impossible point ends the run before anything starts, or is dropped with a note.")
def test_skip_impossible_drops_and_tells() -> None:
    problem, dropped = resolved({"heads": "8,9", "kv_heads": "4"}, skip=True)
    assert isinstance(problem, Problem)
    assert problem.heads == 8
    assert isinstance(dropped, Dropped)
    assert dropped.text == "--heads 9"


def test_every_point_impossible_is_an_empty_selection() -> None:
    dropped = [one for one in resolved({"heads": "7,9", "kv_heads": "4"}, skip=True) if isinstance(one, Dropped)]
    assert len(dropped) == 2
    assert nothing_left(dropped).code == "S003"


def test_a_single_impossible_problem_is_never_skipped() -> None:
    with pytest.raises(ImpossibleProblem):
        resolved({"heads": "9", "kv_heads": "4"}, skip=True)


@pytest.mark.promise("A range holds both its ends, and more than 100,000 points are refused.")
@pytest.mark.parametrize("given", [{"seqlen": "1:1m:+1"}, {"seqlen": "1:1k:+1", "batch": "1:1k:+1"}])
def test_absurd_products_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        expand(given)
    assert caught.value.code == "S002"


def test_the_announcement_names_the_axes() -> None:
    assert expand({"seqlen": "16,32", "dtype": "fp16,bf16,fp32"}).text() == "6 problems (seqlen x2, dtype x3)"
    assert expand({"seqlen": "16"}).text() == "1 problem"


_SIZES = st.lists(st.integers(1, 64), min_size=1, max_size=4)
_AXES = st.dictionaries(st.sampled_from(["batch", "heads", "seqlen", "seqlen_k", "hdim"]), _SIZES)


@given(_AXES)
def test_the_product_is_complete_and_each_point_stands_alone(axes: dict[str, list[int]]) -> None:
    sweep = expand({key: ",".join(map(str, values)) for key, values in axes.items()})
    problems = [resolve_point(sweep, raw) for raw in sweep.points()]
    assert len(problems) == sweep.count == prod(len(v) for v in axes.values())
    for raw, problem in zip(sweep.points(), problems, strict=True):
        assert Problem.of(**raw) == problem


@pytest.mark.promise("A range holds both its ends, and more than 100,000 points are refused.")
@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(1, 500), st.sampled_from("+*"))
def test_ranges_hold_both_ends_and_grow(first: int, width: int, step: int, how: str) -> None:
    step += how == "*"
    found = [int(v) for v in values_of(f"{first}:{first + width}:{how}{step}")]
    assert found[0] == first
    assert found[-1] == first + width
    assert found == sorted(set(found))
    assert all(b == (a + step if how == "+" else a * step) for a, b in pairwise(found[:-1]))


def test_every_flag_that_sweeps_takes_a_list() -> None:
    assert {f.name for f in FIELDS if f.sweeps} == {
        "batch", "heads", "kv-heads", "seqlen", "seqlen-k", "hdim", "hdim-v", "dtype", "splits", "softcap", "dropout",
    }  # fmt: skip
    assert LIMIT == 100_000

"""A matrix unit that treats subnormal fp16 numbers as zero (gfx90a) loses only these, and the judge allows for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.api import build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import flush_subnormals, forward
from fmha_cli.oracle.tolerance import compare, compare_gradients
from fmha_cli.run.cases import Case
from fmha_cli.run.checks import compared
from tests.support.models.kernel_model import Style, model_forward
from tests.support.models.kernel_model_backward import model_backward

FLUSHING = Style(flush=True)
LINES = (
    "-b 1 -H 2 -s 60 --seqlen-k 90 -d 16 --alibi",
    "-b 1 -H 2 -s 100 --seqlen-k 130 -d 64 --alibi --causal",
    "-b 1 -H 8 -s 100 --seqlen-k 200 -d 32 --alibi",
    "-b 1 -H 4 --kv-heads 2 -s 64 --seqlen-k 300 -d 16 --alibi --dropout 0.2",
    "-b 1 -H 2 -s 64 -d 64 --scale 1",
    "-b 1 -H 2 -s 64 -d 64 --scale 3",
    "--seqlens-q 30,0,64 --seqlens-k 60,5,200 -H 2 -d 16 --alibi",
)
LONG = "-b 1 -H 1 -s 64 --seqlen-k 4000 -d 64 --scale 0.35"
"""Rows with one probable key and thousands of keys below 2^-14 of it."""


def test_the_subnormal_terms_and_no_others() -> None:
    terms = np.array([2.0**-14, 2.0**-15, -(2.0**-15), 1.0, 0.0, -1.0])
    assert flush_subnormals(terms, DType.FP16).tolist() == [0.0, 2.0**-15, -(2.0**-15), 0.0, 0.0, 0.0]
    assert not flush_subnormals(terms, DType.BF16).any()
    assert flush_subnormals(terms.astype(np.float32), DType.FP16).dtype == np.float32


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("line", LINES)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**31))
def test_gradients_without_subnormal_terms_pass_where_the_unit_loses_them_and_only_there(line: str, seed: int) -> None:
    gradients_pass_where_terms_are_lost(line, seed)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
@given(seed=st.integers(0, 2**31))
def test_a_hundred_seeds_of_each_line(line: str, seed: int) -> None:
    gradients_pass_where_terms_are_lost(line, seed)


def gradients_pass_where_terms_are_lost(line: str, seed: int) -> None:
    problem = Problem.from_cli(f"{line} --direction bwd")
    inputs = fill(problem, "normal", seed)
    gradients, got = backward(problem, inputs), model_backward(problem, inputs, style=FLUSHING)
    comparison = compare_gradients(problem, got, gradients, flushes=True)
    assert comparison.verdict is Verdict.PASSED, comparison
    assert compare_gradients(problem, got, gradients).verdict is Verdict.WRONG


@pytest.mark.sampled(5, ci="all")
@pytest.mark.parametrize("name", ["dq", "dk", "dv"])
@pytest.mark.parametrize("line", LINES)
def test_wrong_gradients_stay_wrong(line: str, name: str) -> None:
    problem = Problem.from_cli(f"{line} --direction bwd")
    inputs = fill(problem, "normal", 3)
    gradients, got = backward(problem, inputs), model_backward(problem, inputs, style=FLUSHING)
    wrong = {**got, name: (got[name].astype(np.float64) * 1.01).astype(got[name].dtype)}
    checks = compare_gradients(problem, wrong, gradients, flushes=True).checks
    assert [n for n, check in checks if not check.passed] == [name]


def test_the_output_of_rows_with_many_improbable_keys() -> None:
    problem = Problem.from_cli(LONG)
    inputs = fill(problem, "normal", 1)
    reference, got = forward(problem, inputs), model_forward(problem, inputs, style=FLUSHING)
    assert compare(problem, got.o, None, reference, flushes=True).verdict is Verdict.PASSED
    assert compare(problem, got.o, None, reference).verdict is Verdict.WRONG
    wrong = (got.o.astype(np.float64) * 1.01).astype(got.o.dtype)
    assert compare(problem, wrong, None, reference, flushes=True).verdict is Verdict.WRONG


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("arch", "verdict"), [("gfx90a", Verdict.PASSED), ("gfx942", Verdict.WRONG)])
def test_the_architectures_facts_decide(arch: str, verdict: Verdict) -> None:
    registry = build_registry()
    for line in (f"{LINES[1]} --direction bwd", LONG):
        problem = Problem.from_cli(line)
        inputs = fill(problem, "normal", 1)
        best = select(problem, registry, {}, Wanted(backend="ck_tile", arch=arch)).best
        assert best is not None
        plan = registry.backend("ck_tile").plan(problem, best.kernel, best.device)
        if problem.direction.forward:
            case = Case(problem, "normal", inputs, reference=forward(problem, inputs))
            outputs = {"o": model_forward(problem, inputs, style=FLUSHING).o}
        else:
            case = Case(problem, "normal", inputs, gradients=backward(problem, inputs))
            outputs = model_backward(problem, inputs, style=FLUSHING)
        assert compared(plan, case, outputs).verdict is verdict

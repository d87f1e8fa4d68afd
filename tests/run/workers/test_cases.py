"""Inputs and references are computed once and shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.domain.errors import UnsupportedError, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Inputs
from fmha_cli.run.cases import Cases

FLAGS = "-b 1 -H 2 -s 6 -d 8 --dtype fp16"


class Maker:
    """Counts the inputs that it makes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __call__(self, problem: Problem, kind: str) -> Inputs:
        self.calls.append((problem.repro(), kind))
        return fill(problem, kind, 0)


@pytest.fixture
def maker() -> Maker:
    return Maker()


def test_a_case_is_computed_once_for_all_kernels_of_a_problem(maker: Maker) -> None:
    cases = Cases(maker, oracle_s=5.0)
    first = cases.case(Problem.from_cli(FLAGS), "normal", stream="fmha")
    second = cases.case(Problem.from_cli(f"{FLAGS} --lse --splits 3"), "normal", stream="fmha")
    assert second.reference is first.reference is not None
    assert second.inputs is first.inputs
    assert second.problem.lse
    assert len(maker.calls) == 1
    cases.case(Problem.from_cli(FLAGS), "coded", stream="fmha")
    cases.case(Problem.from_cli(f"{FLAGS} --causal"), "normal", stream="fmha")
    assert len(maker.calls) == 3


def test_without_a_check_no_reference_is_computed(maker: Maker) -> None:
    case = Cases(maker, oracle_s=5.0).case(Problem.from_cli(FLAGS), "normal", stream="fmha", check=False)
    assert (case.reference, case.gradients) == (None, None)


def test_the_oldest_case_goes_when_room_is_short(maker: Maker) -> None:
    cases = Cases(maker, oracle_s=5.0, kept_bytes=1)
    for _ in range(2):
        cases.case(Problem.from_cli(FLAGS), "normal", stream="fmha")
    assert len(maker.calls) == 1, "the last one is always kept"
    cases.case(Problem.from_cli(FLAGS), "ties", stream="fmha")
    cases.case(Problem.from_cli(FLAGS), "normal", stream="fmha")
    assert len(maker.calls) == 3


def test_the_size_of_a_case_counts_every_array(maker: Maker) -> None:
    cases = Cases(maker, oracle_s=5.0)
    case = cases.case(Problem.from_cli(f"{FLAGS} --direction bwd"), "normal", stream="fmha")
    gradients = case.gradients
    assert gradients is not None
    held = [gradients.dq, gradients.dk, gradients.dv, *gradients.noise.values()]
    held += [*gradients.lost.values(), *gradients.swing.values(), *case.inputs.values()]
    held += [gradients.widths[name] for name in ("dq", "dk", "dv")]
    assert case.nbytes == sum(array.nbytes for array in held)
    appended = Problem.from_cli("-b 1 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 5 --append 1")
    forward = cases.case(appended, "normal", stream="fmha")
    assert forward.reference is not None
    cache = forward.reference.cache
    assert len(cache) == 2
    without = replace(forward, reference=replace(forward.reference, cache={}))
    assert forward.nbytes == without.nbytes + sum(array.nbytes for array in cache.values())


@pytest.mark.parametrize("mode", ["-b 1 -s 5", "--seqlens-q 3,2"])
def test_a_backward_problem_gets_o_and_lse_of_a_forward_pass(maker: Maker, mode: str) -> None:
    problem = Problem.from_cli(f"{mode} -H 2 -d 8 --dtype bf16 --causal --direction bwd")
    case = Cases(maker, oracle_s=1e-9).case(problem, "normal", stream="fmha")
    assert case.gradients is not None
    assert case.reference is None, "o is an input here, not an output to judge"
    assert case.inputs["o"].dtype == case.inputs["q"].dtype
    assert case.inputs["lse"].dtype == np.float32
    assert np.isfinite(case.inputs["o"].astype(np.float32)).all(), "all rows, whatever the oracle may cost"
    assert np.isfinite(case.inputs["lse"]).all()


def test_large_problems_are_sampled(maker: Maker) -> None:
    case = Cases(maker, oracle_s=1e-9).case(Problem.from_cli("-b 1 -H 6 -s 64 -d 8"), "normal", stream="fmha")
    assert case.reference is not None
    assert 0 < len(case.reference.rows) < 6 * 64


def test_what_the_oracle_does_not_know_is_an_error(maker: Maker) -> None:
    cases = Cases(maker, oracle_s=5.0)
    with pytest.raises(UsageError):
        cases.case(Problem.from_cli(FLAGS), "no-such-fill", stream="fmha")
    with pytest.raises(UnsupportedError):
        cases.case(Problem.from_cli(f"{FLAGS} --dropout 0.5"), "normal", stream="no-such-stream")

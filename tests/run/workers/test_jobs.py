"""What a worker receives is the problem that was planned, every field of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.features import CacheStorage
from fmha_cli.domain.problem import Problem
from fmha_cli.run.job import problem_of, wire_of
from tests.support.generators.strategies import problems


@given(problems())
def test_a_problem_arrives_whole(problem: Problem) -> None:
    problem = replace(problem, storage=CacheStorage(rows=3, keys=1))
    assert problem_of(json.loads(json.dumps(wire_of(problem)))) == problem


def test_a_problem_that_lacks_a_field_is_refused() -> None:
    wire = wire_of(Problem.of())
    with pytest.raises(TypeError, match="softcap"):
        problem_of({key: value for key, value in wire.items() if key != "softcap"})
    with pytest.raises(DecodeError, match="dtype"):
        problem_of({**wire, "dtype": "fp15"})
    with pytest.raises(KeyError, match="colour"):
        problem_of({**wire, "colour": 1})

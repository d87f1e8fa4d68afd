"""Our choice equals that of upstream's host code, for random problems and devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3 import heuristics, situation
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.domain.decision import Supported, Unsupported
from tests.support.referees.flash_attn_3.choice import answers, check, device_of, listed
from tests.support.referees.flash_attn_3.program import choice_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ci,
    pytest.mark.promise("README: FlashAttention-2 and 3, xformers, cuDNN"),
]
"""Upstream's host code takes half a minute to compile. CI runs these tests in a separate stage."""

SAMPLE = 3000


@pytest.fixture(scope="module")
def program(shared_cache: Path) -> Path:
    return choice_program(shared_cache)


def test_a_sample_is_chosen_alike(program: Path) -> None:
    equal, kernels = check(answers(program, 1, SAMPLE))
    assert equal > 0.95 * SAMPLE
    assert kernels > 900


def test_what_upstream_refuses_is_refused_here(program: Path) -> None:
    refused = [(p, u) for p, u, answer in answers(program, 3, 600) if answer["refused"] and "hdim" not in answer]
    assert refused
    for problem, units in refused:
        assert all(isinstance(d, Unsupported) for d in decide(problem, device_of(units))), problem.repro()


def test_the_first_rank_is_upstreams_kernel(program: Path) -> None:
    for problem, units, answer in answers(program, 4, 400):
        found = [d for d in decide(problem, device_of(units)) if isinstance(d, Supported)]
        if found:
            assert min(found, key=lambda d: d.rank).kernel == listed(answer), problem.repro()


PLANTED = (
    (situation, "MAX_SPLITS", 64),
    (situation, "HDIMS", (64, 128, 128, 192, 256)),
    (situation, "second_product", lambda problem: False),
    (situation, "head_size", lambda problem: problem.hdim),
    (heuristics, "GOOD_ENOUGH", 0.8),
    (heuristics, "BUSY", 0.9),
    (heuristics, "FEW_TILES", 5),
    (heuristics, "L2_BYTES", 40 << 20),
)


@pytest.mark.parametrize(("module", "name", "value"), PLANTED)
def test_a_planted_fault_is_seen(
    program: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: Any
) -> None:
    found = answers(program, 5, SAMPLE)
    situation.situation_of.cache_clear()
    monkeypatch.setattr(module, name, value)
    try:
        with pytest.raises((AssertionError, KeyError)):
            check([(replace(problem, scale=problem.scale), units, answer) for problem, units, answer in found])
    finally:
        situation.situation_of.cache_clear()

"""The choice and every byte of a launch are upstream's, whose host code is compiled and asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.aiter_asm import launching
from fmha_cli.codegen.aiter_asm.params import AiterForward
from fmha_cli.codegen.struct import host_layout
from fmha_cli.domain.errors import EnvironmentProblem
from tests.support.referees.aiter_asm.compare import compare_choices
from tests.support.referees.aiter_asm.host_code import host_code

DEVICES = (("gfx942", 304), ("gfx942", 80), ("gfx950", 256))


@pytest.fixture(scope="module")
def libraries(shared_cache: Path) -> dict[int, Any]:
    try:
        return {units: host_code(shared_cache, copy) for copy, units in enumerate((304, 80, 256))}
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of AITER: {fault.what}")


def check(libraries: dict[int, Any], count: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for arch, units in DEVICES:
        total += compare_choices(libraries[units], arch, units, Random(units), count)
    return total


@pytest.mark.slow
@pytest.mark.ci
def test_choice_and_launches_are_upstreams(libraries: dict[int, Any]) -> None:
    found = check(libraries, 150)
    assert {"both refuse", "refused for a fault of upstream", "nothing to launch"} < set(found)
    assert sum(count for outcome, count in found.items() if outcome.startswith("equal")) > 100


@pytest.mark.slow
def test_many_choices_and_launches_are_upstreams(libraries: dict[int, Any]) -> None:
    found = check(libraries, 4000)
    print(found)
    assert sum(found.values()) == 12_000


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name, *_ in host_layout(AiterForward)])
def test_a_wrong_argument_is_noticed(libraries: dict[int, Any], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make = launching.params_of

    def changed(stage: Any, call: Any) -> Any:
        block = make(stage, call)
        return replace(block, **{name: getattr(block, name) + 1})

    monkeypatch.setattr(launching, "params_of", changed)
    with pytest.raises(AssertionError):
        check(libraries, 100)

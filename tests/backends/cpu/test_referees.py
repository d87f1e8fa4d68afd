"""A seeded sample of the check ``extremes``: verdicts of CPU kernels under extreme numbers, and two referees that know nothing of them."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import pytest

from fmha_cli import api
from tests.support.builds.planted_cpu import planted
from tests.support.fakes.software_tiles import AMX
from tests.support.generators.cpu.cases import BEST
from tests.support.generators.extreme_draws import drawn
from tests.support.generators.extreme_problem import Family
from tests.support.models.faults import ExtremeFault
from tests.support.referees.extreme_attention import run

DTYPE = "bf16" if BEST == AMX else "fp32"


@pytest.fixture(scope="module")
def registry() -> api.Registry:
    return api.build_registry()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("family", Family)
def test_verdict_and_referees_agree(registry: api.Registry, family: Family) -> None:
    found = run(drawn(50_000 + list(Family).index(family), family, DTYPE), registry, backend="cpu", arch=BEST)
    assert found.outcome == "right", found.text
    assert found.rows or found.gradients


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("fault", "family", "number"),
    [
        (ExtremeFault.SCALED_MAXIMUM, Family.PREFILL, 60_034),
        (ExtremeFault.SCALED_MAXIMUM, Family.BACKWARD, 60_034),
        (ExtremeFault.BIASED_KEY, Family.PREFILL, 60_006),  # NaN in gradients of such an input is accepted
    ],
)
def test_both_see_a_planted_fault(
    registry: api.Registry, fault: ExtremeFault, family: Family, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmha_cli.backends.cpu.building.emit", partial(planted, fault=fault))
    found = run(drawn(number, family, DTYPE), registry, backend="cpu", arch=BEST)
    assert found.verdict == "WRONG"
    assert found.wrong, found.text
    assert found.by_torch or find_spec("torch") is None

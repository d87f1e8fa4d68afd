"""CK-Tile on an AMD GPU: every family is checked by the oracle. Without a GPU, the tests are skipped with the reason.

The cases are those of ``benchmarks/gpu_check.py``. Tests that run everywhere check that they use the named families.
"""

from __future__ import annotations

import json
from pathlib import Path

import gpu_check
import pytest
from amd_cases import AMD_CASES
from check_case import CheckCase
from devices import device_or_skip

from fmha_cli import api
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict


@pytest.fixture
def device() -> DeviceFacts:
    return device_or_skip("ck_tile", "AMD")


@pytest.mark.parametrize("case", AMD_CASES, ids=lambda c: c.name)
def test_every_family_on_the_device(case: CheckCase, device: DeviceFacts, shared_cache: Path) -> None:
    (record,) = api.run(Problem.from_cli(case.flags), backend="ck_tile", device=device.id, cache_root=str(shared_cache))
    assert record.verdict is Verdict.PASSED, record.notes
    assert tuple(stage.family for stage in record.stages) == case.families


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("case", AMD_CASES, ids=lambda c: c.name)
def test_the_cases_lead_to_their_families(case: CheckCase) -> None:
    backend, device = build_registry().backend("ck_tile"), DeviceFacts.of_arch("gfx942")
    problem = Problem.from_cli(case.flags)
    fits = [d for d in backend.decide(problem, device) if isinstance(d, Supported)]
    assert fits, case.name
    plan = backend.plan(problem, min(fits, key=lambda d: d.rank).kernel, device)
    assert tuple(stage.family.value for stage in plan.stages) == case.families


def test_all_families_are_there() -> None:
    assert {family for case in AMD_CASES for family in case.families} == {
        f.value for f in Family if f is not Family.FWD_PREPARE
    }


def test_without_a_gpu_every_case_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "device_of", lambda vendor: (None, "no device in this test"))
    monkeypatch.setattr("sys.argv", ["gpu_check.py", "-o", str(tmp_path / "out.json")])
    assert gpu_check.main() == 4
    document = json.loads((tmp_path / "out.json").read_text())
    assert {case["verdict"] for case in document["cases"]} == {"NOT_RUN"}
    assert {case["why"] for case in document["cases"]} == {"no device in this test"}
    assert len(document["cases"]) == len(AMD_CASES)

"""FlashAttention on an NVIDIA GPU: every family and feature is checked by the oracle.

Without a GPU, the tests are skipped with the probe's reason. The cases are those of ``benchmarks/gpu_check.py``. Tests
that run everywhere check that they use the named families.
"""

from __future__ import annotations

import json
from pathlib import Path

import gpu_check
import pytest
from check_case import Case
from fa_check.cases import CASES, SANITIZED
from fa_check.kernels import FLAGS, pool_of
from fa_check.speed_points import POINTS
from gpu_cases import device_or_skip

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, CacheKind, Layout, Mode, RotaryStyle
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.walk.request import Command, Request
from fmha_cli.walk.run import run_points

BACKEND = "flash_attn"
PROBLEMS = [Problem.from_cli(case.flags) for case in CASES]


@pytest.fixture
def device() -> DeviceFacts:
    return device_or_skip(BACKEND, "NVIDIA")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_case_on_the_device(case: Case, device: DeviceFacts, shared_cache: Path) -> None:
    request = Request(command=Command.VALIDATE, backend=BACKEND, device=device.id, cache_root=str(shared_cache))
    for record in run_points([Problem.from_cli(case.flags)], request, build_registry()).records:
        assert record.verdict is Verdict.PASSED, record.notes
        assert tuple(stage.family for stage in record.stages) == case.families


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_the_cases_lead_to_their_families(arch: str) -> None:
    pool = pool_of(build_registry().backend(BACKEND), DeviceFacts.of_arch(arch))
    for case in CASES:
        plan = pool.plans[case.flags]
        assert isinstance(plan, Plan), (case.name, plan)
        assert tuple(stage.family.value for stage in plan.stages) == case.families, case.name
    assert {stage.kernel.arch for stage in pool.stages.values()} == {arch}


def test_every_point_of_the_race_has_kernels() -> None:
    pool = pool_of(build_registry().backend(BACKEND), DeviceFacts.of_arch("sm_90"))
    assert {point.name for point in POINTS if isinstance(pool.plans[point.flags], str)} == set()
    assert set(pool.plans) == set(FLAGS)


def test_all_families_and_names() -> None:
    found = {family for case in CASES for family in case.families}
    assert found == {"fwd", "fwd_splitkv", "fwd_splitkv_combine", "bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"}
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert set(SANITIZED) <= set(names)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_every_feature_has_a_case(backward: bool) -> None:
    mine = [p for p in PROBLEMS if p.direction.backward is backward]
    assert {p.hdim for p in mine} >= {32, 64, 96, 128, 192, 256, 24, 40, 80, 104, 160, 224}
    assert {p.dtype.value for p in mine} == {"fp16", "bf16"}
    assert {p.mask.kind for p in mine} == {MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW}
    assert {p.mode for p in mine} == set(Mode)
    assert {p.layout for p in mine} == set(Layout)
    for has in (
        lambda p: p.alibi is not Alibi.NONE,
        lambda p: p.softcap > 0,
        lambda p: p.dropout > 0,
        lambda p: p.heads > p.kv_heads,
        lambda p: p.seqlen_q % 128 > 0,
        lambda p: p.deterministic is backward,
    ):
        assert any(has(p) for p in mine)


def test_every_feature_of_a_cache_has_a_case() -> None:
    cached = [p for p in PROBLEMS if p.kv_cache.kind is not CacheKind.NONE]
    for has in (
        lambda p: p.cache_leftpad is not None and p.append > 0,
        lambda p: p.cache_leftpad is not None and p.splits > 1,
        lambda p: p.kv_cache.page == 256,
        lambda p: p.kv_cache.page == 512,
        lambda p: p.paged and p.append > 0,
        lambda p: p.rotary.dim > 0 and p.rotary.style is RotaryStyle.HALF,
        lambda p: p.rotary.dim > 0 and p.rotary.style is RotaryStyle.INTERLEAVED,
        lambda p: p.append > 0 and not p.rotary.dim,
        lambda p: p.splits > 1 and p.seqlen_q == 1,
    ):
        assert any(has(p) for p in cached)


def test_without_a_gpu_every_row_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "first_device", lambda: (None, "no device in this test"))
    out, results = tmp_path / "out.json", tmp_path / "results"
    monkeypatch.setattr("sys.argv", ["gpu_check.py", "--vendor", "nvidia", "-o", str(out), "--results", str(results)])
    assert gpu_check.main() == 4
    document = json.loads(out.read_text())
    assert {row["verdict"] for row in document["rows"]} == {"NOT_RUN"}
    assert {row["why"] for row in document["rows"]} == {"no device in this test"}
    assert {row["part"] for row in document["rows"]} == {"cases", "speed", "decode", "random", "sanitizer"}
    assert sum(row["part"] == "random" for row in document["rows"]) == 500
    assert "NOT_RUN: there was no GPU" in (results / "nvidia.md").read_text()
    assert json.loads((results / "nvidia.json").read_text()) == document

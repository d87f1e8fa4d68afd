"""The backends of NVIDIA GPUs: every family and feature is checked by the oracle.

Without a GPU, the tests are skipped with the probe's reason. The cases are those of ``benchmarks/gpu_check.py``. Tests
that run everywhere check that they use the named families.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import gpu_check
import gpu_prepare
import pytest
from check_case import CheckCase
from devices import device_or_skip
from nvidia_check.kernels import pool_of
from nvidia_check.plans import planned
from nvidia_check.random_problems import random_problems
from nvidia_check.subjects import (
    CUDNN,
    EFFICIENT,
    FLASH,
    FLASH_3,
    KNOWN,
    PLUGGED,
    SUBJECTS,
    TRITON,
    WITH_CLUSTERS,
    Subject,
    subjects_of,
)

from fmha_cli.backends.flash_attn_3.catalogue import FAMILIES
from fmha_cli.codegen.cudnn_oss.facts import facts_of, kernels
from fmha_cli.codegen.mem_efficient.traits import kernels_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Layout, Mode, QScale, RotaryStyle
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from tools.result_data import read_json

EVERY = [(subject, case) for subject in KNOWN for case in subject.cases]
PLACES = (
    *((FLASH, arch) for arch in ("sm_80", "sm_86", "sm_90", "sm_100", "sm_120")),
    (FLASH_3, "sm_90a"),
    *((EFFICIENT, arch) for arch in ("sm_75", "sm_86", "sm_120")),
    *((CUDNN, arch) for arch in ("sm_90a", "sm_100a", "sm_103a")),
    *((TRITON, arch) for arch in ("sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a")),
)
PLACES_FIRST = {
    (FLASH.backend, "sm_90"),
    (FLASH.backend, "sm_120"),
    (FLASH_3.backend, "sm_90a"),
    (EFFICIENT.backend, "sm_75"),
    (CUDNN.backend, "sm_90a"),
    (CUDNN.backend, "sm_100a"),
    (TRITON.backend, "sm_80"),
    (TRITON.backend, "sm_100a"),
}
"""The cases of the default run: much and little shared memory, the oldest tensor cores, with and without clusters."""


@cache
def installed() -> frozenset[str]:
    """The backends' names. Loading all plugins again for each of two hundred cases takes seconds."""
    return frozenset(build_registry().backends)


def installed_or_skip(subject: Subject) -> None:
    if subject.backend not in installed():
        pytest.skip(f"the plugin with the backend {subject.backend} is not installed")


def problems(subject: Subject) -> list[Problem]:
    return [Problem.from_cli(case.flags) for case in subject.cases]


@pytest.mark.parametrize(("subject", "case"), EVERY, ids=lambda x: getattr(x, "name", None) or x.backend)
def test_every_case_on_the_device(subject: Subject, case: CheckCase, shared_cache: Path) -> None:
    installed_or_skip(subject)
    device = device_or_skip(subject.backend, "NVIDIA")
    request = Request(command=Command.VALIDATE, backend=subject.backend, device=device.id, cache_root=str(shared_cache))
    if case.kernels:
        plan = planned(build_registry().backend(subject.backend), Problem.from_cli(case.flags), device, case.kernels)
        if isinstance(plan, str):
            pytest.skip(plan)
        request = replace(request, kernel=plan.stages[0].kernel.name)
    for record in Run([Problem.from_cli(case.flags)], request, build_registry()).records():
        assert record.verdict is Verdict.PASSED, record.notes
        assert tuple(stage.family for stage in record.stages) == case.families


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    ("subject", "arch"),
    [
        pytest.param(subject, arch, marks=() if (subject.backend, arch) in PLACES_FIRST else pytest.mark.slow)
        for subject, arch in PLACES
    ],
    ids=lambda x: x if isinstance(x, str) else x.backend,
)
def test_the_cases_lead_to_their_families(subject: Subject, arch: str) -> None:
    installed_or_skip(subject)
    device = DeviceFacts.of_arch(arch)
    here = subject.at(device)
    assert bool(here.kernels) is (subject is TRITON and arch in WITH_CLUSTERS)
    pool = pool_of(build_registry().backend(subject.backend), device, here.flags, here.kernels)
    for case in here.cases:
        plan = pool.plans[case.flags]
        assert isinstance(plan, Plan), (case.name, plan)
        assert tuple(stage.family.value for stage in plan.stages) == case.families, case.name
        assert case.kernels in plan.stages[0].kernel.name
    assert {point.name for point in here.points if isinstance(pool.plans[point.flags], str)} == set()
    assert {stage.kernel.arch for stage in pool.stages.values()} == {arch}


def test_all_families_and_names() -> None:
    found = {family for case in FLASH.cases for family in case.families}
    assert found == {"fwd", "fwd_splitkv", "fwd_splitkv_combine", "bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"}
    for subject in KNOWN:
        names = [case.name for case in subject.cases]
        assert len(set(names)) == len(names)
        assert set(subject.sanitized) <= set(names)
        assert len({point.name for point in subject.points}) == len(subject.points)


@pytest.mark.promise("The check for NVIDIA GPUs has the documented problems, and is NOT_RUN without a GPU.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_page_has_the_numbers_of_a_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "cuda.md").read_text("utf-8")
    device, registry, counts = gpu_prepare.machine_of("sm_90"), build_registry(), []
    for subject in subjects_of(""):
        here = subject.at(device)
        kernels = len(pool_of(registry.backend(subject.backend), device, here.flags, here.kernels).stages)
        row = f"{kernels} | {len(here.cases)} | {len(here.points)} | {here.count} |"
        assert re.search(rf"^\| `{subject.backend}`[^|]*\| {re.escape(row)}$", page, re.MULTILINE), row
        counts.append(kernels)
    assert f"these are {sum(counts[: len(SUBJECTS)])} kernels, or" in page
    assert len(counts) == len(SUBJECTS) or f"{sum(counts)} with the plugin" in page


def test_the_backends_of_a_check_are_chosen_by_name() -> None:
    installed = build_registry().backends
    assert subjects_of("") == (*SUBJECTS, *(one for one in PLUGGED if one.backend in installed))
    assert subjects_of("triton") == (TRITON,)
    assert subjects_of("cudnn_oss,flash_attn") == (FLASH, CUDNN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--backend", "nope,cudnn_oss"),
            "no check for nope; there are flash_attn, flash_attn_3, mem_efficient, cudnn_oss",
        ),
        (("--parts", "cases,"), "no part ; there are cases, speed, random, sanitizer"),
        (("--parts", "casez"), "no part casez"),
        (("--archive", "nowhere.tar.xz"), "nowhere.tar.xz"),
    ],
)
def test_a_wrong_argument_is_answered_before_any_work(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu_check.py", "--vendor", "nvidia", "--dry-run", *words])
    with pytest.raises(SystemExit) as ended:
        gpu_check.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_every_feature_of_flash_attention_has_a_case(backward: bool) -> None:
    mine = [p for p in problems(FLASH) if p.direction.backward is backward]
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


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_every_feature_of_flash_attention_3_has_a_case(backward: bool) -> None:
    mine = [p for p in problems(FLASH_3) if p.direction.backward is backward]
    assert {p.hdim for p in mine} >= {64, 96, 128, 192, 256, 40, 80, 104, 160, 224}
    assert {p.dtype.value for p in mine} == {"fp16", "bf16", *(() if backward else ("fp8_e4m3",))}
    assert {p.mask.kind for p in mine} == {MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW}
    assert {p.mode for p in mine} == set(Mode)
    assert {p.layout for p in mine} == set(Layout)
    pairs = {(p.hdim, p.hdim_v) for p in mine if p.hdim != p.hdim_v}
    assert pairs == ({(192, 128)} if backward else {(192, 128), (64, 256), (64, 512)})
    for has in (
        lambda p: p.softcap > 0,
        lambda p: p.heads > p.kv_heads,
        lambda p: p.seqlen_q % 128 > 0,
        lambda p: p.seqlen_q > p.seqlen_k,
        lambda p: 0 in p.key_lengths() or backward,
        lambda p: p.lse is not backward,
        lambda p: p.qscale is QScale.HEAD or backward,
        lambda p: p.deterministic is backward,
    ):
        assert any(has(p) for p in mine)


def test_most_kinds_of_kernels_of_flash_attention_3_have_a_case() -> None:
    """Clusters, packed query heads, lengths that differ, pages, appended keys, and sums in a fixed order."""
    pool = pool_of(build_registry().backend(FLASH_3.backend), DeviceFacts.of_arch("sm_90a"), FLASH_3.flags)
    kernels = [stage.kernel for stage in pool.stages.values()]
    assert {kernel.family for kernel in kernels} == set(FAMILIES)
    forward = [k for k in kernels if k.family in (Family.FWD, Family.FWD_SPLITKV)]
    for name in ("pack_gqa", "varlen", "paged"):
        assert {getattr(k.algorithm, name) for k in forward} == {False, True}, name
    assert {k.algorithm.cluster for k in forward} == {1, 2}
    assert {k.signature.append for k in forward} == {Need.NO, Need.YES}
    main = [k.algorithm for k in kernels if k.family is Family.BWD_DQ_DK_DV]
    for name in ("gqa", "varlen", "fixed_order"):
        assert {getattr(one, name) for one in main} == {False, True}, name


@pytest.mark.parametrize("units", [78, 114, 144])
def test_cases_of_flash_attention_3_take_the_same_kernels_on_smaller_and_larger_devices(units: int) -> None:
    """The kernels are built before the device is known, and building one takes most of a minute."""
    backend, usual = build_registry().backend(FLASH_3.backend), DeviceFacts.of_arch("sm_90a")
    flags = [case.flags for case in FLASH_3.cases]
    other = replace(usual, id="cuda:0", units=units)
    assert pool_of(backend, other, flags).stages.keys() == pool_of(backend, usual, flags).stages.keys()


def test_random_problems_take_all_kinds_that_flash_attention_3_serves() -> None:
    """Each is drawn from a case, and the kernels of the cases and points serve it."""
    device, backend = DeviceFacts.of_arch("sm_90a"), build_registry().backend(FLASH_3.backend)
    pool = pool_of(backend, device, FLASH_3.flags)
    bases = problems(FLASH_3)
    found = random_problems(bases, lambda p: pool.serves(planned(backend, p, device)), FLASH_3.draw, len(bases))
    drawn = [Problem.from_cli(one.flags) for one in found]
    assert {p.dtype for p in drawn} == {p.dtype for p in bases}
    assert {p.kv_cache.kind for p in drawn} == set(CacheKind)
    assert {p.kv_cache.page for p in drawn} >= {1, 16, 128}
    assert {p.rotary.style for p in drawn if p.rotary.dim} == set(RotaryStyle)
    assert {p.direction for p in drawn} == {p.direction for p in bases}
    for has in (
        lambda p: p.seqlens_q is not None,
        lambda p: p.hdim != p.hdim_v,
        lambda p: p.cache_leftpad is not None,
        lambda p: p.deterministic,
        lambda p: p.append > 0,
        lambda p: p.splits > 1,
        lambda p: p.softcap > 0,
        lambda p: p.qscale is QScale.HEAD,
        lambda p: p.heads > p.kv_heads,
    ):
        assert any(has(p) for p in drawn)


@pytest.mark.parametrize("subject", [FLASH, FLASH_3], ids=lambda subject: subject.backend)
def test_every_feature_of_a_cache_has_a_case(subject: Subject) -> None:
    cached = [p for p in problems(subject) if p.kv_cache.kind is not CacheKind.NONE]
    pages = {p.kv_cache.page for p in cached if p.paged}
    assert pages == ({256, 512} if subject is FLASH else {1, 16, 64, 128, 256})
    for has in (
        lambda p: p.cache_leftpad is not None and p.append > 0,
        lambda p: p.cache_leftpad is not None and (p.splits > 1 or subject is FLASH_3),
        lambda p: p.cache_batch_idx is not None or subject is FLASH,
        lambda p: p.paged and p.splits > 1,
        lambda p: p.paged and p.append > 0,
        lambda p: p.rotary.dim > 0 and p.rotary.style is RotaryStyle.HALF,
        lambda p: p.rotary.dim > 0 and p.rotary.style is RotaryStyle.INTERLEAVED,
        lambda p: p.append > 0 and not p.rotary.dim,
        lambda p: p.splits > 1 and p.seqlen_q == 1,
    ):
        assert any(has(p) for p in cached)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_every_feature_of_memory_efficient_attention_has_a_case(backward: bool) -> None:
    mine = [p for p in problems(EFFICIENT) if p.direction.backward is backward]
    assert {p.dtype.value for p in mine} == {"fp32", "fp16", "bf16"}
    assert {p.mask.kind for p in mine} >= {MaskKind.NONE, MaskKind.CAUSAL, MaskKind.CAUSAL_TL, MaskKind.WINDOW}
    assert {p.bias for p in mine} == {Bias.NONE, Bias.R11SS, Bias.R1HSS, Bias.RBHSS}
    assert {p.mode for p in mine} == set(Mode)
    assert {p.layout for p in mine} == set(Layout)
    for has in (
        lambda p: p.dropout > 0,
        lambda p: p.kv_heads == 1 < p.heads,
        lambda p: 1 < p.kv_heads < p.heads,
        lambda p: p.hdim != p.hdim_v,
        lambda p: p.hdim % 8,
        lambda p: p.hdim > 128,
        lambda p: p.seqlen_k % 8 and p.bias is not Bias.NONE,
        lambda p: 0 in p.key_lengths(),
        lambda p: p.dbias is backward,
        lambda p: backward or p.kv_cache.kind is CacheKind.LINEAR,
        lambda p: p.deterministic is backward,
    ):
        assert any(has(p) for p in mine)


def test_most_kernels_of_memory_efficient_attention_have_a_case() -> None:
    """Every forward kernel, and of the backward kernels all but those for devices with less shared memory."""
    device = DeviceFacts.of_arch("sm_90")
    pool = pool_of(build_registry().backend("mem_efficient"), device, EFFICIENT.flags)
    used = {build_registry().backend("mem_efficient").upstream_name(stage.kernel) for stage in pool.stages.values()}
    forward, backward = (
        {t.name for t in kernels_of(family) if t.algorithm.tag == 80} for family in (Family.FWD, Family.BWD_DQ_DK_DV)
    )
    assert forward <= used
    print(f"{len(used & backward)} of {len(backward)} backward kernels")
    assert len(used & backward) >= 20


def test_every_feature_of_cudnns_kernels_has_a_case() -> None:
    mine = problems(CUDNN)
    assert {p.hdim for p in mine} == {64, 128}
    assert {p.lse for p in mine} == {False, True}
    assert {p.layout for p in mine} == set(Layout)
    assert {p.kv_heads == p.heads for p in mine} == {False, True}
    l2 = facts_of(kernels("sm_100a")[1]).l2_bytes
    assert any(p.batch * p.heads > l2 // (p.seqlen_k * 2 * p.hdim * 2) for p in mine)  # sections and a remainder


def test_random_problems_have_every_mask_and_length_that_cudnns_kernels_serve() -> None:
    rng, base = Random(0), problems(CUDNN)[0]
    drawn = [Problem.from_cli(" ".join(CUDNN.draw(base, rng))) for _ in range(200)]
    assert {p.seqlen_q // 128 % 2 for p in drawn} == {0, 1}
    assert {p.mask.kind for p in drawn} == {MaskKind.CAUSAL, MaskKind.CAUSAL_TL, MaskKind.WINDOW, MaskKind.WINDOW_TL}
    backend = build_registry().backend("cudnn_oss")
    assert all(isinstance(planned(backend, p, DeviceFacts.of_arch("sm_90a")), Plan) for p in drawn)
    served = [p for p in drawn if isinstance(planned(backend, p, DeviceFacts.of_arch("sm_100a")), Plan)]
    assert {p.seqlen_q // 128 % 2 for p in served} == {0}


@pytest.mark.promise("The check for NVIDIA GPUs has the documented problems, and is NOT_RUN without a GPU.")
def test_without_a_gpu_every_row_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "first_device", lambda backends: (None, "no device in this test"))
    out, results = tmp_path / "out.json", tmp_path / "results"
    monkeypatch.setattr("sys.argv", ["gpu_check.py", "--vendor", "nvidia", "-o", str(out), "--results", str(results)])
    assert gpu_check.main() == 4
    document = json.loads(out.read_text())
    assert document["whole"]
    assert {row["verdict"] for row in document["rows"]} == {"NOT_RUN"}
    assert {row["why"] for row in document["rows"]} == {"no device in this test"}
    assert {row["part"] for row in document["rows"]} == {"cases", "speed", "decode", "random", "sanitizer"}
    drawn = [row["backend"] for row in document["rows"] if row["part"] == "random"]
    assert {name: drawn.count(name) for name in drawn} == {one.backend: one.count for one in subjects_of("")}
    assert "NOT_RUN: there was no GPU" in (results / "nvidia.md").read_text()
    assert read_json(results / "data" / "nvidia.json.xz") == document

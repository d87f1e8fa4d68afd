"""Our rules against the library's own answers: what they accept passes, and what they refuse does not run, or computes something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

BACKEND = pytest.importorskip("fmha_ggml", reason="pip install -e plugins/fmha-ggml").BACKEND

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="xllamacpp is not installed")

EVIDENCE = {
    "K982": ("flash", "f16", "-H 4 -s 8 --seqlen-k 300 -d 64 --dtype fp16"),
    "K983": ("flash", "q8_0", "-H 2 -s 5 -d 64 --dtype fp16"),
    "K983 4 bits": ("flash", "q4_0", "-H 2 -s 70 -d 64 --dtype fp16 --causal"),
    "K984": ("unfused", "f32", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal"),
    "K985": ("flash", "f32", "-H 2 -s 5 -d 8 --dtype fp32 --bias elementwise"),
    "K986": ("flash", "f32", "-H 2 -s 4k --seqlen-k 8 -d 8 --dtype fp32 --alibi"),
    "K986 slopes": ("unfused", "f32", "-H 2 -s 5 -d 8 --dtype fp32 --alibi-slopes filled:h"),
    "K987": ("unfused", "f32", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 9,4"),
    "K987 tile": ("flash", "f32", "-b 2 -H 2 -s 70 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 90,4"),
    "K988": ("unfused", "f32", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 0,0"),
}
"""Rule -> a kernel and a problem that it alone refuses."""

NEEDLESS = {
    "K982": "few keys, and keys of unequal weight, lose little in fp16",
    "K983": "weights that are nearly equal, and keys in whole numbers, lose little",
    "K985": "a bf16 bias within the range of fp16 is exact",
}
"""Rules that also refuse what the library computes rightly, and why."""


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_ggml", cache_root=shared_cache)


def kernel_for(form: str, cache: str, problem: api.Problem) -> api.KernelSpec:
    how, listed = (form, cache, problem.dtype), BACKEND.listed("generic")
    found: api.KernelSpec = next(k for k in listed if (k.algorithm.form, k.algorithm.cache, k.signature.dtype) == how)
    return found


@pytest.mark.promise("JAX, llama.cpp and MLX run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_is_borne_out_by_the_library(name: str, subject: conformance.Subject) -> None:
    form, cache, line = EVIDENCE[name]
    problem = api.Problem.from_cli(line)
    conformance.check_refusal(subject, name.partition(" ")[0], problem, kernel_for(form, cache, problem))


def test_a_quantized_row_of_other_than_whole_blocks_ends_the_library(subject: conformance.Subject) -> None:
    problem = api.Problem.from_cli("-H 2 -s 5 -d 40 --dtype fp16")
    kernel = kernel_for("flash", "q8_0", problem)
    found = plugin.reasons_against(BACKEND.rules(), problem, kernel, subject.devices[0])
    assert {reason.id for reason in found} == {"K983", "K989"}
    assert conformance.borne_out(subject, problem, kernel)


def test_every_rule_has_evidence() -> None:
    assert {name.partition(" ")[0] for name in EVIDENCE} | {"K989"} == conformance.own_rules(BACKEND)


def test_a_sample_of_problems_agrees_with_the_library(subject: conformance.Subject) -> None:
    assert conformance.check_agreement(subject, conformance.library_problems(7, 24), NEEDLESS).accepted >= 8


@pytest.mark.slow
def test_300_problems_agree_with_the_library(subject: conformance.Subject) -> None:
    found = conformance.check_agreement(subject, conformance.library_problems(1, 300), NEEDLESS)
    assert found.accepted >= 100
    unchosen = {k.name for k in BACKEND.listed("generic") if k.algorithm.cache.quantized}
    assert found.kernels == {k.name for k in BACKEND.listed("generic")} - unchosen

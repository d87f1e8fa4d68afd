"""Our rules against the library's own answers: what they accept passes, and what they refuse does not run, or computes something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

BACKEND = pytest.importorskip("fmha_mlx", reason="pip install -e plugins/fmha-mlx").BACKEND

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="mlx-cpu is not installed")

EVIDENCE = {
    "K953": ("f32", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal"),
    "K953 tensor": ("f32", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --mask window:2,0"),
    "K954": ("bf16", "-H 4 -s 64 -d 64 --dtype bf16"),
    "K954 fp16": ("f16", "-H 4 -s 64 -d 64 --dtype fp16 --causal"),
    "K955": ("f32", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 9,4"),
    "K956": ("f32", "-H 2 -s 5 -d 8 --dtype fp32 --alibi"),
}
"""Rule -> a precision and a problem that it alone refuses."""

NEEDLESS = {
    "K954": "weights that are nearly equal, and few keys, lose little",
    "K956": "a query that sees one key has no use for a bias",
}
"""Rules that also refuse what the library computes rightly, and why."""


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_mlx", cache_root=shared_cache)


@pytest.mark.promise("JAX, llama.cpp and MLX run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_is_borne_out_by_the_library(name: str, subject: conformance.Subject) -> None:
    precision, line = EVIDENCE[name]
    problem = api.Problem.from_cli(line)
    how, listed = (precision, problem.dtype), BACKEND.listed("generic")
    kernel = next(k for k in listed if (k.algorithm.precision, k.signature.dtype) == how)
    conformance.check_refusal(subject, name.partition(" ")[0], problem, kernel)


def test_every_rule_has_evidence() -> None:
    assert {name.partition(" ")[0] for name in EVIDENCE} == conformance.own_rules(BACKEND)


def test_a_sample_of_problems_agrees_with_the_library(subject: conformance.Subject) -> None:
    assert conformance.check_agreement(subject, conformance.library_problems(7, 24), NEEDLESS).accepted >= 6


@pytest.mark.slow
def test_300_problems_agree_with_the_library(subject: conformance.Subject) -> None:
    found = conformance.check_agreement(subject, conformance.library_problems(1, 300), NEEDLESS)
    assert found.accepted >= 80
    unchosen = {k.name for k in BACKEND.listed("generic") if k.algorithm.precision != "f32"}
    assert found.kernels == {k.name for k in BACKEND.listed("generic")} - unchosen

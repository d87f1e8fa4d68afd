"""Our rules against the library's own answers: what they accept passes, and what they refuse does not run, or computes something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

BACKEND = pytest.importorskip("fmha_onnxruntime", reason="pip install -e plugins/fmha-onnxruntime").BACKEND

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="onnxruntime is not installed")

EVIDENCE = {
    "K930": ("mha", "-H 2 -s 3 --seqlen-k 8 -d 8 --dtype fp32 --causal --layout bshd"),
    "K930 from the top left": ("mha", "-H 2 -s 3 --seqlen-k 8 -d 8 --dtype fp32 --mask causal-tl --layout bshd"),
    "K930 always causal": ("gqa", "-H 2 -s 5 -d 8 --dtype fp32 --layout bshd"),
    "K930 fewer keys": ("gqa", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal --layout bshd"),
    "K930 two masks": ("attention24", "-H 2 -s 5 -d 8 --dtype fp32 --mask window:1,1 --bias elementwise"),
    "K931": ("gqa", "-H 2 -s 5 -d 12 --dtype fp32 --causal --layout bshd"),
    "K931 two dims": ("gqa", "-H 2 -s 5 -d 16 --hdim-v 8 --dtype fp32 --causal --layout bshd"),
    "K931 rotary": (
        "gqa",
        "-s 1 -d 24 --dtype fp32 --causal --kv-cache linear --cache-seqlens 9 --append 1 --rotary 16",
    ),
    "K932": ("gqa", "-b 2 -H 2 -s 3 --seqlen-k 8 -d 8 --dtype fp32 --causal --layout bshd"),
    "K933": ("attention24", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 9,4"),
    "K933 appended": ("gqa", "-H 2 -s 1 -d 8 --dtype fp32 --causal --kv-cache linear --cache-seqlens 9 --append 2"),
    "K934": ("attention23", "-H 2 -s 5 -d 8 --dtype fp32 --alibi"),
    "K935": ("attention23", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 0,0"),
    "K937 gqa": ("gqa", "-H 2 -s 5 -d 8 --dtype fp32 --causal --scale 0"),
    "K937 mha": ("mha", "-H 2 -s 5 -d 8 --dtype fp32 --scale 0"),
    "K937 attention": ("attention24", "-H 2 -s 5 -d 8 --dtype fp32 --scale 0"),
    "K936": ("attention24", "-H 4 -s 256 -d 128 --dtype fp16"),
    "K936 sinks": ("gqa", "-H 6 --kv-heads 2 -s 33 -d 8 --causal --sink-logits filled --layout bhsd:bshd"),
}
"""Rule -> an operator and a problem that it alone refuses."""

NEEDLESS = {
    "K934": "a query that sees one key has no use for a bias",
    "K936": "short sums in fp16 stay within the budgets",
}
"""Rules that also refuse what the library computes rightly, and why."""


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_onnxruntime", cache_root=shared_cache)


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_is_borne_out_by_the_library(name: str, subject: conformance.Subject) -> None:
    op, line = EVIDENCE[name]
    problem = api.Problem.from_cli(line)
    kernel = next(k for k in BACKEND.listed("generic") if k.algorithm.op == op and k.signature.dtype is problem.dtype)
    conformance.check_refusal(subject, name.partition(" ")[0], problem, kernel)


def test_every_rule_has_evidence() -> None:
    """K938 is about older releases (test_releases.py)."""
    assert {name.partition(" ")[0] for name in EVIDENCE} == conformance.own_rules(BACKEND) - {"K938"}


def test_a_sample_of_problems_agrees_with_the_library(subject: conformance.Subject) -> None:
    assert conformance.check_agreement(subject, conformance.library_problems(7, 24), NEEDLESS).accepted >= 4


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.slow
def test_500_problems_agree_with_the_library(subject: conformance.Subject) -> None:
    found = conformance.check_agreement(subject, conformance.library_problems(1, 500), NEEDLESS)
    assert found.accepted >= 150
    unchosen = {k.name for k in BACKEND.listed("generic") if k.algorithm.scores == "f16"}
    assert found.kernels == {k.name for k in BACKEND.listed("generic")} - unchosen

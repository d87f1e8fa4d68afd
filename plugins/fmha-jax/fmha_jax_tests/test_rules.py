"""Our rules against the library's own answers: what they accept passes, and what they refuse does not run, or computes something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from fmha_cli import api, conformance, plugin

BACKEND = pytest.importorskip("fmha_jax", reason="pip install -e plugins/fmha-jax").BACKEND

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="jax is not installed")

EVIDENCE = {
    "K975": ("is_causal", "-H 2 -s 5 --seqlen-k 9 -d 8 --dtype fp32 --causal"),
    "K975 window": ("local_window_size", "-H 2 -s 5 --seqlen-k 9 -d 8 --dtype fp32 --mask window:2,1"),
    "K975 sink": ("local_window_size", "-H 2 -s 9 -d 8 --dtype fp32 --mask window:2,0 --sink 1"),
    "K976": ("mask", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal"),
    "K976 gradient": ("mask", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal --direction bwd"),
    "K977": ("is_causal", "-H 2 -s 5 -d 8 --hdim-v 16 --dtype fp32"),
    "K978": ("mask", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 9,4"),
    "K979": ("is_causal", "-H 2 -s 5 -d 8 --dtype fp32 --alibi"),
}
"""Rule -> an argument and a problem that it alone refuses."""

NEEDLESS = {"K979": "a query that sees one key has no use for a bias"}
"""Rules that also refuse what the library computes rightly, and why."""


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_jax", cache_root=shared_cache)


@pytest.mark.promise("JAX, llama.cpp and MLX run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_is_borne_out_by_the_library(name: str, subject: conformance.Subject) -> None:
    masking, line = EVIDENCE[name]
    problem, found = api.Problem.from_cli(line), BACKEND.listed("generic")
    how = (masking, problem.dtype, problem.direction.backward)
    kernel = next(k for k in found if (k.algorithm.masking, k.signature.dtype, k.family.backward) == how)
    conformance.check_refusal(subject, name.partition(" ")[0], problem, kernel)


def test_every_rule_has_evidence() -> None:
    assert {name.partition(" ")[0] for name in EVIDENCE} == conformance.own_rules(BACKEND)


def gradients(seed: int, count: int) -> Iterator[api.Problem]:
    """Random problems of the backward pass, of which a third has a bias."""
    draw = Random(seed)
    while count:
        kv_heads, rows = draw.choice([1, 2]), draw.choice([1, 5, 33, 64])
        words = f"--direction bwd -b {draw.choice('12')} -H {kv_heads * draw.choice([1, 3])} --kv-heads {kv_heads} -s {rows}"
        words += f" --seqlen-k {draw.choice([rows, rows, 40])} -d {draw.choice([8, 24, 64])} --layout {draw.choice(['bhsd', 'bshd'])}"
        words += f" --dtype {draw.choice(['fp32', 'fp16', 'bf16'])} {draw.choice(['', '--causal', '--mask causal-tl', '--mask window:9,3'])}"
        words += draw.choice(["", "", " --bias elementwise:1hss --dbias"])
        with suppress(api.UsageError):
            yield api.Problem.from_cli(words)
            count -= 1


@pytest.mark.ci
@pytest.mark.slow
def test_a_sample_of_problems_agrees_with_the_library(subject: conformance.Subject) -> None:
    sample = [*conformance.library_problems(7, 4), *gradients(7, 1)]
    assert conformance.check_agreement(subject, sample, NEEDLESS).accepted >= 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_300_problems_agree_with_the_library(seed: int, subject: conformance.Subject) -> None:
    problems = [*conformance.library_problems(seed, 75), *gradients(seed, 25)]
    found = conformance.check_agreement(subject, problems, NEEDLESS)
    assert found.accepted >= 30
    assert found.kernels == {k.name for k in BACKEND.listed("generic")}

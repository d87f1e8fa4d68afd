"""A hint's change of flags is possible, changes something, and answers its reason: over a seeded sample of problems and backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fmha_cli.discovery.nearest import applied, changes_in
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from tests.support.generators.strategies import problems

PLACES = {
    "cpu": "x86_64_v3",
    "flash_attn": "sm_80",
    "mem_efficient": "sm_80",
    "cudnn_oss": "sm_90a",
    "flash_attn_3": "sm_90a",
    "ck_tile": "gfx942",
}
LATENT = "-s 9 -H 4 --kv-heads 1 --dtype bf16"
MOST = 30
"""The most hints that are followed for one problem and backend."""


def first_of_each(problem: Problem, backend: str, arch: str) -> Iterator[tuple[Unsupported, Reason]]:
    """One refusal of a single kernel for each hint."""
    seen: set[tuple[str, str]] = set()
    for decision in build_registry().backend(backend).decide(problem, DeviceFacts.of_arch(arch)):
        for reason in getattr(decision, "reasons", ()) if decision.kernel is not None else ():
            if reason.hint and (reason.id, reason.hint) not in seen and len(seen) < MOST:
                seen.add((reason.id, reason.hint))
                assert isinstance(decision, Unsupported)
                yield decision, reason


def follow(problem: Problem, backend: str, arch: str) -> None:
    for refusal, reason in first_of_each(problem, backend, arch):
        for change in changes_in(reason.hint):
            other = applied(problem, change)
            assert other is not None, f"impossible or the same: {reason}: {change}: {problem.repro()}"
            answers = build_registry().backend(backend).decide(other, DeviceFacts.of_arch(arch))
            now = next((d for d in answers if d.kernel == refusal.kernel), None)
            left = {(r.id, r.text) for r in getattr(now, "reasons", ())}
            assert (reason.id, reason.text) not in left, f"the same reason: {reason}: {change}: {problem.repro()}"


@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(problem=problems())
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("backend", [name for name in PLACES if name != "ck_tile"])
def test_a_hint_leads_to_support_or_to_the_next_reason(backend: str, problem: Problem) -> None:
    follow(problem, backend, PLACES[backend])


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(problem=problems())
@pytest.mark.parametrize("backend", PLACES)
def test_a_hint_leads_to_support_or_to_the_next_reason_in_many_problems(backend: str, problem: Problem) -> None:
    follow(problem, backend, PLACES[backend])


@pytest.mark.parametrize(
    ("line", "backend", "arch", "id", "hint"),
    [
        ("--seqlens-q 3,5 -H 2 --kv-heads 2", "flash_attn", "sm_80", "K463", "--seqlen 5 instead of --seqlens-q and --splits 2"),
        ("-b 2 -s 5 -H 2", "flash_attn", "sm_80", "K463", "--splits 2"),
        ("--seqlens-q 9,64 --causal", "cudnn_oss", "sm_90a", "K612", "--seqlen 128 instead of --seqlens-q and --seqlen-k 128"),
        ("-s 9 --kv-cache linear --cache-seqlens 7", "cudnn_oss", "sm_90a", "K612", "--seqlen 128 and --seqlen-k 128 and --kv-cache none"),
        ("--seqlens-q 200,3 -H 8 --kv-heads 2", "cpu", "x86_64_v3", "K103", "--seqlen 32 or less instead of --seqlens-q"),
        ("-s 4 -d 10 --kv-cache linear --cache-seqlens 9 --append 4 --rotary 8", "flash_attn", "sm_80", "K440", "--rotary 0"),
        ("--seqlens-q 3,5 --seqlens-k 7,9", "ck_tile", "gfx942", "K013", "--kv-cache paged:128 and --cache-seqlens 7,9 instead of --seqlens-k"),
        ("-s 9 --kv-cache linear --cache-seqlens 7", "cpu", "x86_64_v3", "K025", None),
        (f"{LATENT} -d 584 --mla-rope 72", "flash_attn_3", "sm_90a", "K688", "--mla-rope 64 and --hdim 576"),
        (f"{LATENT} -d 300 --mla-rope 64", "flash_attn_3", "sm_90a", "K688", "--hdim 320"),
        (f"{LATENT} -d 572 --mla-rope 60", "flash_attn_3", "sm_90a", "K655", "--mla-rope 64 and --hdim 576"),
        (f"{LATENT} -d 576 --mla-rope 300 --direction bwd", "flash_attn_3", "sm_90a", "K656", "--hdim 256 and drop --mla-rope"),
        (f"{LATENT} -d 100 --mla-rope 36 --direction bwd", "flash_attn_3", "sm_90a", "K694", "--hdim-v 64 instead of --mla-rope"),
    ],
)  # fmt: skip
def test_the_hint_says_lengths_as_the_problem_states_them(
    line: str, backend: str, arch: str, id: str, hint: str | None
) -> None:
    problem = Problem.from_cli(line)
    decisions = build_registry().backend(backend).decide(problem, DeviceFacts.of_arch(arch))
    found = {reason.hint for d in decisions for reason in getattr(d, "reasons", ()) if reason.id == id}
    assert hint in found, found
    follow(problem, backend, arch)

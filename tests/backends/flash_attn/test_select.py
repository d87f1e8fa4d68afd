"""Selection on FlashAttention for any problem: it never raises, never contradicts its rules, always has a result.

The main kernel is upstream's choice.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.decide import decide, in_order, upstreams_family
from fmha_cli.backends.flash_attn.key import key_of
from fmha_cli.backends.flash_attn.plan import plan_of
from fmha_cli.backends.flash_attn.signatures import MAIN
from fmha_cli.backends.flash_attn.situation import situation_of
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.decision import Supported, Trace, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import reasons_against
from tests.support.generators.flash_attn.problems import random_problem
from tests.support.generators.strategies import problems
from tests.support.referees.flash_attn.dispatch import strict_lookup

DEVICES = (
    ("sm_80", 108),
    ("sm_86", 84),
    ("sm_89", 128),
    ("sm_90", 132),
    ("sm_90a", 78),
    ("sm_100", 148),
    ("sm_103a", 160),
    ("sm_120", 170),
)
RULES = CubinBackend(UPSTREAM, driven=False).rules()
BEST = (0, 0, 0, 0)
ARCHS = st.sampled_from(DEVICES)


def one(arch: str, units: int = 132) -> DeviceFacts:
    return DeviceFacts(id="cuda:0", archs=(arch,), units=units)


def check(problem: Problem, device: DeviceFacts) -> None:
    """Assert everything that must hold of one selection."""
    trace = Trace(tuple(decide(problem, device)))
    kernels = [d.kernel for d in trace.decisions]
    assert len(kernels) == len(set(kernels)), "a kernel was judged twice"
    assert all(kernel is not None and kernel.family in MAIN for kernel in kernels)
    able = sorted(trace.supported, key=lambda d: d.rank)
    if not able:
        assert trace.reasons(), problem.repro()
        return
    assert [d.rank for d in able].count(BEST) == 1, problem.repro()
    assert all(reasons_against(RULES, problem, d.kernel, device) == [] for d in able), problem.repro()
    assert all(("FlashAttention-2's host code takes it" in d.note) == (d.rank == BEST) for d in able)
    found = strict_lookup(key_of(problem, device.archs[0], device))
    assert found.kernel == able[0].kernel, problem.repro()
    for decision in able:
        plan = plan_of(problem, decision.kernel, device)
        assert plan.main == decision.kernel
        assert all(w.bytes > 0 for w in plan.workspaces)
        assert len({w.name for w in plan.workspaces}) == len(plan.workspaces)


@settings(max_examples=30)
@given(problem=problems(), device=ARCHS)
def test_any_problem(problem: Problem, device: tuple[str, int]) -> None:
    check(problem, one(*device))


@settings(max_examples=70)
@given(seed=st.integers(0, 2**32), device=ARCHS)
@pytest.mark.slow
@pytest.mark.ci
def test_any_problem_near_the_kernels(seed: int, device: tuple[str, int]) -> None:
    check(random_problem(Random(seed)), one(*device))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=4000)
@given(seed=st.integers(0, 2**32), device=ARCHS)
def test_thousands_of_problems_near_the_kernels(seed: int, device: tuple[str, int]) -> None:
    check(random_problem(Random(seed)), one(*device))


def best(line: str, device: DeviceFacts) -> Supported:
    able = [d for d in decide(Problem.from_cli(line), device) if isinstance(d, Supported)]
    return min(able, key=lambda d: d.rank)


@pytest.mark.parametrize(
    ("line", "family", "compiled"),
    [
        ("-b 16 -s 2k", Family.FWD, "mode=batch"),
        ("-b 16 -s 2000", Family.FWD, "mode=any"),
        ("-b 16 -s 2k --causal", Family.FWD, "mask=causal"),
        ("-b 16 -s 2k --mask window:64,0", Family.FWD, "mask=window"),
        ("-b 16 -s 2k --mask window:9999,0", Family.FWD, "mask=causal"),
        ("-b 16 -s 2k --mask window:9999,9999", Family.FWD, "mode=batch"),
        ("-b 1 -H 8 -s 512", Family.FWD_SPLITKV, "split=yes"),
        ("-b 16 -H 32 -s 1 --seqlen-k 8k --splits 1", Family.FWD, "softcap=no"),
        ("-b 64 -H 32 -s 1 --kv-cache linear --cache-seqlens 8k", Family.FWD, "cache=none"),
        ("-b 64 -H 32 -s 1 --kv-cache paged:256 --cache-seqlens 8k", Family.FWD_SPLITKV, "split=no"),
        ("-b 64 -H 32 -s 1 --kv-cache linear --cache-seqlens 8k --append 1", Family.FWD_SPLITKV, "append=yes"),
        ("--seqlens-q 1,1 --kv-heads 1 --seqlens-k 9k,8k", Family.FWD_SPLITKV, "split=yes"),
        ("--seqlens-q 1,2 --kv-heads 1 --seqlens-k 9k,8k", Family.FWD, "mode=any"),
        ("-b 4 -s 1 --seqlen-k 9k --dropout 0.1", Family.FWD, "dropout=yes"),
        ("-s 2k --direction bwd --causal", Family.BWD_DQ_DK_DV, "mask=causal"),
        ("-s 1 --seqlen-k 64 --direction bwd --causal", Family.BWD_DQ_DK_DV, "mask=causal"),
        ("--seqlens-q 5,6 --direction bwd", Family.BWD_DQ_DK_DV, "mode=any"),
    ],
)
def test_what_upstream_takes(line: str, family: Family, compiled: str) -> None:
    chosen = best(line, one("sm_90"))
    name, _, value = compiled.partition("=")
    assert chosen.kernel.family is family
    assert str(getattr(chosen.kernel.signature, name)) == value


def test_other_kernels_follow_with_a_note() -> None:
    able = [d for d in decide(Problem.from_cli("-b 16 -s 2k"), one("sm_90")) if isinstance(d, Supported)]
    ordered = sorted(able, key=lambda d: d.rank)
    forms = [(d.kernel.family, algorithm_of(d.kernel).even_mn, algorithm_of(d.kernel).even_k) for d in ordered]
    assert forms == [
        (Family.FWD, True, True),
        (Family.FWD, False, True),
        (Family.FWD, False, False),
        (Family.FWD_SPLITKV, True, True),
        (Family.FWD_SPLITKV, False, True),
        (Family.FWD_SPLITKV, False, False),
    ]
    assert "K471" in ordered[1].note
    assert "K470" in ordered[3].note


def test_a_device_takes_its_plain_architecture_first() -> None:
    assert in_order(("sm_90a", "sm_90")) == ["sm_90", "sm_90a"]
    assert in_order(("sm_89", "sm_86", "sm_80")) == ["sm_89", "sm_86", "sm_80"]
    assert in_order(("sm_103a", "sm_100")) == ["sm_103a", "sm_100"]
    h200 = DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90"), units=132)
    able = [d for d in decide(Problem.from_cli("-b 16 -s 2k"), h200) if isinstance(d, Supported)]
    ordered = sorted(able, key=lambda d: d.rank)
    assert [d.arch for d in ordered if d.rank[0] == 0] == ["sm_90"]
    twin = next(d for d in ordered if d.arch == "sm_90a")
    assert "K472" in twin.note
    assert twin.kernel.algorithm == ordered[0].kernel.algorithm
    rtx = DeviceFacts(id="cuda:0", archs=("sm_89", "sm_86", "sm_80"), units=128)
    assert best("-b 16 -s 2k", rtx).arch == "sm_89"


def test_an_unknown_architecture_is_one_reason() -> None:
    (refused,) = decide(Problem.from_cli(""), DeviceFacts.of_arch("gfx942"))
    assert isinstance(refused, Unsupported)
    assert [r.id for r in refused.reasons] == ["K479"]


def test_the_nearest_miss_names_the_cause_alone() -> None:
    for line, wanted in (
        ("-d 100", {"K422"}),
        ("-d 512", {"K423"}),
        ("--dtype fp32", {"K420"}),
        ("--softcap 30 --dropout 0.1", {"K425"}),
        ("--kv-cache paged:16", {"K436"}),
        ("--bias elementwise", {"K426"}),
        ("--sink-logits filled", {"K428"}),
        ("-s 128 --seqlen-k 256 --mask causal-tl", {"K430"}),
        ("--direction fwd+bwd", {"K025"}),
    ):
        trace = Trace(tuple(decide(Problem.from_cli(line), one("sm_90"))))
        ids = {r.id for r in trace.unsupported[0].reasons} - {"K008", "K009"}
        assert not trace.supported
        assert ids == wanted, line


def test_upstreams_family_of_a_forced_kernel() -> None:
    device = one("sm_90")
    for line in (
        "-s 1 --kv-cache paged:256 --splits 1",
        "-s 1 --kv-cache linear --cache-seqlens 9 --append 1 --splits 1",
    ):
        assert upstreams_family(situation_of(Problem.from_cli(line), device)) is Family.FWD_SPLITKV

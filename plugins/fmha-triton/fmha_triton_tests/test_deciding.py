"""Rules: each refuses, passes the nearest problem that it admits, and is asked once for kernels that look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.algorithm import Language
from fmha_triton.catalogue import algorithm_of, kernels_of
from fmha_triton.deciding import decide
from fmha_triton.plan import plan_of
from fmha_triton.rules import ALL_RULES, RULES

from fmha_cli import api, plugin

HOPPER = plugin.DeviceFacts(id="none", archs=("sm_90a",), units=132)
PLAIN = "-H 2 -s 64 -d 64 --dtype fp16"
CASES = {
    "K960": ("-H 2 -s 64 -d 20 --dtype fp16", "-H 2 -s 64 -d 24 --dtype fp16"),
    "K961": ("-H 2 -s 64 -d 56 --dtype fp16", PLAIN),
    "K963": ("-H 65536 -s 64 -d 64 --dtype fp16", "-H 65535 -s 64 -d 64 --dtype fp16"),
    "K964": ("-H 65535 -s 64 -d 256 --dtype fp16", "-H 64 -s 64 -d 256 --dtype fp16"),
    "K965": ("-H 1 -s 1 --seqlen-k 536870912 -d 64 --dtype fp16", "-H 1 -s 1 --seqlen-k 536870911 -d 64 --dtype fp16"),
    "K967": ("-H 1 -s 64 --seqlen-k 0 -d 64 --dtype fp16", PLAIN),
}
"""A rule's id: a problem that it refuses for some kernel, and one that it refuses for none of the same kernels."""


def problem(flags: str) -> api.Problem:
    return api.Problem.from_cli(flags)


@pytest.mark.parametrize("id", CASES)
def test_a_rule_refuses_and_passes_its_neighbour(id: str) -> None:
    rule = next(rule for rule in RULES if rule.id == id)
    refused, passed = (problem(flags) for flags in CASES[id])
    against = [kernel for kernel in kernels_of("sm_90a") if rule.check(refused, kernel, HOPPER)]
    assert against
    admitted = [kernel for kernel in against if rule.check(passed, kernel, HOPPER) is None]
    assert admitted, f"{id} refuses {CASES[id][1]} too"


def test_stage_kernels_are_no_candidates() -> None:
    found = list(decide(problem(PLAIN), HOPPER))
    stages = [d for d in found if d.kernel.family in (plugin.Family.FWD_SPLITKV_COMBINE, plugin.Family.BWD_DOT_DO_O)]
    assert stages
    assert all("K966" in {reason.id for reason in d.reasons} for d in stages)


@pytest.mark.parametrize("flags", [PLAIN, "-H 4 -s 33 -d 40 --dtype bf16 --alibi --direction bwd", CASES["K964"][0]])
def test_asking_once_gives_the_answers_of_asking_for_each_kernel(flags: str) -> None:
    """A check that reads more of a kernel than the rule says gives other answers here."""
    asked = problem(flags)
    for decision in list(decide(asked, HOPPER))[::7]:
        each = tuple(plugin.reasons_against(ALL_RULES, asked, decision.kernel, HOPPER))
        assert each == (decision.reasons if isinstance(decision, api.Unsupported) else ())


def best(flags: str, device: plugin.DeviceFacts = HOPPER) -> api.KernelSpec:
    fitting = [d for d in decide(problem(flags), device) if isinstance(d, api.Supported)]
    return min(fitting, key=lambda d: d.rank).kernel


def test_the_hopper_kernel_is_first_where_it_fits() -> None:
    assert algorithm_of(best(f"{PLAIN} --causal")).language is Language.GLUON
    for other in (f"{PLAIN} --softcap 5", "-H 2 -s 64 -d 96 --dtype fp16", f"{PLAIN} --mask window:3,0"):
        assert algorithm_of(best(other)).language is Language.TRITON
    elsewhere = plugin.DeviceFacts.of_arch("sm_80")
    assert algorithm_of(best(f"{PLAIN} --causal", elsewhere)).language is Language.TRITON


def test_decoding_is_split_over_the_device() -> None:
    flags = "-H 8 --kv-heads 2 -s 1 --seqlen-k 8192 -d 64 --dtype fp16"
    kernel = best(flags)
    plan = plan_of(problem(flags), kernel, HOPPER)
    assert [stage.family.value for stage in plan.stages] == ["fwd_splitkv", "fwd_splitkv_combine"]
    assert plan.splits == 64
    wanted = replace(problem(flags), splits=3)
    assert plan_of(wanted, kernel, HOPPER).splits == 3
    spaces = {space.name: space.bytes for space in plan_of(wanted, kernel, HOPPER).workspaces}
    assert spaces == {"partial_o": 3 * 8 * 64 * 4, "partial_lse": 3 * 8 * 4}


def test_a_backward_plan_has_two_stages_and_their_sums() -> None:
    flags = "-b 2 -H 4 --kv-heads 2 -s 50 --seqlen-k 70 -d 64 --dtype bf16 --direction bwd"
    plan = plan_of(problem(flags), best(flags), HOPPER)
    assert [stage.family.value for stage in plan.stages] == ["bwd_dot_do_o", "bwd_dq_dk_dv"]
    assert [(space.name, space.bytes) for space in plan.workspaces] == [("sums", 2 * 4 * 50 * 4)]

"""Both passes in one plan: the backward kernels read the O and LSE that the forward kernels have left."""

from __future__ import annotations

import ctypes
from random import Random

import pytest

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from tests.support.generators.flash_attn.small import BWD, DIRECTED, random_problem
from tests.support.models.flash_attn.chain import plans_of, run_plan

DEVICE = DeviceFacts.of_arch("sm_80")
BOTH = "--direction fwd+bwd"
LINES = (
    f"{BOTH} -b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 140 -d 64 --causal --alibi",
    f"{BOTH} -b 2 -H 4 --kv-heads 2 -s 1 --seqlen-k 150 -d 64 --causal",
    f"{BOTH} -b 1 -H 2 -s 20 --seqlen-k 600 -d 64 --splits 3 --deterministic",
    f"{BOTH} --seqlens-q 1,1,1 --seqlens-k 300,5,0 -H 6 --kv-heads 2 -d 64",
    f"{BOTH} --seqlens-q 130,0,3,9 --seqlens-k 50,4,0,200 -H 4 --kv-heads 1 -d 40 --dropout 0.3 --alibi --causal",
)


def plan_for(line: str) -> Plan:
    return plans_of(Problem.from_cli(line), DEVICE)[0]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.removeprefix(BOTH).replace(" ", ""))
def test_directed_problems(line: str) -> None:
    outcome = run_plan(plan_for(line), DEVICE)
    assert outcome.faults == ()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(3))
def test_every_backward_problem_with_its_forward_pass(seed: int) -> None:
    rng = Random(seed)
    drawn = (random_problem(rng).repro() for _ in range(400))
    lines = [line for line in (*DIRECTED, *drawn) if BWD in line][: 11 + 20]
    for line in lines:
        if plans_of(Problem.from_cli(line), DEVICE):
            outcome = run_plan(plan_for(line.replace(BWD, BOTH)), DEVICE, seed=seed)
            assert outcome.faults == (), line


def test_the_stages_are_those_of_the_two_passes_and_workspaces_are_shared() -> None:
    plan = plan_for(LINES[2])
    alone = [plan_for(LINES[2].replace(BOTH, flags)) for flags in ("--lse", "--direction bwd")]
    forward, backward = ([stage.kernel.family for stage in one.stages] for one in alone)
    assert [stage.family for stage in plan.stages] == forward + backward
    assert forward == [Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE]
    assert plan.main == alone[1].main
    assert plan.splits == 3
    sizes = {space.name: space.bytes for space in plan.workspaces}
    assert len(sizes) == len(plan.workspaces)
    assert all(sizes[space.name] >= space.bytes for one in alone for space in one.workspaces)


@pytest.mark.parametrize(
    ("family", "field", "other"),
    [
        (Family.BWD_DOT_DO_O, "o_ptr", "q_ptr"),
        (Family.BWD_DQ_DK_DV, "softmax_lse_ptr", "dsoftmax_sum"),
    ],
)
def test_planted_the_backward_pass_reads_something_else(family: Family, field: str, other: str) -> None:
    def change(stage: Stage, block: ctypes.Structure) -> None:
        if stage.family is family:
            setattr(block, field, getattr(block, other))

    outcome = run_plan(plan_for(LINES[0]), DEVICE, change=change)
    assert any(fault.startswith("dq") for fault in outcome.faults)
    assert not any(fault.startswith(("o:", "lse")) for fault in outcome.faults)


def test_planted_the_forward_pass_leaves_a_wrong_lse() -> None:
    """Both the LSE and the gradients are wrong: nothing on the host mends what goes from pass to pass."""

    def change(stage: Stage, block: ctypes.Structure) -> None:
        if not stage.family.backward:
            block.scale_softmax *= 1.01
            block.scale_softmax_log2 *= 1.01

    outcome = run_plan(plan_for(LINES[3]), DEVICE, change=change)
    assert {fault.partition(":")[0] for fault in outcome.faults} >= {"lse", "dq", "dk"}

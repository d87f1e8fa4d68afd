"""Both passes in one plan: the backward kernel reads the O and LSE that the forward kernel has left in scratch tensors."""

from __future__ import annotations

import ctypes

import pytest

from fmha_cli.backends.mem_efficient.decide import OF_PAIRS, discord
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.decision import Trace
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from tests.support.generators.mem_efficient.small import BWD, DIRECTED
from tests.support.models.mem_efficient.chain import plans_of, run_plan

DEVICE = DeviceFacts.of_arch("sm_80")
BOTH = "--direction fwd+bwd"
LINES = (
    f"{BOTH} -b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 140 -d 64 --causal --bias elementwise:1hss --dbias",
    f"{BOTH} --seqlens-q 40,0,3,9 --seqlens-k 50,4,6,20 -H 4 --kv-heads 1 -d 40 --dropout 0.3 --causal --dtype bf16",
    f"{BOTH} -b 1 -H 2 -s 40 -d 20 --hdim-v 12 --layout bshd:bhsd --deterministic",
)


def plan_for(line: str) -> Plan:
    return plans_of(Problem.from_cli(line), DEVICE)[0]


def refusals(line: str, arch: str = "sm_80") -> set[str]:
    found = Trace(tuple(UPSTREAM.passes().decide(Problem.from_cli(line), DeviceFacts.of_arch(arch))))
    assert not found.supported
    return {reason.id for reason in found.unsupported[0].reasons}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.removeprefix(BOTH).replace(" ", ""))
def test_directed_problems(line: str) -> None:
    outcome = run_plan(plan_for(line), DEVICE)
    assert outcome.faults == ()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_backward_problem_with_its_forward_pass() -> None:
    """Refusals come from what lies between the passes, or from the forward kernels."""
    served = 0
    for arch, line in (text.replace(BWD, BOTH).split(" ", 1) for text in DIRECTED if BWD in text):
        plans = plans_of(Problem.from_cli(line), DeviceFacts.of_arch(arch))
        if not plans:
            assert refusals(line, arch) & {*OF_PAIRS, "K521"}, line
            continue
        served += 1
        assert run_plan(plans[0], DeviceFacts.of_arch(arch)).faults == (), line
    assert served > 5


def test_what_lies_between_the_passes_is_refused() -> None:
    line = f"{BOTH} -b 1 -H 2 -s 40 -d 64"
    assert refusals(f"{line} --dtype fp32") == {"K534"}
    assert refusals(f"{line} --seqlen-k 0") >= {"K535"}
    assert refusals(f"{BOTH} --seqlens-q 3,4 --seqlens-k 0,4 -H 2 -d 64") == {"K535"}
    assert refusals(f"{line} --seqlen-k 9 --mask window-tl:4,0") == {"K535"}
    assert {rule.id for rule in UPSTREAM.rules()} >= set(OF_PAIRS)


def test_head_dims_that_two_kernels_pad_differently_are_refused() -> None:
    problem = Problem.from_cli(LINES[2])
    forward, backward = (part.main for part in plan_for(LINES[2]).passes())
    assert discord(problem, forward, backward) == []
    turing = (d.kernel for d in UPSTREAM.decide(problem.passes()[0], DeviceFacts.of_arch("sm_75")))
    narrow = next(k for k in turing if k.signature.dtype is problem.dtype and traits_of(k).width < 8)
    assert [reason.id for reason in discord(problem, narrow, backward)] == ["K536"]


def test_planted_the_backward_pass_reads_something_else() -> None:
    for field, other in (("output_ptr", "query_ptr"), ("logsumexp_ptr", "grad_query_ptr")):

        def change(stage: Stage, block: ctypes.Structure, field: str = field, other: str = other) -> None:
            if stage.family.backward:
                setattr(block, field, getattr(block, other))

        outcome = run_plan(plan_for(LINES[0]), DEVICE, change=change)
        assert any(fault.startswith("dq") for fault in outcome.faults)
        assert not any(fault.startswith(("o:", "lse")) for fault in outcome.faults)

"""Both passes in one plan, from answers about single passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.domain.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.passes import TwoPasses, joined
from fmha_cli.domain.plan import Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES, Reason, reasons_against

BOTH = Problem.from_cli("-b 1 -H 2 -s 8 -d 8 --dtype fp32 --direction fwd+bwd --splits 2")
DEVICE = DeviceFacts(id="null", archs=("one", "two"))
FORWARD, SPLIT, COMBINE, DOT, BACKWARD = (
    replace(null_kernel(DType.FP32, family), arch="one")
    for family in (
        Family.FWD,
        Family.FWD_SPLITKV,
        Family.FWD_SPLITKV_COMBINE,
        Family.BWD_DOT_DO_O,
        Family.BWD_DQ_DK_DV,
    )
)
OTHER = replace(BACKWARD, arch="two")
WORD = Reason("K901", "not with this one", "--dtype fp32")


def decide(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
    """Forward kernels for one architecture, backward kernels for two; the split kernel ranks first."""
    assert problem.direction is not Direction.FWD_BWD
    if problem.direction is Direction.FWD:
        assert problem.lse
        yield Supported(FORWARD, (1,), "plain")
        yield Supported(SPLIT, (0,), "split")
        yield Unsupported("null", "two", replace(FORWARD, arch="two"), (WORD, WORD))
        yield Unsupported("null", "two", replace(SPLIT, arch="two"), (WORD,))
    else:
        assert (problem.splits, problem.lse) == (0, False)
        yield Supported(BACKWARD, (0,), "first")
        yield Supported(OTHER, (0,), "second")


def plan(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    if kernel.family.backward:
        return Plan(problem, (Stage(DOT), Stage(kernel)), (Workspace("lse_acc", 8, 512), Workspace("d", 4)))
    if kernel is FORWARD:
        return Plan(problem, (Stage(kernel),))
    return Plan(problem, (Stage(kernel), Stage(COMBINE)), (Workspace("lse_acc", 24), Workspace("o_acc", 9)), 2)


def test_a_candidate_is_a_backward_kernel_with_the_best_forward_kernel_of_its_architecture() -> None:
    trace = Trace(tuple(TwoPasses(decide, plan).decide(BOTH, DEVICE)))
    (fits,), (refused,) = trace.supported, trace.unsupported
    assert (fits.kernel, fits.rank, fits.note) == (BACKWARD, (0,), f"first; after fwd_splitkv {SPLIT.digest[:8]}")
    assert refused.kernel == OTHER
    assert refused.reasons == (replace(WORD, text="forward pass: not with this one"),)


def test_the_plan_has_the_stages_of_both_and_each_pass_is_a_plan() -> None:
    made = TwoPasses(decide, plan).plan(BOTH, BACKWARD, DEVICE)
    assert [stage.kernel for stage in made.stages] == [SPLIT, COMBINE, DOT, BACKWARD]
    assert (made.main, made.splits) == (BACKWARD, 2)
    assert made.workspaces == (Workspace("lse_acc", 24, 512), Workspace("o_acc", 9), Workspace("d", 4))
    forward, backward = made.passes()
    assert (forward.main, forward.splits, backward.main, backward.splits) == (SPLIT, 2, BACKWARD, 1)
    assert (forward.problem, backward.problem) == BOTH.passes()
    assert forward.workspaces == backward.workspaces == made.workspaces
    assert forward.passes() == (forward,)


def test_the_passes_of_a_problem() -> None:
    line = "-H 2 -s 8 -d 8 --bias elementwise --dbias --deterministic --direction fwd+bwd"
    forward, backward = Problem.from_cli(line).passes()
    assert forward.repro() == "-H 2 -s 8 -d 8 --bias elementwise --lse"
    assert backward.repro() == "-H 2 -s 8 -d 8 --bias elementwise --direction bwd --deterministic --dbias"
    assert forward.passes() == (forward,)
    assert Problem.from_cli(line).flops() == forward.flops() + backward.flops()


def test_a_limit_of_pairs_leads_to_the_next_forward_kernel_or_to_its_reason() -> None:
    def only_plain(problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
        assert problem == BOTH
        return () if forward is FORWARD else (WORD,)

    assert TwoPasses(decide, plan, only_plain).plan(BOTH, BACKWARD, DEVICE).stages[0].kernel == FORWARD
    none = TwoPasses(decide, plan, lambda problem, forward, backward: (WORD,))
    assert next(d.reasons for d in none.decide(BOTH, DEVICE) if isinstance(d, Unsupported)) == (WORD,)
    with pytest.raises(InternalError, match="no forward kernel goes with it"):
        none.plan(BOTH, BACKWARD, DEVICE)


def test_reasons_of_both_passes_are_given_once() -> None:
    def refusing(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        kernel = BACKWARD if problem.direction.backward else FORWARD
        reasons = (WORD, Reason("K902", "forward only"))[: 1 if problem.direction.backward else 2]
        yield Unsupported("null", "one", kernel, reasons)

    (found,) = TwoPasses(refusing, plan).decide(BOTH, DEVICE)
    assert isinstance(found, Unsupported)
    assert [reason.text for reason in found.reasons] == ["not with this one", "forward pass: forward only"]


def test_an_architecture_without_forward_kernels_is_refused() -> None:
    def backwards(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        yield from (d for d in decide(problem, device) if d.kernel in (BACKWARD, OTHER))

    found = list(TwoPasses(backwards, plan).decide(BOTH, DEVICE))
    assert [[r.id for r in d.reasons] for d in found if isinstance(d, Unsupported)] == [["K025"], ["K025"]]


def test_a_backend_that_refuses_as_a_whole_is_asked_no_more() -> None:
    whole = Unsupported("null", "", None, (WORD,))
    assert list(TwoPasses(lambda problem, device: (whole,), plan).decide(BOTH, DEVICE)) == [whole]


def test_problems_of_one_direction_go_through() -> None:
    passes = TwoPasses(decide, plan)
    forward, _ = BOTH.passes()
    assert list(passes.decide(forward, DEVICE)) == list(decide(forward, DEVICE))
    assert passes.plan(forward, FORWARD, DEVICE) == plan(forward, FORWARD, DEVICE)


def test_a_single_kernel_does_not_compute_both_directions() -> None:
    for kernel in (FORWARD, BACKWARD):
        assert "K025" in {reason.id for reason in reasons_against(CORE_RULES, BOTH, kernel, DEVICE)}


def test_joined_plans_share_workspaces_by_name() -> None:
    forward, backward = BOTH.passes()
    first = Plan(forward, (Stage(FORWARD),), (Workspace("a", 3, 64),))
    second = Plan(backward, (Stage(BACKWARD),), (Workspace("a", 2, 128),))
    assert joined(BOTH, first, second).workspaces == (Workspace("a", 3, 128),)


@pytest.mark.parametrize("family", [Family.FWD_PREPARE, Family.FWD_APPENDKV])
def test_the_main_kernel_is_behind_what_leads_to_it(family: Family) -> None:
    lead = replace(SPLIT, family=family)
    stages = (Stage(lead), Stage(SPLIT), Stage(COMBINE))
    assert Plan(replace(BOTH, direction=Direction.FWD), stages).main is SPLIT
    assert [f for f in Family if f.leads] == [Family.FWD_APPENDKV, Family.FWD_PREPARE]
    assert not family.backward

"""Traps of upstream's kernels and of TMA, each with a planted problem or a whole catalogue."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.arguments import params_of
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.launches import launch_for
from fmha_cli.backends.flash_attn_3.plan import plan_of
from fmha_cli.backends.flash_attn_3.scratch import SEMAPHORE
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.flash_attn_3.instance import FORWARD, forward_instance
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import layout_of
from tests.support.referees.flash_attn_3.blocks import bound, dense_problem

H100 = replace(DeviceFacts.of_arch("sm_90a"), id="cuda:0", units=132)
BASE = "-b 2 -H 4 --kv-heads 4 -s 300 -d 128 --dtype bf16"
PACKED = "--seqlens-q 70,1,130 --seqlens-k 500,300,130 -H 4 -d 128 --dtype bf16"


def first(line: str) -> tuple[Problem, KernelSpec]:
    problem = Problem.from_cli(line)
    found = min((d for d in decide(problem, H100) if isinstance(d, Supported)), key=lambda d: d.rank)
    return problem, found.kernel


def descriptors(call: Call[object]) -> list[TensorMap]:
    params = params_of(next(s for s in call.plan.stages if s.family in FORWARD), call)  # type: ignore[arg-type]
    values = (getattr(params, name) for name, _ in c_fields(type(params)))
    return [value for value in values if isinstance(value, TensorMap)]


def test_every_descriptor_is_one_that_the_driver_makes() -> None:
    """Addresses and strides of 16 bytes, boxes of at most 256 elements along an axis and no wider than their swizzle."""
    rng, kernels = Random(5), [k for k in family_kernels("sm_90a", Family.FWD) if not forward_instance(k).a.varlen]
    for kernel in rng.sample(kernels, 120):
        i = forward_instance(kernel)
        for map in descriptors(bound(dense_problem(rng, i), kernel, H100, gaps=True)):
            assert map.address % 16 == 0
            assert all(stride % 16 == 0 for stride in map.strides)
            assert max(map.box) <= 256
            size = 1 if map.element == "UINT8" else 2
            assert map.box[0] * size <= int(map.swizzle.removesuffix("B"))


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (f"{BASE} --splits 1", False),  # StaticPersistent
        (f"{BASE} --splits 1 --causal", True),
        (f"{BASE} --splits 1 --mask window:50,0", True),
        (f"{BASE} --splits 3 --causal", False),  # SingleTile
        (f"{PACKED} --splits 1", True),
        (f"{PACKED} --splits 3", True),
    ],
)
def test_the_counter_of_tiles_is_zeroed_before_each_launch(line: str, counts: bool) -> None:
    """Blocks that take tiles from a counter would find the last launch's number there."""
    problem, kernel = first(line)
    launch = launch_for(kernel, situation_of(problem, H100))
    assert launch.cleared == ((SEMAPHORE,) if counts else ())
    scratch = {workspace.name for workspace in plan_of(problem, kernel, H100).workspaces}
    assert (SEMAPHORE in scratch) is counts


def test_descriptors_follow_tensors_that_move() -> None:
    problem, kernel = first(f"{BASE} --causal --splits 1")
    call = bound(problem, kernel, H100, gaps=False)
    there = replace(call, arena=call.arena + 4096)
    moved = [new.address - old.address for old, new in zip(descriptors(call), descriptors(there), strict=True)]
    assert len(moved) > 3
    assert set(moved) == {4096}


def test_a_negative_bound_is_no_missing_one() -> None:
    """A bound of -1 means "none" to upstream. One that a mask from the top left moves below 0 is refused (K664)."""
    s = situation_of(Problem.from_cli(f"{BASE} --mask window-tl:10,5 --seqlen-k 100"), H100)
    assert s.given is None


def test_a_side_without_a_bound_is_a_length_and_not_minus_one() -> None:
    problem, kernel = first(f"{BASE} --mask window:50,299 --splits 1")
    params: object = params_of(plan_of(problem, kernel, H100).stages[0], bound(problem, kernel, H100, gaps=False))
    assert [getattr(params, f"mainloop__window_size_{side}") for side in ("left", "right")] == [50, 299]


def test_kernels_are_assembled_by_ptxas_and_never_by_nvrtc() -> None:
    """NVRTC 13.0.88's own assembler crashes on kernels that initialise barriers, so PTX and ptxas are the only way."""
    for family in FORWARD:
        assert UPSTREAM.instructions(family_kernels("sm_90a", family)[0])
    assert "-DNDEBUG" in UPSTREAM.flags["nvrtc"]


GAPPED = "-b 2 -H 4 -s 70 --seqlen-k 300 -d 128 --dtype bf16"


@pytest.mark.parametrize(
    ("line", "field", "batch"),
    [
        (f"{GAPPED} --lse --splits 1", "epilogue__stride_LSE", True),
        (f"{GAPPED} --kv-heads 1 --lse --splits 1", "epilogue__stride_LSE_packed", True),
        (f"{PACKED} --lse --splits 1", "epilogue__stride_LSE", False),
        (f"{GAPPED} --lse --splits 3", "stride_LSE", True),
        (f"{GAPPED} --direction bwd", "stride_LSE", True),
        (f"{PACKED} --direction bwd", "stride_LSE", False),
    ],
)
def test_an_lse_with_gaps_between_its_rows_is_written_and_read_there(line: str, field: str, batch: bool) -> None:
    """Upstream makes LSE itself, without gaps. ``fmha validate`` has gaps, and what a kernel writes there is out of bounds."""
    problem, kernel = first(line)
    plan = plan_of(problem, kernel, H100)
    lse = layout_of(problem, plan.workspaces, gaps=True).slot("lse").tensor
    call = replace(bound(problem, kernel, H100, gaps=True), plan=plan)
    call = replace(call, tensors={**call.tensors, "lse": lse})
    taking = (
        Family.FWD_SPLITKV_COMBINE
        if problem.splits > 1
        else Family.BWD_DOT_DO_O
        if problem.direction.backward
        else Family.FWD
    )
    params = params_of(next(stage for stage in plan.stages if stage.family is taking), call)
    found = [int(value) for value in getattr(params, field)]
    assert lse.strides[-2] > problem.seqlen_q
    assert lse.strides[-2] in found
    assert (lse.strides[0] in found) or not batch

"""Traps of backward passes: descriptors, what must be zero before each launch, and sizes that upstream does not check."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.arguments import params_of
from fmha_cli.backends.flash_attn_3.backward_plan import convert_for
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.launches import expect_exports, launch_for
from fmha_cli.backends.flash_attn_3.plan import plan_of
from fmha_cli.backends.flash_attn_3.scratch import tails_of
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from tests.backends.flash_attn_3.test_traps import H100
from tests.support.referees.flash_attn_3.blocks import bound
from tests.support.referees.flash_attn_3.gradients import gradient_calls

BASE = "-b 2 -H 4 -s 300 -d 128 --dtype bf16 --direction bwd"
PACKED = "--seqlens-q 70,1,130 --seqlens-k 500,300,130 -H 4 -d 128 --dtype bf16 --direction bwd"


def first(line: str) -> tuple[Problem, KernelSpec]:
    problem = Problem.from_cli(line)
    found = min((d for d in decide(problem, H100) if isinstance(d, Supported)), key=lambda d: d.rank)
    return problem, found.kernel


def descriptors(call: Call[Any]) -> list[TensorMap]:
    params: Any = params_of(next(s for s in call.plan.stages if s.family is Family.BWD_DQ_DK_DV), call)
    values = (getattr(params, name) for name, _ in c_fields(type(params)))
    return [value for value in values if isinstance(value, TensorMap)]


def test_every_descriptor_is_one_that_the_driver_makes() -> None:
    """Addresses and strides of 16 bytes, boxes of at most 256 elements along an axis and no wider than their swizzle."""
    rng = Random(5)
    for kernel in rng.sample(family_kernels("sm_90a", Family.BWD_DQ_DK_DV), 60):
        for call, _ in gradient_calls(rng, kernel, 1):
            for map in descriptors(call):
                assert map.address % 16 == 0
                assert all(stride % 16 == 0 for stride in map.strides)
                assert max(map.box) <= 256
                assert map.box[0] * 2 <= int(map.swizzle.removesuffix("B"))


@pytest.mark.parametrize(
    ("line", "cleared"),
    [
        (BASE, ()),  # dQ's sums and their counter are cleared by the first stage
        (f"{BASE} --deterministic", ()),
        (f"{BASE} --kv-heads 2", ("dk_accum", "dv_accum")),
        (f"{BASE} --kv-heads 2 --deterministic", ("dk_accum", "dv_accum", "dk_semaphore", "dv_semaphore")),
        (f"{PACKED} --kv-heads 1", ("dk_accum", "dv_accum")),
    ],
)
def test_what_grouped_heads_add_to_is_zeroed_before_each_launch(line: str, cleared: tuple[str, ...]) -> None:
    problem, kernel = first(line)
    s = situation_of(problem, H100)
    plan = plan_of(problem, kernel, H100)
    assert [launch_for(stage.kernel, s).cleared for stage in plan.stages].count(cleared) >= 1
    assert launch_for(kernel, s).cleared == cleared
    names = {workspace.name for workspace in plan.workspaces}
    assert set(cleared) <= names
    assert {"softmax_d", "softmax_lse_log2", "dq_accum", "dq_semaphore"} <= names


def test_descriptors_follow_tensors_that_move() -> None:
    problem, kernel = first(BASE)
    call = bound(problem, kernel, H100, gaps=False)
    there = replace(call, arena=call.arena + 4096)
    moved = [new.address - old.address for old, new in zip(descriptors(call), descriptors(there), strict=True)]
    assert len(moved) == 6
    assert set(moved) == {4096}


@pytest.mark.parametrize(("line", "stages"), [(BASE, ["dq"]), (f"{BASE} --kv-heads 2", ["dq", "dk", "dv"])])
def test_every_gradient_is_converted_once(line: str, stages: list[str]) -> None:
    problem, kernel = first(line)
    plan = plan_of(problem, kernel, H100)
    call = bound(problem, kernel, H100, gaps=False)
    written = [params_of(stage, call) for stage in plan.stages if stage.family is Family.BWD_CONVERT_DQ]
    assert [params.ptr_dQ for params in written] == [call.address(name) for name in stages]  # type: ignore[attr-defined]
    assert len(set(plan.stages)) == len(plan.stages)  # a session keeps launches by stage


def test_packed_sequences_begin_at_tiles_of_the_scratch_tensors() -> None:
    """A tile of sums is added by one bulk copy, so no two sequences share one."""
    problem, kernel = first(f"{PACKED} --kv-heads 2")
    sizes = {workspace.name: workspace.bytes for workspace in plan_of(problem, kernel, H100).workspaces}
    rows, keys = -(-(201 + 3 * 80) // 80) * 80, -(-(930 + 3 * 128) // 128) * 128
    assert (sizes["dq_accum"], sizes["dk_accum"]) == (4 * 4 * rows * 128, 4 * 2 * keys * 128)
    assert sizes["softmax_d"] == 4 * 4 * rows


def test_a_backward_pass_changes_no_rows_of_v() -> None:
    """It has no cache, behind whose keys anything may be."""
    problem, kernel = first(PACKED)
    assert tails_of(situation_of(problem, H100), kernel) == []


def test_a_cubin_with_other_traits_is_not_loaded() -> None:
    kernel = family_kernels("sm_90a", Family.BWD_DQ_DK_DV)[0]
    assert expect_exports(kernel).facts == {
        "kBlockM": 128,
        "kBlockN": 128,
        "kHeadDim": 64,
        "MaxThreadsPerBlock": 384,
    }
    assert expect_exports(convert_for(kernel, of_keys=True)).facts["kBlockM"] == 128
    other = replace(kernel, algorithm=replace(kernel.algorithm, groups=5))
    with pytest.raises(InternalError, match="has its traits"):
        convert_for(other, of_keys=False)

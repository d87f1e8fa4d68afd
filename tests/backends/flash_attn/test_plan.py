"""Plans of FlashAttention: stages, grids and workspaces, following upstream's formulas."""

from __future__ import annotations

from random import Random

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.decide import decide
from fmha_cli.backends.flash_attn.plan import grid_of, plan_of
from fmha_cli.backends.flash_attn.situation import situation_of
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from tests.support.generators.flash_attn.problems import random_problem

H200 = DeviceFacts(id="cuda:0", archs=("sm_90",), units=132)
F = Family
BACKWARD = [F.BWD_DOT_DO_O, F.BWD_DQ_DK_DV, F.BWD_CONVERT_DQ]


def best(line: str, device: DeviceFacts = H200) -> Plan:
    problem = Problem.from_cli(line)
    able = [d for d in decide(problem, device) if isinstance(d, Supported)]
    return plan_of(problem, min(able, key=lambda d: d.rank).kernel, device)


def spaces(plan: Plan) -> dict[str, int]:
    return {w.name: w.bytes for w in plan.workspaces}


def grids(plan: Plan) -> list[tuple[int, int, int]]:
    s = situation_of(plan.problem, H200)
    return [grid_of(s, stage.kernel, plan.splits).blocks for stage in plan.stages]


def details(plan: Plan, place: int) -> dict[str, str]:
    return dict(plan.stages[place].detail)


def test_a_forward_pass() -> None:
    plan = best("-b 16 -s 2000 -H 8 -d 128 --causal")
    assert [stage.family for stage in plan.stages] == [F.FWD]
    assert plan.splits == 1
    assert grids(plan) == [(16, 16, 8)]
    assert spaces(plan) == {"softmax_lse": 4 * (16 * 8 * 2000 + 16)}
    shown = details(plan, 0)
    assert shown["grid"] == "16 x 16 x 8; x = ceil(2000/128)"
    assert shown["template"].startswith("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4,")
    assert shown["api"] == "mha_fwd"
    assert shown["key"].startswith("fa2:arch=sm_90,direction=fwd,")
    assert len(shown["key digest"]) == 16


def test_a_split_pass_is_combined() -> None:
    plan = best("-b 2 -s 1 --seqlen-k 8k -H 32 --kv-heads 4 -d 72 --splits 5 --causal")
    assert [stage.family for stage in plan.stages] == [F.FWD_SPLITKV, F.FWD_SPLITKV_COMBINE]
    assert plan.splits == 5
    assert grids(plan) == [(1, 5, 8), (4, 1, 1)], "8 heads of a group are rows; ceil(2 * 4 * 8 / 16) blocks combine"
    assert spaces(plan) == {
        "softmax_lse": 4 * (2 * 4 * 8 + 16),
        "softmax_lse_accum": 4 * 5 * 2 * 4 * 8,
        "out_accum": 4 * 5 * 2 * 4 * 8 * 96,
    }
    combine = algorithm_of(plan.stages[1].kernel)
    assert (combine.log_max_splits, combine.combine_rows, combine.even_k) == (3, 16, False)
    assert "group" in details(plan, 0)["rows"]
    assert "hides nothing" in details(plan, 0)["mask"]


@pytest.mark.parametrize(
    ("splits", "log2"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4), (17, 5), (33, 6), (65, 7), (128, 7)]
)
def test_the_combine_kernel_holds_the_splits(splits: int, log2: int) -> None:
    for hdim, rows, even in (
        (64, 8, True),
        (96, 16, True),
        (128, 4, True),
        (120, 4, False),
        (192, 8, True),
        (256, 4, True),
    ):
        plan = best(f"-s 1 --seqlen-k 40k -d {hdim} --splits {splits}")
        combine = algorithm_of(plan.stages[1].kernel)
        assert (combine.log_max_splits, combine.combine_rows, combine.even_k) == (log2, rows, even)
        assert combine.tile == algorithm_of(plan.main).tile


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_backward_pass(deterministic: bool) -> None:
    flag = " --deterministic" if deterministic else ""
    plan = best(f"-b 2 -s 300 --seqlen-k 500 -H 8 --kv-heads 2 -d 72 --direction bwd{flag}")
    assert [stage.family for stage in plan.stages] == BACKWARD
    assert plan.main.family is F.BWD_DQ_DK_DV
    parts = -(-132 // 16) if deterministic else 1
    rows, keys = -(-300 // 64), parts if deterministic else -(-500 // 128)
    assert grids(plan) == [(rows, 2, 8), (keys, 2, 8), (rows, 2, 8)]
    assert spaces(plan) == {
        "softmax_lse": 4 * 2 * 8 * 300,
        "rng_state": 16,
        "softmax_d": 4 * 2 * 8 * 384,
        "dq_accum": 4 * parts * 2 * 384 * 8 * 96,
        "dk_expanded": 2 * 2 * 500 * 8 * 72,
        "dv_expanded": 2 * 2 * 500 * 8 * 72,
    }
    assert algorithm_of(plan.stages[0].kernel).clear_dq_accum is not deterministic
    for stage in plan.stages:
        a, b = algorithm_of(stage.kernel), algorithm_of(plan.main)
        assert (a.tile, a.warps, a.atoms, a.v_in_regs, a.single_buffer) == (
            *(b.tile, b.warps, b.atoms),
            *(b.v_in_regs, b.single_buffer),
        )


def test_a_packed_backward_pass() -> None:
    plan = best("--seqlens-q 7,100,0 --seqlens-k 9,20,30 -H 4 -d 128 --direction bwd --dropout 0.1")
    assert spaces(plan) == {
        "softmax_lse": 4 * 4 * 107,
        "rng_state": 16,
        "softmax_d": 4 * 4 * (107 + 128 * 3),
        "dq_accum": 4 * (107 + 128 * 3) * 4 * 128,
    }
    assert grids(plan)[1] == (1, 3, 4)


def test_dropout_keeps_the_random_state() -> None:
    assert spaces(best("-s 64 --dropout 0.1"))["rng_state"] == 16
    assert "rng_state" not in spaces(best("-b 64 -s 64"))


def test_a_packed_lse_of_the_unsplit_split_kernel_is_batched() -> None:
    """``compute_attn_1rowblock_splitkv`` is inconsistent about a packed LSE, so the plan gives it a batched one."""
    plan = best("--seqlens-q 7,100 --kv-cache paged:256 --cache-seqlens 9,20 -H 4")
    assert plan.main.family is F.FWD_SPLITKV
    assert spaces(plan)["softmax_lse"] == 4 * (2 * 4 * 100 + 16)
    assert spaces(best("--seqlens-q 7,100 --seqlens-k 9,20 -H 4"))["softmax_lse"] == 4 * 4 * 107


def test_nothing_to_read_is_no_launch() -> None:
    shown = details(best("-s 64 --seqlen-k 0"), 0)
    assert shown["grid"].startswith("none")
    assert not details(best("-s 64 --seqlen-k 1"), 0)["grid"].startswith("none")


def test_a_stage_has_no_plan_of_its_own() -> None:
    combine = family_kernels(load_arch("sm_90"), F.FWD_SPLITKV_COMBINE)[0]
    with pytest.raises(InternalError, match="not a main kernel"):
        plan_of(Problem.from_cli(""), combine, H200)


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a", "sm_100", "sm_120"])
def test_every_supported_kernel_has_a_plan(arch: str) -> None:
    rng, device = Random(arch), DeviceFacts(id="cuda:0", archs=(arch,), units=100)
    for _ in range(40):
        problem = random_problem(rng)
        for decision in decide(problem, device):
            if isinstance(decision, Supported):
                plan = plan_of(problem, decision.kernel, device)
                assert plan.main == decision.kernel
                assert all(stage.kernel.arch == arch for stage in plan.stages)
                assert (plan.splits > 1) == (F.FWD_SPLITKV_COMBINE in {stage.family for stage in plan.stages})
                assert all(stage.detail for stage in plan.stages)

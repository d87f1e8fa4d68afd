"""Plans, launches and parameter blocks: upstream's formulas, and addresses that stay inside their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.backends.cuda.sequences import Sequences
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.mem_efficient.arguments import auxiliaries_of, params_of
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import Traits, traits_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import ArenaLayout, layout_of
from tests.support.generators.mem_efficient.small import ARCHS, random_problem
from tests.support.models.mem_efficient.chain import plans_of

BWD = "--direction bwd"


def best(line: str, arch: str = "sm_90") -> Plan:
    return plans_of(Problem.from_cli(line), DeviceFacts.of_arch(arch))[0]


def spaces(plan: Plan) -> dict[str, int]:
    return {space.name: space.bytes for space in plan.workspaces}


def bound(plan: Plan, *, gaps: bool = True) -> tuple[Call[Any], ArenaLayout]:
    layout = layout_of(plan.problem, plan.workspaces, gaps=gaps)
    situation = MemEfficientSituation(plan.problem, DeviceFacts.of_arch(plan.main.arch))
    addresses = dict.fromkeys(auxiliaries_of(situation), 8)
    return Call(plan, situation, layout.tensors, 1 << 20, addresses), layout


def grid(plan: Plan) -> tuple[int, int, int]:
    return UPSTREAM.launch_of(plan.stages[0], bound(plan)[0]).grid


def cleared(plan: Plan) -> tuple[str, ...]:
    return UPSTREAM.launch_of(plan.stages[0], bound(plan)[0]).cleared


def test_a_forward_pass() -> None:
    plan = best("-b 3 -s 200 -H 4 -d 64")
    assert [stage.family for stage in plan.stages] == [Family.FWD]
    assert spaces(plan) == {"output": 2 * 3 * 200 * 4 * 64}
    launch = UPSTREAM.launch_of(plan.stages[0], bound(plan)[0])
    assert (launch.grid, launch.block, launch.shared) == ((4, 4, 3), (32, 4, 1), traits_of(plan.main).shared_bytes)
    detail = dict(plan.stages[0].detail)
    assert (detail["grid"], detail["grid x"]) == ("4 x 4 x 3", "ceil(200/64)")
    assert detail["template"].startswith("AttentionKernel<cutlass::half_t, cutlass::arch::Sm80, true, 64, 64, 64")


def test_a_large_head_dim_is_summed_in_fp32_and_an_lse_has_whole_units() -> None:
    assert spaces(best("-b 3 -s 200 -H 4 -d 160 --lse")) == {
        "output": 2 * 3 * 200 * 4 * 160,
        "output_accum": 4 * 3 * 200 * 4 * 160,
        "logsumexp": 4 * 3 * 4 * 224,
    }
    assert "output_accum" not in spaces(best("-d 160 --dtype fp32"))


def test_copies_are_counted() -> None:
    plan = best("-b 2 -s 10 --seqlen-k 30 -H 6 --kv-heads 2 -d 60 --hdim-v 64 --bias elementwise:1hss")
    assert spaces(plan) == {
        "query": 2 * 2 * 10 * 6 * 64,
        "key": 2 * 2 * 30 * 6 * 64,
        "value": 2 * 2 * 30 * 6 * 64,
        "attn_bias": 2 * 6 * 10 * 32,
        "output": 2 * 2 * 10 * 6 * 64,
    }
    detail = dict(plan.stages[0].detail)
    copies = sum(spaces(plan)[name] for name in ("query", "key", "value", "attn_bias"))
    assert detail["copied by the host"] == f"query, key, value, attn_bias: {copies} bytes"
    assert detail["heads"] == "K and V repeated 3 times"
    assert plan.predicted_bytes >= plan.problem.bytes() + copies


def test_one_key_head_is_read_in_place_with_stride_0() -> None:
    plan = best("-b 2 -s 10 -H 6 --kv-heads 1 -d 64")
    assert set(spaces(plan)) == {"output", "logsumexp"}
    params: Any = params_of(plan.stages[0], bound(plan)[0])
    assert (params.k_strideH, params.v_strideH) == (0, 0)
    assert params.logsumexp_ptr, "without it a kernel takes heads for rows"


@pytest.mark.parametrize(("arch", "says"), [("sm_75", "SIMT"), ("sm_80", "TF32"), ("sm_120", "TF32")])
def test_a_plan_says_how_fp32_is_multiplied(arch: str, says: str) -> None:
    assert says in dict(best("--dtype fp32", arch).stages[0].detail)["fp32"]
    assert "fp32" not in dict(best("--dtype fp16", arch).stages[0].detail)


def test_a_backward_pass() -> None:
    plan = best(f"-b 2 -s 100 --seqlen-k 300 -H 4 --kv-heads 2 -d 128 {BWD}")
    assert [stage.family for stage in plan.stages] == [Family.BWD_DQ_DK_DV]
    assert traits_of(plan.main).algorithm.tile == (128, 128)
    assert spaces(plan) == {
        "key": 2 * 2 * 300 * 4 * 128,
        "value": 2 * 2 * 300 * 4 * 128,
        "output": 2 * 2 * 100 * 4 * 128,
        "logsumexp": 4 * 2 * 4 * 128,
        "delta": 4 * 2 * 4 * 100,
        "grad_query": 2 * 2 * 100 * 4 * 128,
        "grad_key": 2 * 2 * 300 * 4 * 128,
        "grad_value": 2 * 2 * 300 * 4 * 128,
        "workspace": 4 * 2 * 4 * (4 + 128 * 128),
    }
    assert grid(plan) == (3, 4, 2)
    assert cleared(plan) == ("workspace",)


def test_a_large_head_dim_sums_dk_and_dv_in_the_workspace() -> None:
    plan = best(f"-b 2 -s 100 --seqlen-k 300 -H 4 -d 200 --hdim-v 136 {BWD}")
    rows, keys = traits_of(plan.main).algorithm.tile
    assert (rows, keys) == (128, 64)
    splits = 5
    words = splits * keys * (256 + 256) + 1 * 4 * (4 + rows * keys)
    assert spaces(plan)["workspace"] == 4 * 2 * 4 * words
    assert grid(plan) == (splits, 4, 2)


@pytest.mark.parametrize(
    ("line", "splits"),
    [
        ("-b 1 -H 2 -d 64 -s 64 --seqlen-k 640", 10),
        ("-b 1 -H 2 -d 64 -s 64 --seqlen-k 641", 11),
        ("-b 128 -H 2 -d 64 -s 64 --seqlen-k 128", 1),
        ("-b 128 -H 2 -d 64 -s 64 --seqlen-k 129", 3),
        ("-b 127 -H 2 -d 64 -s 64 --seqlen-k 128", 2),
        ("-b 10 -H 5 -d 200 -s 64 --seqlen-k 2048", 4),
        ("-b 128 -H 2 -d 200 -s 64 --seqlen-k 2048", 1),
        ("-b 1 -H 2 -d 64 -s 64 --seqlen-k 640 --deterministic", 1),
        ("--seqlens-q 3,0 --seqlens-k 640,640 -H 2 -d 64", 1),
        ("--seqlens-q 3,1 --seqlens-k 640,0 -H 2 -d 64", 10),
    ],
)
def test_blocks_that_share_the_keys(line: str, splits: int) -> None:
    plan = best(f"{line} {BWD}")
    assert grid(plan)[0] == splits
    params: Any = params_of(plan.stages[0], bound(plan)[0])
    assert params.num_splits_key == splits
    words = "in a fixed order" if splits == 1 else "in no fixed order"
    assert dict(plan.stages[0].detail)["dq"] == f"summed {words}"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("-s 64 --deterministic", ()),
        ("-s 64 --deterministic --causal", ()),
        ("-s 64 --deterministic --window 9", ("workspace",)),
        ("-s 64 --deterministic --window 64", ()),
        ("-s 64 --seqlen-k 640", ("workspace",)),
        ("-s 64 --seqlen-k 0", ()),
    ],
)
def test_every_launch_clears_what_blocks_add_to(line: str, names: tuple[str, ...]) -> None:
    """The last block keeps its lock: a second launch would wait for ever."""
    assert cleared(best(f"-H 2 -d 64 {line} {BWD}")) == names
    assert cleared(best(f"-H 2 -d 64 {line.replace(' --deterministic', '')}")) == ()


@pytest.mark.parametrize(
    "line", ["-s 64 --seqlen-k 0 --lse", f"-s 64 --seqlen-k 0 {BWD}", f"--seqlens-q 0,0 --seqlens-k 3,4 {BWD}"]
)
def test_nothing_to_read_is_no_launch(line: str) -> None:
    plan = best(line)
    assert dict(plan.stages[0].detail)["grid"].startswith("none")
    assert spaces(plan) == {}
    params_of(plan.stages[0], bound(plan)[0])


def test_packed_sequences_and_caches_are_found_by_their_starts() -> None:
    arrays = {
        name: array.tolist()
        for name, array in auxiliaries_of(bound(best("--seqlens-q 3,0,4 --seqlens-k 5,6,0"))[0].situation).items()
    }
    assert arrays == {"seqstart_q": [0, 3, 3, 7], "seqstart_k": [0, 5, 11, 11]}
    line = "-b 2 -s 3 --kv-cache linear --cache-seqlens 30,7 --cache-leftpad 2,9"
    arrays = {name: array.tolist() for name, array in auxiliaries_of(bound(best(line))[0].situation).items()}
    assert arrays == {"seqstart_q": [0, 3, 6], "seqstart_k": [2, 32 + 9, 64], "seqlen_k": [30, 7]}


# ---- Addresses ----


def touched(t: Traits, params: Any, s: Sequences, call: Call[Any]) -> Iterator[tuple[str, str, int, int]]:
    """(field, tensor, first byte, end) of what a kernel may touch through every pointer, from the parameters alone."""
    item, (d, dv) = t.dtype.bits // 8, (params.head_dim, params.head_dim_value)
    b, h, m = params.num_batches, params.num_heads, params.num_queries
    arrays = s.arrays("q", "k", "held")
    starts = {"q": arrays.get("q"), "k": arrays.get("k")}

    def rows(
        field: str, stride: str, tensor: str, side: str, dim: int, fixed: tuple[int, int, int] | None = None
    ) -> Any:
        at = getattr(params, f"{field}_ptr")
        row, head, batch = fixed or (getattr(params, f"{stride}_stride{axis}", 0) for axis in "MHB")
        ends = []
        for n, (queries, keys) in enumerate(s.lengths):
            count = queries if side == "q" else keys
            first = int(starts[side][n]) * row if s.apart else n * batch
            if count:
                ends += [first, first + (count - 1) * row + (h - 1) * head + dim]
        return (field, tensor, at + item * min(ends), at + item * max(ends)) if ends else (field, tensor, at, at)

    def copy(name: str, scratch: str) -> str:
        return scratch if scratch in call.tensors else name

    yield rows("query", "q", copy("q", "query"), "q", d)
    yield rows("key", "k", copy("k", "key"), "k", d)
    yield rows("value", "v", copy("v", "value"), "k", dv)
    bias = params.attn_bias_ptr if t.forward else params.bias_ptr
    if bias:
        columns = -(-params.num_keys // (16 // item)) * (16 // item)
        end = (b - 1) * params.bias_strideB + (h - 1) * params.bias_strideH + (m - 1) * params.bias_strideM + columns
        yield "bias", copy("bias", "attn_bias"), bias, bias + item * end
    lse = 32 * -(-m // 32)
    if params.logsumexp_ptr:
        yield "logsumexp", "logsumexp", params.logsumexp_ptr, params.logsumexp_ptr + 4 * b * h * lse
    if t.forward:
        o = params.o_strideM
        yield rows("output", "o", "output", "q", dv, (o, dv, m * o))
        if params.output_accum_ptr:
            name, _, first, end = rows("output_accum", "o", "output_accum", "q", dv, (h * dv, dv, m * h * dv))
            yield (
                name,
                name,
                params.output_accum_ptr + (first - params.output_accum_ptr) * 4 // item,
                (params.output_accum_ptr + (end - params.output_accum_ptr) * 4 // item),
            )
        return
    yield rows("output", "o", "output", "q", dv, (h * dv, params.o_strideH, params.o_strideB))
    yield rows("grad_output", "gO", copy("do", "grad_output"), "q", dv)
    yield rows("grad_query", "gQ", "grad_query", "q", d, (h * d, params.gQ_strideH, params.gQ_strideB))
    yield rows("grad_key", "gK", "grad_key", "k", d, (h * d, params.gK_strideH, params.gK_strideB))
    yield rows("grad_value", "gV", "grad_value", "k", dv, (h * dv, params.gV_strideH, params.gV_strideB))
    if params.grad_bias_ptr:
        columns = -(-params.num_keys // t.width) * t.width
        end = (b - 1) * params.gB_strideB + (h - 1) * params.gB_strideH + (m - 1) * params.gB_strideM + columns
        yield "grad_bias", "grad_bias", params.grad_bias_ptr, params.grad_bias_ptr + item * end
    last = (h - 1) * params.delta_strideH + (s.rows if s.apart else (b - 1) * params.delta_strideB + m)
    yield "delta", "delta", params.delta_ptr, params.delta_ptr + 4 * last
    yield (
        "lse strides",
        "logsumexp",
        params.logsumexp_ptr,
        params.logsumexp_ptr + 4 * ((b - 1) * params.lse_strideB + (h - 1) * params.lse_strideH + lse),
    )
    i, j = t.algorithm.tile
    sums = params.num_splits_key * j * (-(-d // i) * i + -(-dv // i) * i) if t.accumulates else 0
    words = sums + -(-m // i) * -(-d // j) * (4 + i * j)
    yield "workspace", "workspace", params.workspace, params.workspace + 4 * b * h * words


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_accepted_problem_plans_and_stays_inside_its_tensors(seed: int) -> None:
    rng = Random(seed)
    arch = rng.choice(ARCHS)
    problem = random_problem(rng, arch)
    for plan in plans_of(problem, DeviceFacts.of_arch(arch)):
        call, layout = bound(plan)
        assert plan.stages[0].detail
        m = storage_of(problem, plan.main)
        params, launch = params_of(plan.stages[0], call), UPSTREAM.launch_of(plan.stages[0], call)
        assert launch.shared == m.traits.shared_bytes
        if not call.situation.launches:
            continue
        for field, tensor, first, end in touched(m.traits, params, call.situation, call):
            slot = layout.slot(tensor)
            assert slot.start <= first - call.arena, (field, problem.repro())
            assert end - call.arena <= slot.end, (field, problem.repro())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_strides_without_gaps_are_those_that_the_kernel_gets(seed: int) -> None:
    rng = Random(seed)
    arch = rng.choice(ARCHS)
    problem = random_problem(rng, arch)
    names = ("q", "k", "v", "do") if problem.direction.backward else ("q", "k", "v")
    for plan in plans_of(problem, DeviceFacts.of_arch(arch)):
        call, _ = bound(plan, gaps=False)
        if call.situation.launches:
            m = storage_of(problem, plan.main)
            seen = m.strides(call)
            assert {n: m.dense_strides(n) for n in names} == {n: (seen[n].row, seen[n].head) for n in names}


def test_upstream_tests_strides_of_unpadded_tensors() -> None:
    forward, backward = (
        "-s 10 --seqlen-k 30 -H 6 -d 60 --hdim-v 20 --layout bshd",
        "-s 10 -H 6 --kv-heads 2 -d 60 --layout bhsd",
    )
    assert storage_of(Problem.from_cli(forward), best(forward).main).tested_strides == (60, 60)
    plan = best(f"{backward} {BWD}")
    assert storage_of(plan.problem, plan.main).tested_strides == (600, 60, 60)

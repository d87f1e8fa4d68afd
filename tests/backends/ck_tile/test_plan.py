"""Plans: the stages around a main kernel, their grids and the workspaces, checked against hand-computed values."""

from __future__ import annotations

import pytest

from fmha_cli.backends.ck_tile.decide import decide
from fmha_cli.backends.ck_tile.plan import plan_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import CacheKey, Need, RotaryKey


def plan(line: str, arch: str = "gfx942", units: int = 304) -> Plan:
    problem, device = Problem.from_cli(line), DeviceFacts(id="hip:0", archs=(arch,), units=units)
    best = min((d for d in decide(problem, device) if isinstance(d, Supported)), key=lambda d: d.rank)
    return plan_of(problem, best.kernel, device)


def algorithm(made: Plan, family: Family) -> CkAlgorithm:
    (found,) = [s.kernel.algorithm for s in made.stages if s.family is family]
    assert isinstance(found, CkAlgorithm)
    return found


def families(made: Plan) -> list[str]:
    return [s.family.value for s in made.stages]


def details(made: Plan, family: Family) -> dict[str, str]:
    (found,) = [dict(s.detail) for s in made.stages if s.family is family]
    return found


def test_forward_is_one_stage() -> None:
    made = plan("-b 2 -H 16 -s 1000 --splits 1")
    assert families(made) == ["fwd"]
    assert (made.workspaces, made.splits) == ((), 1)
    assert details(made, Family.FWD)["grid"].startswith("16 x 8 x 2;")
    assert made.main is made.stages[0].kernel


def test_split_kv_and_its_workspaces() -> None:
    made = plan("-b 2 -H 16 -s 100 --seqlen-k 4096 --hdim-v 96 --lse --splits 5")
    assert families(made) == ["fwd_splitkv", "fwd_splitkv_combine"]
    rows = 2 * 16 * 5 * 100
    assert {w.name: w.bytes for w in made.workspaces} == {"lse_acc": 4 * rows, "o_acc": 4 * rows * 96}
    assert made.splits == 5
    assert details(made, Family.FWD_SPLITKV)["grid"].startswith("10 x 16 x 2;")  # 2 row tiles, 1 column tile, 5 splits
    assert details(made, Family.FWD_SPLITKV_COMBINE)["compiled for splits up to"] == "8"
    assert details(made, Family.FWD_SPLITKV_COMBINE)["grid"].startswith("39 x 16 x 2;")  # 8 rows by 32 columns
    combine = made.stages[1].kernel
    assert combine.signature.lse is Need.YES
    main, other = algorithm(made, Family.FWD_SPLITKV), algorithm(made, Family.FWD_SPLITKV_COMBINE)
    assert (main.pad_s, bool(main.pad_dv)) == (other.pad_s, bool(other.pad_dv))
    assert made.predicted_bytes == made.problem.bytes() + 4 * rows * 97


def test_the_combine_kernel_without_lse() -> None:
    assert plan("-s 64 --splits 9").stages[1].kernel.signature.lse is Need.NO
    assert details(plan("-s 64 --splits 9"), Family.FWD_SPLITKV_COMBINE)["compiled for splits up to"] == "16"


def test_one_row_merges_the_heads_of_a_group() -> None:
    made = plan("-b 3 -H 32 --kv-heads 4 -s 1 --seqlen-k 4096 --splits 7")
    assert details(made, Family.FWD_SPLITKV)["grid"].startswith("7 x 4 x 3;")
    unmerged = plan("-b 3 -H 32 --kv-heads 4 -s 1 --seqlen-k 4096 --splits 7 --causal")
    assert details(unmerged, Family.FWD_SPLITKV)["grid"].startswith("7 x 32 x 3;")


def test_automatic_splits_are_upstreams() -> None:
    made = plan("-b 1 -H 8 -s 1024")
    assert (families(made)[0], made.splits) == ("fwd_splitkv", 8)  # the heuristic's 9, but there are 8 tiles of keys
    assert "608 slots" in details(made, Family.FWD_SPLITKV)["splits from"]
    assert families(plan("-b 4 -H 32 -s 1024")) == ["fwd"]


@pytest.mark.parametrize(("cache", "paged"), [("linear", False), ("paged:128", True)])
def test_appending_comes_first(cache: str, paged: bool) -> None:
    made = plan(f"-b 2 -s 70 --kv-cache {cache} --cache-seqlens 300 --append 70 --rotary 32:interleaved --splits 3")
    assert families(made) == ["fwd_appendkv", "fwd_splitkv", "fwd_splitkv_combine"]
    append = made.stages[0].kernel
    assert append.signature.rotary is RotaryKey.INTERLEAVED
    assert (append.signature.cache is CacheKey.PAGED) is paged
    assert details(made, Family.FWD_APPENDKV)["grid"].startswith("2 x 8 x 2;")
    assert made.main.family is Family.FWD_SPLITKV
    assert "q_rotated" in {w.name for w in made.workspaces}


def test_paged_prefill_for_one_split() -> None:
    made = plan("-b 2 -s 200 --kv-cache paged:256 --cache-seqlens 3000 --append 5 --splits 1")
    assert families(made) == ["fwd_appendkv", "fwd_pagedkv"]
    assert details(made, Family.FWD_PAGEDKV)["grid"].startswith("2 x 8 x 2;")  # tiles, heads, batch
    assert families(plan("-s 1 --kv-cache paged:256 --cache-seqlens 3000 --lse --splits 1"))[0] == "fwd_splitkv"


def test_backward_is_three_stages() -> None:
    made = plan("-b 2 -H 4 -s 200 --seqlen-k 300 --direction bwd")
    assert families(made) == ["bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"]
    assert made.main.family is Family.BWD_DQ_DK_DV
    sizes = {w.name: w.bytes for w in made.workspaces}
    assert sizes["dq_acc"] == 4 * 2 * 4 * 200 * 128
    assert sizes["d"] >= 4 * 2 * 4 * 200
    assert details(made, Family.BWD_DQ_DK_DV)["grid"].startswith("3 x 4 x 2;")  # ceil(300 / 128)
    assert details(made, Family.BWD_DQ_DK_DV)["zeroed first"] == "dq_acc"
    assert details(made, Family.BWD_DOT_DO_O)["grid"].startswith("4 x 4 x 2;")  # ceil(200 / 64)
    assert algorithm(made, Family.BWD_DOT_DO_O).pad_s
    assert algorithm(made, Family.BWD_CONVERT_DQ).tile[1] == 0


def test_deterministic_backward_keeps_a_part_per_key_tile() -> None:
    made = plan("-b 2 -H 4 -s 192 --seqlen-k 300 --direction bwd --deterministic")
    sizes = {w.name: w.bytes for w in made.workspaces}
    assert sizes["dq_acc"] == 3 * 4 * 2 * 4 * 192 * 128
    convert = algorithm(made, Family.BWD_CONVERT_DQ)
    assert convert.tile[1] == 128
    assert not convert.pad_s  # 192 rows are whole blocks of 64
    assert details(made, Family.BWD_DQ_DK_DV)["zeroed first"] == "nothing"


def test_a_small_backward_writes_dq_itself() -> None:
    made = plan("-b 2 -H 4 -s 16 --seqlen-k 300 --direction bwd", "gfx950")
    assert families(made) == ["bwd_dot_do_o", "bwd_dq_dk_dv"]
    assert "dq_acc" not in {w.name for w in made.workspaces}
    assert details(made, Family.BWD_DQ_DK_DV)["dq"] == "written by this stage"
    assert details(made, Family.BWD_DQ_DK_DV)["grid"].startswith("1 x 4 x 2;")


def test_backward_with_fewer_key_heads_sums_afterwards() -> None:
    made = plan("-b 2 -H 8 --kv-heads 2 -s 64 --direction bwd")
    assert "summed" in details(made, Family.BWD_DQ_DK_DV)["dk, dv"]
    sizes = {w.name: w.bytes for w in made.workspaces}
    assert sizes["dk_heads"] == sizes["dv_heads"] == 2 * 2 * 8 * 64 * 128


def test_batch_prefill_for_pages_of_one_key() -> None:
    made = plan("-b 2 -s 300 --kv-cache paged:1 --cache-seqlens 500,77 --splits 1")
    assert families(made) == ["batch_prefill"]
    assert details(made, Family.BATCH_PREFILL)["grid"].startswith(("5 x 8 x 2;", "3 x 8 x 2;"))

"""Plans, parameter blocks, launches and conversions, run on the model of the kernels instead of a GPU.

Every result passes the product's own checks, guards included.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fmha_cli.backends.flash_attn.situation import KeyLengths, situation_of
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheStorage
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import BiasKey, MaskKey, Need
from fmha_cli.run.checks import must_repeat
from tests.support.generators.flash_attn.small import DIRECTED, random_problem
from tests.support.models.flash_attn.chain import plans_of, run_plan

ARCHS = ("sm_80", "sm_86", "sm_90", "sm_120")
FILLS = ("normal", "coded", "large", "ties", "sparse_int")
DEVICES = {arch: DeviceFacts.of_arch(arch) for arch in ARCHS}


def default_plan(problem: Problem, arch: str) -> Plan:
    return plans_of(problem, DEVICES[arch])[0]


@pytest.mark.sampled(4, ci="all")
@pytest.mark.parametrize("number", range(len(DIRECTED)), ids=lambda n: DIRECTED[n].replace(" ", ""))
def test_directed_problems(number: int) -> None:
    arch = ARCHS[number % 2]
    plan = default_plan(Problem.from_cli(DIRECTED[number]), arch)
    outcome = run_plan(plan, DEVICES[arch], kind=FILLS[number % len(FILLS)], seed=number)
    assert outcome.faults == ()


GIVEN = {
    "long rows": ("--kv-cache linear --cache-seqlens 130,7 --append 4 --rotary 32", CacheStorage(rows=400)),
    "long rows, some in front": (
        "--kv-cache linear --cache-seqlens 130,7 --cache-leftpad 5,31 --splits 3",
        CacheStorage(rows=300),
    ),
    "a large pool": ("--kv-cache paged:256 --cache-seqlens 300,7 --append 4", CacheStorage(pages=20, table=7)),
    "a large pool, packed": (
        "--seqlens-q 3,1 --kv-cache paged:256 --cache-seqlens 300,7",
        CacheStorage(pages=9, table=4),
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_given_cache_larger_than_its_keys(name: str) -> None:
    """Strides, capacity and the table's width are the cache's own; NaN is in all that no sequence uses."""
    flags, storage = GIVEN[name]
    rows = "" if "seqlens-q" in flags else "-b 2 -s 4"
    problem = replace(Problem.from_cli(f"{rows} -H 4 --kv-heads 2 -d 64 --causal --lse {flags}"), storage=storage)
    plan = default_plan(problem, "sm_80")
    assert situation_of(problem, DEVICES["sm_80"]).seqlen_k == (
        problem.seqlen_k if "packed" in name else storage.rows or storage.table * 256
    )
    assert run_plan(plan, DEVICES["sm_80"], seed=5).faults == ()


def features(plan: Plan) -> set[str]:
    p, s, main = plan.problem, situation_of(plan.problem, DEVICES[ARCHS[0]]), plan.main
    words = {
        **{stage.family.value: True for stage in plan.stages},
        f"{main.family.value} swapped {s.api.value}": s.swapped,
        f"{main.family.value} packed": s.packed_q,
        f"split {main.signature.split.value}": main.family is Family.FWD_SPLITKV,
        f"keys by {s.key_lengths.value}": s.key_lengths is not KeyLengths.COMMON,
        f"rotary {p.rotary.style.value}": p.rotary.dim > 0,
        "append": p.append > 0,
        "left padding": p.cache_leftpad is not None,
        "paged": p.paged,
        "paged and packed": p.paged and s.packed_q,
        "nothing launched": not s.launches,
        "even lengths": algorithm_of(main).even_mn,
        "uneven head dim": not algorithm_of(main).even_k and p.hdim != main.signature.hdim,
        "grouped heads": p.heads != p.kv_heads,
    }
    way = "bwd" if s.api.backward else "fwd"
    words |= {
        f"{way} mask {main.signature.mask.value}": True,
        f"{way} alibi {main.signature.mask.value}": main.signature.bias is BiasKey.ALIBI,
        f"{way} softcap": main.signature.softcap is Need.YES,
        f"{way} dropout": main.signature.dropout is Need.YES,
        f"{way} deterministic": p.deterministic,
        f"{way} hdim {main.signature.hdim}": True,
    }
    return {word for word, holds in words.items() if holds}


def test_the_directed_list_has_every_family_and_feature() -> None:
    found = set().union(*(features(default_plan(Problem.from_cli(line), "sm_80")) for line in DIRECTED))
    ways = {
        f"{way} {word}"
        for way in ("fwd", "bwd")
        for word in (
            *(f"hdim {hdim}" for hdim in (32, 64, 96, 128, 192, 256)),
            *(f"mask {mask.value}" for mask in (MaskKey.NONE, MaskKey.CAUSAL, MaskKey.WINDOW)),
            *("alibi causal", "alibi window", "softcap", "dropout"),
        )
    }
    wanted = {
        *(family.value for family in (Family.FWD, Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE)),
        *(family.value for family in (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)),
        *("fwd_splitkv swapped mha_fwd", "fwd_splitkv swapped mha_varlen_fwd", "fwd_splitkv swapped mha_fwd_kvcache"),
        *("fwd swapped mha_varlen_fwd", "fwd packed", "fwd_splitkv packed", "bwd_dq_dk_dv packed"),
        *("split yes", "split no", "keys by starts", "keys by lengths", "rotary half", "rotary interleaved", "append"),
        *("left padding", "paged", "paged and packed", "nothing launched", "even lengths", "uneven head dim"),
        *("grouped heads", "bwd deterministic", "bwd softcap"),
        *ways,
    }
    assert wanted - found == set()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    rng, arch = Random(seed), ARCHS[seed % len(ARCHS)]
    plans: list[Plan] = []
    while not plans:
        problem = random_problem(rng)
        plans = plans_of(problem, DEVICES[arch])
    outcome = run_plan(rng.choice(plans), DEVICES[arch], seed=seed)
    assert outcome.faults == (), problem.repro()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 340, 20))
def test_random_problems_and_every_kernel_that_serves_them(seed: int) -> None:
    """20 problems per seed; up to four other kernels that support a problem run too."""
    for number in range(seed, seed + 20):
        rng, arch = Random(number), ARCHS[number % len(ARCHS)]
        problem = random_problem(rng)
        for plan in plans_of(problem, DEVICES[arch])[:4]:
            outcome = run_plan(plan, DEVICES[arch], kind=FILLS[number % len(FILLS)], seed=number)
            assert outcome.faults == (), f"{problem.repro()} {plan.main.name}"


def test_a_deterministic_backward_pass_must_repeat_its_bits_and_no_other() -> None:
    line = "--direction bwd -b 1 -H 2 -s 70 -d 64"
    assert must_repeat(default_plan(Problem.from_cli(f"{line} --deterministic"), "sm_80"), "dq")
    assert not must_repeat(default_plan(Problem.from_cli(line), "sm_80"), "dq")

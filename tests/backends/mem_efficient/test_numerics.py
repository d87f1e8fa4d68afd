"""Plans, parameter blocks, launches and conversions, run on the model of the kernels instead of a GPU.

Every result passes the product's own checks, guards included, and no address lies outside a tensor.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheStorage
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from tests.support.generators.mem_efficient.small import ARCHS, DIRECTED, random_problem
from tests.support.models.mem_efficient.chain import plans_of, run_plan

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)

DEVICES = {arch: DeviceFacts.of_arch(arch) for arch in (*ARCHS, "sm_89")}
FILLS = ("normal", "coded", "large", "ties", "sparse_int")


def default_plan(line: str) -> tuple[Plan, DeviceFacts]:
    arch, _, flags = line.partition(" ")
    return plans_of(Problem.from_cli(flags), DEVICES[arch])[0], DEVICES[arch]


@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize("number", range(len(DIRECTED)), ids=lambda n: DIRECTED[n].replace(" ", ""))
def test_directed_problems(number: int) -> None:
    plan, device = default_plan(DIRECTED[number])
    outcome = run_plan(plan, device, kind=FILLS[number % len(FILLS)], seed=number)
    assert outcome.faults == ()


@pytest.mark.parametrize("line", [line for line in DIRECTED if "--kv-cache linear" in line])
def test_a_given_cache_longer_than_its_keys(line: str) -> None:
    """Sequences start a whole row of the cache apart; NaN is in all rows that hold no key."""
    arch, _, flags = line.partition(" ")
    problem = replace(Problem.from_cli(flags), storage=CacheStorage(rows=217))
    plan = plans_of(problem, DEVICES[arch])[0]
    assert run_plan(plan, DEVICES[arch], seed=5).faults == ()


def features(plan: Plan, device: DeviceFacts) -> set[str]:
    p, s = plan.problem, MemEfficientSituation(plan.problem, device)
    m = storage_of(p, plan.main)
    t, way = m.traits, "fwd" if m.traits.forward else "bwd"
    words = {
        f"{way} {p.dtype.value}": True,
        f"{way} tag {t.algorithm.tag}": True,
        f"{way} registers {bool(t.facts['kKeepOutputInRF' if t.forward else 'kOutputInRF'])}": True,
        f"{way} mask {s.mask_type}": True,
        f"{way} window {s.mask_type}": s.window > 0,
        f"{way} dropout": p.dropout > 0,
        f"{way} packed": s.apart,
        f"{way} bias {p.bias.value}": True,
        f"{way} padded": m.hdims != (p.hdim, p.hdim_v),
        f"{way} other hdim-v": p.hdim != p.hdim_v,
        f"{way} one key head": m.shared,
        f"{way} repeated heads": 1 < p.kv_heads < p.heads,
        f"{way} nothing launched": not s.launches,
        f"{way} layout {p.layout.value}": True,
        f"dbias {p.bias.value}": p.dbias,
        "cache": s.cached,
        "left padding": p.cache_leftpad is not None,
        "no alignment": not t.algorithm.aligned,
        "even lengths": t.algorithm.seq_aligned,
        "one split": not t.forward and m.splits == 1,
        "several splits": not t.forward and m.splits > 1,
        "k96": t.algorithm.max_k == 96,
        "preload": t.algorithm.preload,
    }
    return {word for word, holds in words.items() if holds}


def test_the_directed_list_has_every_feature() -> None:
    found = set().union(*(features(*default_plan(line)) for line in DIRECTED))
    both = (
        *(
            "fp16",
            "bf16",
            "fp32",
            "tag 75",
            "tag 80",
            "registers True",
            "registers False",
            "mask 0",
            "mask 1",
            "mask 2",
        ),
        *("window 1", "window 2", "dropout", "packed", "bias 11ss", "bias 1hss", "bias bhss", "padded", "other hdim-v"),
        *("one key head", "repeated heads", "nothing launched", "layout bhsd", "layout bshd"),
    )
    wanted = {f"{way} {word}" for way in ("fwd", "bwd") for word in both} | {
        *(
            "dbias 11ss",
            "dbias 1hss",
            "dbias bhss",
            "cache",
            "left padding",
            "no alignment",
            "even lengths",
            "one split",
        ),
        *("several splits", "k96", "preload"),
    }
    assert wanted - found == set()


@pytest.mark.parametrize("seed", range(10))
def test_random_problems(seed: int) -> None:
    rng, arch = Random(seed), ARCHS[seed % len(ARCHS)]
    plans: list[Plan] = []
    while not plans:
        problem = random_problem(rng, arch)
        plans = plans_of(problem, DEVICES[arch])
    outcome = run_plan(rng.choice(plans), DEVICES[arch], seed=seed)
    assert outcome.faults == (), problem.repro()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 500, 20))
def test_random_problems_and_every_kernel_that_serves_them(seed: int) -> None:
    """20 problems per seed; up to four kernels that support a problem run."""
    for number in range(seed, seed + 20):
        rng, arch = Random(number), ARCHS[number % len(ARCHS)]
        problem = random_problem(rng, arch)
        for plan in plans_of(problem, DEVICES[arch])[:4]:
            outcome = run_plan(plan, DEVICES[arch], kind=FILLS[number % len(FILLS)], seed=number)
            assert outcome.faults == (), f"{arch} {problem.repro()} {plan.main.name}"

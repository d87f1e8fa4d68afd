"""Each rule K520-K533 refuses what it should and passes its nearest neighbour."""

from __future__ import annotations

from random import Random

import pytest

from fmha_cli.backends.gpu.rule_rows import rule_rows
from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.backends.mem_efficient.decide import FEW
from fmha_cli.backends.mem_efficient.problem_rules import CONDITIONS
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import LEFTPAD_CORE_RULES, duplicate_ids, reasons_against
from tests.support.generators.mem_efficient.small import ARCHS, random_problem

BY_ID = {condition.id: condition for condition in CONDITIONS}
FWD, BWD = "F_f16_aligned_64x64_rf_sm80", "B_f16_aligned_64x64_k64_sm80"
WIDE, DROPS, EVEN = (
    "B_f16_aligned_128x128_k128_sm80",
    "B_f16_aligned_64x64_k64_dropout_sm80",
    "B_f16_aligned_64x64_k64_seqaligned_sm80",
)
K96 = "B_f16_aligned_128x64_k96_sm80"
LARGE = "-b 1 -H 1 -d 64 -s 1"
CASES = [
    ("K520", "sm_90", FWD, "--mask window:5,1", "--mask window:5,0"),
    ("K520", "sm_90", FWD, "--mask window:5,-1", ""),
    ("K520", "sm_90", BWD, "--mask generic:5,-2", "--mask causal-tl"),
    ("K520", "sm_90", BWD, "--mask generic:-2,1", "--mask generic:2,1"),
    ("K521", "sm_90", FWD, "-s 9 --seqlen-k 8 --causal", "-s 8 --seqlen-k 8 --causal"),
    ("K521", "sm_90", FWD, "-s 9 --seqlen-k 8 --mask window:3,0", "-s 9 --seqlen-k 8 --mask window-tl:3,0"),
    ("K521", "sm_90", FWD, "--seqlens-q 3,4 --seqlens-k 3,3 --causal", "--seqlens-q 3,4 --seqlens-k 3,0 --causal"),
    ("K521", "sm_90", FWD, "-s 9 --kv-cache linear --cache-seqlens 8 --causal", "-s 9 --kv-cache linear --cache-seqlens 9 --causal"),
    ("K522", "sm_90", BWD, "-s 8 --seqlen-k 9 --mask window:3,0", "-s 8 --seqlen-k 9 --mask window-tl:3,0"),
    ("K522", "sm_90", BWD, "-s 8 --seqlen-k 9 --mask window:7,0", "-s 8 --seqlen-k 9 --mask window:8,0"),
    ("K522", "sm_90", BWD, "--seqlens-q 3,4 --seqlens-k 3,5 --mask window:1,0", "--seqlens-q 3,4 --seqlens-k 3,0 --mask window:1,0"),
    ("K523", "sm_90", FWD, "--scale -0.5", "--scale 0.5"),
    ("K523", "sm_90", FWD, "--scale 0", "--scale 1.2e-38"),
    ("K523", "sm_90", FWD, "--scale 1e-40", "--scale 1e-30"),
    ("K524", "sm_90", DROPS, "--dropout 0.99999", "--dropout 0.9999"),
    ("K524", "sm_90", FWD, "--dropout 0.999999999 --dtype bf16", "--dropout 0.999999 --dtype bf16"),
    ("K525", "sm_90", FWD, "-b 1 -H 2 -s 32k --seqlen-k 32k --dropout 0.1", "-b 1 -H 2 -s 32k --seqlen-k 32767 --dropout 0.1"),
    ("K525", "sm_90", FWD, "-b 4 -H 1 -s 32k --seqlen-k 32k --dropout 0.1", "-b 4 -H 1 -s 32k --seqlen-k 32k"),
    ("K525", "sm_90", DROPS, "-b 4 -H 1 -s 32k --seqlen-k 32k --dropout 0.1", "-b 3 -H 1 -s 32k --seqlen-k 32k --dropout 0.1"),
    ("K526", "sm_90", FWD, "--alibi", "--bias elementwise"),
    ("K526", "sm_90", BWD, "--alibi-slopes filled:bh", ""),
    ("K527", "sm_90", BWD, "--seqlens-q 3,4 --bias elementwise", "-b 2 -s 4 --bias elementwise"),
    ("K528", "sm_90", FWD, "--kv-cache paged:128", "--kv-cache linear"),
    ("K529", "sm_90", FWD, f"{LARGE} --seqlen-k 33554432", f"{LARGE} --seqlen-k 33554431"),
    ("K529", "sm_90", FWD, f"{LARGE} -H 16 --layout bshd --seqlen-k 2097152", f"{LARGE} -H 16 --layout bshd --seqlen-k 2097151"),
    ("K529", "sm_90", FWD, f"{LARGE} -H 129 --seqlen-k 524288", f"{LARGE} -H 128 --seqlen-k 524288"),
    ("K529", "sm_90", FWD, "-b 1 -H 1 -d 64 -s 65536 --seqlen-k 65536 --bias elementwise", "-b 1 -H 1 -d 64 -s 65536 --seqlen-k 65528 --bias elementwise"),
    ("K529", "sm_90", FWD, "-b 32768 -H 64 -d 8 -s 2017 --seqlen-k 1 --lse", "-b 32768 -H 64 -d 8 -s 2016 --seqlen-k 1 --lse"),
    ("K529", "sm_90", FWD, "-b 4096 -H 1 -d 8 -s 1048576 --seqlen-k 1", "-b 4095 -H 1 -d 8 -s 1048576 --seqlen-k 1"),
    ("K529", "sm_90", BWD, "-b 1 -H 1 -d 64 -s 33554432 --seqlen-k 1 --direction bwd", "-b 1 -H 1 -d 64 -s 33554431 --seqlen-k 1 --direction bwd"),
    ("K529", "sm_90", BWD, "--seqlens-q 16777216,16777216 --seqlens-k 1,1 -H 1 -d 64 --direction bwd", "-b 2 -H 1 -d 64 -s 16777216 --seqlen-k 1 --direction bwd"),
    ("K529", "sm_90", BWD, "-b 1 -H 1 -d 64 -s 46352 --seqlen-k 46336 --bias elementwise:bhss --dbias --direction bwd", "-b 1 -H 1 -d 64 -s 46320 --seqlen-k 46336 --bias elementwise:bhss --dbias --direction bwd"),
    ("K530", "sm_90", FWD, "-b 64k -H 1 -s 1", "-b 65535 -H 1 -s 1"),
    ("K530", "sm_90", BWD, "-b 1 -H 64k -s 1", "-b 1 -H 65535 -s 1"),
    ("K530", "sm_90", BWD, "-b 1 -H 1 -d 8 -s 1 --seqlen-k 2097089", "-b 1 -H 1 -d 8 -s 1 --seqlen-k 2097088"),
    ("K532", "sm_90", EVEN, "-s 127 --seqlen-k 128", "-s 128 --seqlen-k 64"),
    ("K532", "sm_90", EVEN, "-s 128 --seqlen-k 63", "-s 64 --seqlen-k 128"),
]  # fmt: skip


def kernel_of(arch: str, name: str) -> KernelSpec:
    return next(k for k in kernels(load_arch(arch)) if UPSTREAM.upstream_name(k) == f"fmha_cutlass{name}")


@pytest.mark.parametrize(("rule", "arch", "name", "refused", "passed"), CASES)
def test_a_rule_refuses_and_passes(rule: str, arch: str, name: str, refused: str, passed: str) -> None:
    kernel, device = kernel_of(arch, name), DeviceFacts.of_arch(arch)
    check = BY_ID[rule].rule(MemEfficientSituation).against
    reason = check(Problem.from_cli(refused), kernel, device)
    assert reason is not None
    assert reason.id == rule
    assert "{" not in f"{reason.text}{reason.hint}"
    assert check(Problem.from_cli(passed), kernel, device) is None


def test_a_kernel_of_an_older_architecture_needs_the_devices_shared_memory() -> None:
    device = DeviceFacts(id="cuda:0", archs=("sm_86", "sm_80"), units=84)
    check, problem = BY_ID["K531"].rule(MemEfficientSituation).against, Problem.from_cli("--direction bwd")
    reason = check(problem, kernel_of("sm_80", WIDE), device)
    assert reason is not None
    assert "101376" in reason.text
    assert check(problem, kernel_of("sm_80", WIDE), DeviceFacts.of_arch("sm_80")) is None
    assert check(problem, kernel_of("sm_80", BWD), device) is None


@pytest.mark.parametrize(
    ("archs", "taken"), [(("sm_86", "sm_80"), True), (("sm_89",), True), (("sm_80",), False), (("sm_120",), False)]
)
def test_kernels_for_8_6_and_8_9_alone(archs: tuple[str, ...], taken: bool) -> None:
    device = DeviceFacts(id="cuda:0", archs=archs, units=84)
    reason = (
        BY_ID["K533"].rule(MemEfficientSituation).against(Problem.from_cli("-d 96"), kernel_of(archs[-1], K96), device)
    )
    assert (reason is None) == taken


def test_a_device_without_kernels_is_told_so() -> None:
    for arch, id in (("sm_70", "K501"), ("gfx942", "K500")):
        (only,) = UPSTREAM.decide(Problem.from_cli(""), DeviceFacts.of_arch(arch))
        assert not isinstance(only, Supported)
        assert [reason.id for reason in only.reasons] == [id]


def test_every_rule_is_tested_and_every_row_has_a_rule() -> None:
    assert {case[0] for case in CASES} | {"K531", "K533"} == set(BY_ID)
    own = [rule for rule in UPSTREAM.rules() if rule not in LEFTPAD_CORE_RULES]
    assert {rule.id for rule in own} == rule_rows("mem_efficient").keys()
    assert all(rule.text and rule.help and rule.source and rule.id.startswith("K5") for rule in own)
    assert duplicate_ids([UPSTREAM.rules()]) == []


@pytest.mark.parametrize("arch", ["sm_75", "sm_86"])
def test_kernels_that_are_judged_together_are_alike(arch: str) -> None:
    """``decide``, which judges similar kernels together, gives each kernel the reasons of its own rules."""
    rng, device, every = Random(11), DeviceFacts.of_arch(arch), UPSTREAM.rules()
    for _ in range(6):
        problem = random_problem(rng, arch)
        decisions = list(UPSTREAM.decide(problem, device))
        for decision in rng.sample(decisions, min(12, len(decisions))):
            assert decision.kernel is not None
            told = () if isinstance(decision, Supported) else decision.reasons
            alone = reasons_against(every, problem, decision.kernel, device)
            assert sorted((r.id, r.text) for r in told) == sorted((r.id, r.text) for r in alone), problem.repro()


def test_a_condition_reads_what_it_says_it_reads() -> None:
    device = DeviceFacts.of_arch("sm_80")
    situations = [MemEfficientSituation(random_problem(Random(seed), "sm_80"), device) for seed in range(8)]
    for kernel_family in (Family.FWD, Family.BWD_DQ_DK_DV):
        conditions = [condition for condition in CONDITIONS if kernel_family in condition.families]
        for s in situations:
            groups: dict[object, set[object]] = {}
            for kernel in (kernel for kernel in kernels(load_arch("sm_80")) if kernel.family is kernel_family):
                for condition in conditions:
                    reason = condition.check(s, kernel)
                    groups.setdefault((condition.id, condition.key(kernel)), set()).add(reason and reason.text)
            wrong = [id for id, texts in groups.items() if len(texts) != 1]
            assert wrong == [], s.problem.repro()


def test_the_index_holds_every_kernel() -> None:
    for arch in ARCHS:
        indexes = [FEW.index(arch, family) for family in (Family.FWD, Family.BWD_DQ_DK_DV)]
        found = [candidate.kernel for index in indexes for case in index.cases for candidate in case]
        assert sorted(k.name for k in found) == sorted(k.name for k in kernels(load_arch(arch)))

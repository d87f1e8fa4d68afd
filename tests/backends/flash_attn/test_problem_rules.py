"""Each rule K420-K479 refuses what it should and passes its nearest neighbour; planted faults are detected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from random import Random

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.compiled_for import SHARED_RULES
from fmha_cli.backends.flash_attn.decide import decide, family_index
from fmha_cli.backends.flash_attn.kernel_rules import KERNEL_RULES
from fmha_cli.backends.flash_attn.problem_rules import CONDITIONS, ORDER_RULES, PROBLEM_RULES, RULES
from fmha_cli.backends.flash_attn.signatures import MAIN
from fmha_cli.backends.flash_attn.situation import situation_of
from fmha_cli.backends.gpu.rule_rows import rule_rows
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES, SIGNATURE_RULE_IDS, Reason, duplicate_ids, reasons_against
from fmha_cli.domain.signature import Signature
from tests.support.generators.flash_attn.problems import random_problem

Want = Callable[[Signature, FaAlgorithm], bool]
BY_ID = {condition.id: condition for condition in CONDITIONS}
FWD, SPLIT, BWD = Family.FWD, Family.FWD_SPLITKV, Family.BWD_DQ_DK_DV


def kernel_of(arch: str, family: Family, hdim: int, want: Want) -> KernelSpec:
    """The first fp16 kernel of a head dim that ``want`` accepts."""
    for kernel in family_kernels(load_arch(arch), family):
        a, s = kernel.algorithm, kernel.signature
        assert isinstance(a, FaAlgorithm)
        if s.dtype.value == "fp16" and s.hdim == hdim and want(s, a):
            return kernel
    raise LookupError(family)


def plain(s: Signature, a: FaAlgorithm) -> bool:
    """Whether a kernel has no features and accepts all sizes."""
    features = (s.mask.value, s.bias.value, s.softcap.value, s.dropout.value, s.split.value)
    return not (a.even_mn or a.even_k) and features == ("none", "none", "no", "no", "no")


def even(s: Signature, a: FaAlgorithm) -> bool:
    return a.even_mn


def even_k(s: Signature, a: FaAlgorithm) -> bool:
    return a.even_k and not a.even_mn


def has(**compiled: str) -> Want:
    def want(s: Signature, a: FaAlgorithm) -> bool:
        return all(str(getattr(s, name)) == value for name, value in compiled.items())

    return want


GROUP = "--seqlens-q 3,4"
PAGED, LINEAR = "--kv-cache paged:256", "--kv-cache linear"
BACK = "--direction bwd"
CASES: list[tuple[str, str, Family, int, Want, str, str]] = [
    ("K420", "sm_90", FWD, 128, plain, "--dtype fp32", "--dtype fp16"),
    ("K420", "sm_90", FWD, 128, plain, "--dtype bf16", "--dtype fp16"),
    ("K420", "sm_90", FWD, 128, plain, "--dtype fp8_e4m3", "--dtype fp16"),
    ("K421", "sm_90", FWD, 128, plain, "--dtype fp16:fp32", "--dtype fp16"),
    ("K422", "sm_90", FWD, 128, plain, "-d 100", "-d 104"),
    ("K422", "sm_90", BWD, 32, plain, f"-d 1 {BACK}", f"-d 8 {BACK}"),
    ("K423", "sm_90", FWD, 256, plain, "-d 264", "-d 256"),
    ("K424", "sm_90", FWD, 128, plain, "-d 128 --hdim-v 120", "-d 128 --hdim-v 128"),
    ("K425", "sm_90", FWD, 128, plain, "--softcap 30 --dropout 0.1", "--softcap 30"),
    ("K425", "sm_90", BWD, 128, plain, f"--softcap 30 --dropout 0.1 {BACK}", f"--dropout 0.1 {BACK}"),
    ("K426", "sm_90", FWD, 128, plain, "--bias elementwise", "--alibi"),
    ("K426", "sm_90", BWD, 128, plain, f"--bias elementwise:bhss --dbias {BACK}", f"--alibi {BACK}"),
    ("K427", "sm_90", FWD, 128, plain, "--mask window:9,0 --sink 1", "--mask window:9,0"),
    ("K428", "sm_90", FWD, 128, plain, "--sink-logits filled", ""),
    ("K429", "sm_90", FWD, 128, plain, "--qscale tensor", ""),
    ("K430", "sm_90", FWD, 128, plain, "-s 8 --seqlen-k 9 --mask causal-tl", "-s 9 --seqlen-k 8 --mask causal-tl"),
    ("K430", "sm_90", FWD, 128, plain, "--seqlens-q 3,4 --seqlens-k 3,3 --mask causal-tl", "--seqlens-q 3,4 --seqlens-k 2,3 --mask causal-tl"),
    ("K430", "sm_90", FWD, 128, plain, "--mask generic:0,5", "--mask generic:1,5"),
    ("K430", "sm_90", FWD, 128, plain, "-s 8 --seqlen-k 9 --mask generic:5,1", "-s 8 --seqlen-k 9 --mask generic:5,2"),
    ("K430", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 8 --mask window-tl:0,3", "-s 9 --seqlen-k 8 --mask window-tl:1,3"),
    ("K431", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 8 --mask causal-tl --alibi", "-s 8 --seqlen-k 8 --mask causal-tl --alibi"),
    ("K431", "sm_90", FWD, 128, plain, "--seqlens-q 1,8 --seqlens-k 0,8 --mask causal-tl --alibi", "--seqlens-q 0,8 --seqlens-k 1,8 --mask causal-tl --alibi"),
    ("K432", "sm_90", FWD, 128, plain, "--scale -0.5", "--scale 0.5"),
    ("K432", "sm_90", FWD, 128, plain, "--scale 0", "--scale 1e-40"),
    ("K432", "sm_90", BWD, 128, plain, f"--scale 1e-50 {BACK}", f"--scale 1e-40 {BACK}"),
    ("K432", "sm_90", FWD, 128, plain, "--scale 1e-30 --softcap 1e20", "--scale 1e-30 --softcap 1e10"),
    ("K433", "sm_90", FWD, 128, plain, "--dropout 1e-9", "--dropout 1e-6"),
    ("K433", "sm_90", FWD, 128, plain, "--dropout 0.999999999", "--dropout 0.9999"),
    ("K434", "sm_86", BWD, 256, plain, f"-d 256 --dropout 0.1 {BACK}", f"-d 192 --dropout 0.1 {BACK}"),
    ("K434", "sm_120", BWD, 256, plain, f"-d 200 --dropout 0.1 {BACK}", f"-d 200 {BACK}"),
    ("K435", "sm_90", FWD, 128, plain, f"{LINEAR} --dropout 0.1", "--dropout 0.1"),
    ("K436", "sm_90", SPLIT, 128, plain, "--kv-cache paged:255", PAGED),
    ("K436", "sm_90", SPLIT, 128, plain, "--kv-cache paged:128", "--kv-cache paged:768"),
    ("K437", "sm_90", SPLIT, 128, plain, f"{GROUP} {PAGED} --append 3", f"-s 3 {PAGED} --append 3"),
    ("K438", "sm_90", SPLIT, 128, plain, f"-s 9 {LINEAR} --cache-seqlens 5 --append 3", f"-s 9 {LINEAR} --cache-seqlens 6 --append 3"),
    ("K438", "sm_90", SPLIT, 128, plain, f"-s 1 --kv-heads 1 {LINEAR} --cache-seqlens 4 --append 3", f"-s 1 --kv-heads 1 {LINEAR} --cache-seqlens 5 --append 3"),
    ("K439", "sm_90", SPLIT, 128, has(mask="window"), f"-s 1 {LINEAR} --cache-seqlens 127 --append 67 --mask window:65,0", f"-s 1 {LINEAR} --cache-seqlens 127 --append 66 --mask window:65,0"),
    ("K439", "sm_90", SPLIT, 64, has(mask="window"), f"-s 1 -d 64 {LINEAR} --cache-seqlens 255 --append 258 --mask window:256,0", f"-s 1 -d 64 {LINEAR} --cache-seqlens 256 --append 258 --mask window:256,0"),
    ("K440", "sm_90", SPLIT, 128, plain, f"-s 2 {LINEAR} --append 2 --rotary 8 --causal", f"-s 2 {LINEAR} --append 2 --rotary 16 --causal"),
    ("K441", "sm_90", SPLIT, 128, plain, f"-s 2 {LINEAR} --append 2 --rotary 16", f"-s 2 {LINEAR} --append 2 --rotary 16 --causal"),
    ("K441", "sm_90", SPLIT, 128, plain, f"-s 2 {LINEAR} --cache-seqlens 9 --append 3 --rotary 16 --causal", f"-s 3 {LINEAR} --cache-seqlens 9 --append 3 --rotary 16 --causal"),
    ("K441", "sm_90", SPLIT, 128, plain, f"-s 2 {LINEAR} --append 2 --rotary 16 --cache-seqlens 9 --mask window:11,11", f"-s 2 {LINEAR} --append 2 --rotary 16 --cache-seqlens 9 --mask window:10,11"),
    ("K441", "sm_90", SPLIT, 128, plain, f"-s 1 {LINEAR} --cache-seqlens 9 --append 2 --rotary 16", f"-s 1 {LINEAR} --cache-seqlens 9 --append 1 --rotary 16"),
    ("K442", "sm_90", SPLIT, 128, has(split="yes"), "--splits 129", "--splits 128"),
    ("K443", "sm_90", SPLIT, 128, has(split="yes"), f"{GROUP} --splits 2", f"{GROUP} --splits 1"),
    ("K443", "sm_90", SPLIT, 128, has(split="yes"), "--seqlens-q 1,1 --splits 2", "--seqlens-q 1,1 --kv-heads 1 --splits 2"),
    ("K443", "sm_90", SPLIT, 128, has(split="yes"), "--seqlens-q 1,0 --kv-heads 1 --splits 2", "--seqlens-q 1 --kv-heads 1 --splits 2"),
    ("K444", "sm_90", FWD, 128, plain, "--seqlens-q 0,0", "--seqlens-q 0,1"),
    ("K445", "sm_90", BWD, 128, plain, f"--seqlen-k 0 {BACK}", f"--seqlen-k 0 --deterministic {BACK}"),
    ("K445", "sm_90", BWD, 128, plain, f"--seqlens-q 1,1 --seqlens-k 0,0 {BACK}", f"--seqlens-q 1,1 --seqlens-k 0,1 {BACK}"),
    ("K446", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 4 --mask window:2,5", "-s 5 --seqlen-k 4 --mask window:2,5"),
    ("K446", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 4 --mask window:-1,4", "-s 9 --seqlen-k 4 --mask window:-1,3"),
    ("K446", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 4 --mask window:2,-1", "-s 9 --seqlen-k 8 --mask window:2,-1"),
    ("K446", "sm_90", FWD, 128, plain, "-s 9 --seqlen-k 4 --mask causal-tl", "-s 9 --seqlen-k 5 --mask causal-tl"),
    ("K446", "sm_90", BWD, 128, plain, f"--seqlens-q 9,9 --seqlens-k 4,5 --mask window:2,6 {BACK}", f"--seqlens-q 6,6 --seqlens-k 4,5 --mask window:2,6 {BACK}"),
    ("K447", "sm_90", SPLIT, 128, has(split="no"), "--seqlens-q 1,2 --kv-cache linear --cache-seqlens 9 --cache-batch-idx 1,0", "--seqlens-q 1,2 --kv-cache linear --cache-seqlens 9"),
    ("K450", "sm_90", FWD, 32, plain, "-H 1 -d 8 -s 1 --seqlen-k 1073741824", "-H 1 -d 8 -s 1 --seqlen-k 1073741823"),
    ("K451", "sm_90", FWD, 32, plain, "-H 1 --seqlens-q 1,1,1 --seqlens-k 1073741823,1073741823,2", "-H 1 --seqlens-q 1,1 --seqlens-k 1073741823,1073741823"),
    ("K452", "sm_90", FWD, 128, plain, "-H 64 -s 32m --seqlen-k 1", "-H 64 -s 33554431 --seqlen-k 1"),
    ("K452", "sm_90", FWD, 128, plain, "-H 64 --seqlens-q 33554431,1 --seqlens-k 1,1", "-H 64 --seqlens-q 33554430,1 --seqlens-k 1,1"),
    ("K452", "sm_90", BWD, 128, plain, f"-H 64 -s 33554305 --seqlen-k 1 {BACK}", f"-H 64 -s 33554304 --seqlen-k 1 {BACK}"),
    ("K452", "sm_90", BWD, 128, plain, f"-H 64 --seqlens-q 33554304 --seqlens-k 1 {BACK}", f"-H 64 --seqlens-q 33554303 --seqlens-k 1 {BACK}"),
    ("K453", "sm_90", SPLIT, 128, has(split="yes"), "-H 16 -s 8k --splits 128", "-H 16 -s 8k --splits 127"),
    ("K454", "sm_90", FWD, 128, has(dropout="yes"), "-b 32k -H 2k -s 1 --dropout 0.1", "-b 32767 -H 2k -s 1 --dropout 0.1"),
    ("K455", "sm_90", FWD, 128, plain, "-b 64k -H 1 -s 1", "-b 65535 -H 1 -s 1"),
    ("K455", "sm_90", BWD, 128, plain, f"-b 1 -H 64k -s 1 {BACK}", f"-b 1 -H 65535 -s 1 {BACK}"),
    ("K455", "sm_90", SPLIT, 128, has(split="yes"), "-b 32k -H 2 -s 2 --splits 2", "-b 32767 -H 2 -s 2 --splits 2"),
    ("K460", "sm_90", FWD, 96, plain, "-d 104", "-d 72"),
    ("K460", "sm_90", FWD, 128, plain, "-d 96", "-d 104"),
    ("K461", "sm_90", FWD, 128, plain, "-s 2 --causal", "-s 1 --causal"),
    ("K461", "sm_90", FWD, 128, plain, "-s 8 --mask window:7,7", "-s 8 --mask window:8,8"),
    ("K461", "sm_90", FWD, 128, has(mask="causal"), "-s 8 --mask window:7,0", "-s 8 --mask window:8,0"),
    ("K461", "sm_90", FWD, 128, has(mask="causal"), "-s 1 --causal", "-s 1 --causal --alibi"),
    ("K461", "sm_90", FWD, 128, has(mask="window"), "-s 8 --causal", "-s 8 --mask window:3,0"),
    ("K462", "sm_90", FWD, 128, plain, "--alibi", ""),
    ("K462", "sm_90", FWD, 128, has(bias="alibi"), "", "--alibi"),
    ("K463", "sm_90", FWD, 128, plain, "--splits 2", "--splits 1"),
    ("K463", "sm_90", SPLIT, 128, has(split="yes"), "--splits 1", "--splits 2"),
    ("K463", "sm_90", SPLIT, 128, has(split="yes"), "-b 64 -s 8k", "-b 1 -H 1 -s 1 --seqlen-k 8k"),
    ("K464", "sm_90", FWD, 128, plain, PAGED, LINEAR),
    ("K464", "sm_90", FWD, 128, plain, f"-b 2 {LINEAR} --cache-batch-idx 1,0", f"-b 2 {LINEAR}"),
    ("K465", "sm_90", FWD, 128, even, "-s 129 --seqlen-k 128", "-s 128 --seqlen-k 128"),
    ("K465", "sm_90", FWD, 128, even, "-s 128 --seqlen-k 129", "-s 128 --seqlen-k 64"),
    ("K465", "sm_86", FWD, 128, even, "-s 128 --seqlen-k 48", "-s 128 --seqlen-k 32"),
    ("K465", "sm_90", FWD, 128, even, "--seqlens-q 128,128", "-b 2 -s 128"),
    ("K465", "sm_90", FWD, 128, even, f"-s 128 {LINEAR} --cache-seqlens 128", "-s 128"),
    ("K465", "sm_90", BWD, 64, even, f"-d 64 -s 64 {BACK}", f"-d 64 -s 128 {BACK}"),
    ("K465", "sm_90", SPLIT, 64, even, "-d 64 -s 64 --seqlen-k 128 --splits 2", "-d 64 -s 64 --seqlen-k 256 --splits 2"),
    ("K466", "sm_90", FWD, 128, even_k, "-d 120", "-d 128"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "arch", "family", "hdim", "want", "refused", "passed"), CASES)
def test_a_rule_refuses_and_passes(
    rule: str, arch: str, family: Family, hdim: int, want: Want, refused: str, passed: str
) -> None:
    kernel, device = kernel_of(arch, family, hdim, want), DeviceFacts.of_arch(arch)
    check = BY_ID[rule].rule(situation_of).against
    reason = check(Problem.from_cli(refused), kernel, device)
    assert reason is not None
    assert reason.id == rule
    assert reason.hint
    assert check(Problem.from_cli(passed), kernel, device) is None


def test_a_kernel_of_an_older_architecture_needs_the_devices_shared_memory() -> None:
    """A backward kernel for sm_80 runs on 8.6 only if its tile fits that device's smaller shared memory."""
    check, device = (
        BY_ID["K456"].rule(situation_of).against,
        DeviceFacts(id="cuda:0", archs=("sm_86", "sm_80"), units=84),
    )
    problem = Problem.from_cli(f"-s 128 {BACK}")
    reason = check(problem, kernel_of("sm_80", BWD, 128, plain), device)
    assert reason is not None
    assert "147456" in reason.text
    assert check(problem, kernel_of("sm_80", BWD, 32, plain), device) is None
    assert check(problem, kernel_of("sm_86", BWD, 128, plain), device) is None
    assert check(problem, kernel_of("sm_80", BWD, 128, plain), DeviceFacts.of_arch("sm_80")) is None


def test_a_backward_pass_that_fits_no_device_of_8_6_is_refused() -> None:
    """Upstream silently launches nothing there; the kernel for sm_80 would not launch either."""
    device = DeviceFacts(id="cuda:0", archs=("sm_86", "sm_80"), units=84)
    problem = Problem.from_cli(f"-d 256 -s 128 --dropout 0.1 {BACK}")
    assert not [d for d in decide(problem, device) if isinstance(d, Supported)]


def test_every_rule_is_tested() -> None:
    assert {case[0] for case in CASES} | {"K456"} == set(BY_ID)


def test_texts_hold_the_values() -> None:
    for line, words in (
        ("-d 100", ("100", "8")),
        ("--kv-cache paged:48", ("48", "256")),
        ("--splits 200", ("200", "128")),
        ("-d 264", ("264", "256")),
        ("--softcap 30 --dropout 0.25", ("30", "0.25")),
        ("-s 2 --kv-cache linear --append 2 --rotary 24 --causal", ("24", "16")),
    ):
        decisions = decide(Problem.from_cli(line), DeviceFacts.of_arch("sm_90"))
        texts = {r.text for d in decisions if not isinstance(d, Supported) for r in d.reasons}
        assert any(all(word in text for word in words) for text in texts), line


def test_every_row_has_a_rule() -> None:
    assert rule_rows("flash_attn").keys() == {rule.id for rule in (*KERNEL_RULES, *PROBLEM_RULES)}


def test_ids_texts_and_sources() -> None:
    assert duplicate_ids([CORE_RULES, RULES]) == []
    assert len({rule.id for rule in PROBLEM_RULES}) == len(PROBLEM_RULES)
    for rule in PROBLEM_RULES:
        assert "K420" <= rule.id <= "K479"
        assert rule.text
        assert rule.help
        assert rule.source


def test_every_signature_field_is_judged_once() -> None:
    """A core rule or a FlashAttention rule judges each field, unless no kernel and no problem differs in it."""
    own = {
        "dtype": "K420", "dtype_out": "K421", "hdim": "K460", "hdim_v": "K424", "mode": "K465", "mask": "K461",
        "sink": "K427", "sink_logits": "K428", "bias": "K462", "cache": "K464", "page": "K436", "split": "K463",
        "qscale": "K429", "dbias": "K426",
    }  # fmt: skip
    compared = {rule.field for rule in SHARED_RULES if rule.field} - {
        "mask"
    }  # only of masks that two bounds cannot express
    assert set(own) & compared == set()
    assert set(own) | compared == {field.name for field in fields(Signature)}
    assert set(own.values()) <= set(BY_ID)
    taken = {rule.id for rule in RULES}
    assert {rule.id for rule in SHARED_RULES} <= taken
    assert taken & {SIGNATURE_RULE_IDS[f] for f in own if f in SIGNATURE_RULE_IDS} == {SIGNATURE_RULE_IDS["mask"]}


def test_order_rules_refuse_nothing() -> None:
    rng, device = Random(5), DeviceFacts.of_arch("sm_90")
    kernel = kernel_of("sm_90", FWD, 128, plain)
    for _ in range(50):
        assert reasons_against(ORDER_RULES, random_problem(rng), kernel, device) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_120"])
def test_kernels_that_are_judged_together_are_alike(arch: str) -> None:
    """``decide``, which judges similar kernels together, gives each kernel the reasons of its own rules."""
    rng, device = Random(11), DeviceFacts(id="cuda:0", archs=(arch,), units=100)
    for _ in range(12):
        problem = random_problem(rng)
        decisions = list(decide(problem, device))
        for decision in rng.sample(decisions, 40):
            told: tuple[Reason, ...] = () if isinstance(decision, Supported) else decision.reasons
            assert decision.kernel is not None
            alone = reasons_against(RULES, problem, decision.kernel, device)
            assert sorted(r.id for r in told) == sorted(r.id for r in alone), (problem.repro(), decision.kernel.name)
            assert {r.text for r in told} == {r.text for r in alone}


def test_a_condition_reads_what_it_says_it_reads() -> None:
    """A condition that reads more than ``reads`` would judge a kernel by another kernel's features."""
    problems = [random_problem(Random(seed)) for seed in range(40)]
    device = DeviceFacts.of_arch("sm_90")
    situations = [situation_of(problem, device) for problem in problems]
    for family in MAIN:
        kernels = Random(2).sample(list(family_kernels(load_arch("sm_90"), family)), 60)
        for condition in CONDITIONS:
            if family not in condition.families:
                continue
            for s in situations:
                groups: dict[object, set[object]] = {}
                for kernel in kernels:
                    reason = condition.check(s, kernel)
                    groups.setdefault(condition.key(kernel), set()).add(reason and reason.text)
                assert all(len(texts) == 1 for texts in groups.values()), (condition.id, s.problem.repro())


def test_few_questions_are_asked() -> None:
    """The index asks far fewer questions than there are kernels."""
    for family in MAIN:
        index = family_index("sm_90", family)
        kernels = sum(len(case) for case in index.cases)
        assert kernels == len(family_kernels(load_arch("sm_90"), family))
        assert len(index.questions) <= kernels / 3

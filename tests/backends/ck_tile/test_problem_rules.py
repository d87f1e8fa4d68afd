"""Each rule K300-K339 refuses what it should, passes its nearest neighbour, and agrees for a whole class of kernels."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.decide import decide, family_candidates
from fmha_cli.backends.ck_tile.kernel_rules import KERNEL_RULES, refusals
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.problem_rules import CONDITIONS, PROBLEM_RULES
from fmha_cli.backends.ck_tile.situation import situation_of
from fmha_cli.backends.gpu.conditions import MAIN, conditions_for
from fmha_cli.backends.gpu.rule_rows import rule_rows
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import ANGLES_RULE, CACHE_ITEM_RULE, CORE_RULES, duplicate_ids, reasons_against
from fmha_cli.domain.signature import MaskKey, ModeKey
from tests.support.generators.ck_tile.problems import random_problem

Want = Callable[[KernelSpec, CkAlgorithm], bool]
BY_ID = {condition.id: condition for condition in CONDITIONS}
FWD, SPLITKV, PREFILL, BWD = Family.FWD, Family.FWD_SPLITKV, Family.BATCH_PREFILL, Family.BWD_DQ_DK_DV


def kernel_of(arch: str, family: Family, hdim: int, want: Want) -> KernelSpec:
    """The first fp16 batch kernel of a head dim that ``want`` accepts."""
    for kernel in family_kernels(load_arch(arch), family):
        a, s = kernel.algorithm, kernel.signature
        assert isinstance(a, CkAlgorithm)
        if (
            s.dtype.value == "fp16"
            and s.mode is ModeKey.BATCH
            and (s.hdim, s.hdim_v) == (hdim, hdim)
            and want(kernel, a)
        ):
            return kernel
    raise LookupError(family)


def unpadded(kernel: KernelSpec, a: CkAlgorithm) -> bool:
    return a.pipeline is Pipeline.QR and not (a.pad_s or a.pad_sk or a.pad_d)


def plain(kernel: KernelSpec, a: CkAlgorithm) -> bool:
    return kernel.signature.mask is MaskKey.NONE


def trload(kernel: KernelSpec, a: CkAlgorithm) -> bool:
    return a.max_seq_q > 0


CASES: list[tuple[str, str, Family, int, Want, str, str]] = [
    ("K300", "gfx942", FWD, 128, lambda k, a: k.signature.mask is MaskKey.ANY, "-s 64", "-s 64 --causal"),
    ("K301", "gfx942", FWD, 256, unpadded, "-s 129", "-s 256"),
    ("K301", "gfx942", SPLITKV, 128, lambda k, a: not a.pad_s, "-s 63 --splits 2", "-s 64 --splits 2"),
    ("K302", "gfx942", FWD, 256, unpadded, "-s 128 --seqlen-k 129", "-s 128 --seqlen-k 256"),
    ("K302", "gfx942", FWD, 256, unpadded, "-s 128 --seqlen-k 0", "-s 128 --seqlen-k 128"),
    ("K302", "gfx942", SPLITKV, 128, lambda k, a: not a.pad_sk, "-s 1 --kv-cache linear --cache-seqlens 128", "-s 64 --seqlen-k 0"),
    (
        *("K302", "gfx942", PREFILL, 128, lambda k, a: not a.pad_sk),
        "-b 2 -s 64 --kv-cache paged:1 --cache-seqlens 128,256",
        "-b 2 -s 64 --kv-cache paged:1 --cache-seqlens 256",
    ),
    ("K303", "gfx942", FWD, 128, lambda k, a: a.pipeline is Pipeline.QR_ASYNC, "-d 100", "-d 104"),
    ("K303", "gfx942", FWD, 256, unpadded, "-d 248 --hdim-v 256", "-d 256"),
    ("K303", "gfx942", BWD, 128, lambda k, a: (a.pad_d, a.pad_dv) == (8, 8), "-d 100 --hdim-v 128", "-d 104"),
    ("K304", "gfx942", FWD, 256, unpadded, "-d 256 --hdim-v 248", "-d 256"),
    ("K304", "gfx942", BWD, 128, lambda k, a: a.pad_dv == 0, "-d 128 --hdim-v 120", "-d 128"),
    ("K305", "gfx950", BWD, 128, trload, "-s 17 --direction bwd", "-s 16 --direction bwd"),
    ("K308", "gfx942", SPLITKV, 128, lambda k, a: k.signature.cache.value == "any", "--kv-cache paged:128", "--kv-cache linear"),
    ("K320", "gfx942", SPLITKV, 128, plain, "--kv-cache paged:64", "--kv-cache paged:384"),
    ("K320", "gfx942", Family.FWD_PAGEDKV, 128, plain, "--kv-cache paged:130", "--kv-cache paged:128"),
    ("K321", "gfx942", SPLITKV, 128, plain, "--seqlens-q 3,4 --kv-cache linear", "--seqlens-q 3,4 --kv-cache paged:128"),
    (
        *("K322", "gfx942", SPLITKV, 128, plain),
        "--seqlens-q 3,4 --kv-cache paged:128 --append 3",
        "-s 3 --kv-cache paged:128 --append 3",
    ),
    ("K323", "gfx942", SPLITKV, 128, plain, "-s 2 --kv-cache linear --append 2 --rotary 8", "-s 2 --kv-cache linear --append 2 --rotary 16"),
    ("K324", "gfx942", SPLITKV, 128, plain, "-s 2 --kv-cache linear --append 2 --rotary 16 --dtype fp32", "-s 2 --kv-cache linear --append 2 --rotary 16"),
    ("K325", "gfx942", SPLITKV, 128, plain, "-s 3 --kv-cache linear --append 2 --rotary 16", "-s 2 --kv-cache linear --append 2 --rotary 16"),
    ("K326", "gfx942", SPLITKV, 128, plain, "--splits 129", "--splits 128"),
    ("K327", "gfx942", FWD, 128, plain, "--mask generic:0,5", "--mask generic:1,5"),
    ("K328", "gfx942", FWD, 128, plain, "-b 2 -H 64 -s 256k", "-b 2 -H 64 -s 128k"),
    ("K328", "gfx942", SPLITKV, 128, plain, "-b 2 -H 64 -s 16k --splits 16", "-b 2 -H 64 -s 16k --splits 15"),
    ("K328", "gfx942", BWD, 128, lambda k, a: k.signature.deterministic.value == "yes", "-b 16 -H 64 -s 16k --direction bwd", "-b 15 -H 64 -s 16k --direction bwd"),
    ("K329", "gfx942", FWD, 128, plain, "-H 64 -s 256k --layout bshd", "-H 64 -s 255k --layout bshd"),
    (
        *("K329", "gfx942", PREFILL, 128, plain),
        "-H 64 -s 16 --kv-cache paged:1 --cache-seqlens 256k",
        "-H 64 -s 16 --kv-cache paged:1 --cache-seqlens 255k",
    ),
    ("K330", "gfx942", SPLITKV, 128, plain, "-H 64k -s 1", "-H 32k -s 1"),
    ("K330", "gfx942", FWD, 128, plain, "-b 64k -s 1", "-H 64k -s 1"),
    ("K331", "gfx942", FWD, 128, plain, "--seqlens-q 3,4 --bias elementwise", "--seqlens-q 7 --bias elementwise"),
    ("K331", "gfx942", FWD, 128, plain, "--seqlens-q 3,4 --bias elementwise:b11s", "--seqlens-q 3,4 --bias elementwise:111s"),
    ("K332", "gfx942", BWD, 128, plain, "--direction bwd --bias elementwise:bh1s --dbias", "--direction bwd --bias elementwise:bh1s"),
    ("K332", "gfx942", BWD, 128, plain, "--direction bwd --bias elementwise:1hss --dbias -b 2", "--direction bwd --bias elementwise:1hss --dbias"),
    ("K333", "gfx942", FWD, 128, plain, "--seqlens-q 0,0", "--seqlens-q 0,1"),
    ("K335", "gfx942", SPLITKV, 128, lambda k, a: plain(k, a) and not a.pad_sk, "--seqlen-k 0 --splits 2", "--seqlen-k 128 --splits 2"),
    ("K336", "gfx942", FWD, 128, lambda k, a: k.signature.bias.value == "alibi" and plain(k, a) and a.pad_sk, "-s 64 --seqlen-k 65537 --alibi", "-s 64 --seqlen-k 65536 --alibi"),
    ("K337", "gfx942", FWD, 128, plain, "-s 128 --scale -0.5", "-s 128 --scale 0.5"),
    (
        *("K338", "gfx942", PREFILL, 128, lambda k, a: plain(k, a) and a.tile[:2] == (128, 128)),
        "-s 129 --kv-cache paged:1 --cache-seqlens 277 --mask window:148,0",
        "-s 129 --kv-cache paged:1 --cache-seqlens 277 --mask window:149,0",
    ),
    ("K334", "gfx942", BWD, 128, plain, "--direction bwd --seqlen-k 0", "--direction bwd --seqlen-k 1"),
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
    assert check(Problem.from_cli(passed), kernel, device) is None


def test_kernels_that_do_more_than_is_asked_for() -> None:
    device, problem = DeviceFacts.of_arch("gfx942"), Problem.from_cli("-s 64")
    skipping = kernel_of("gfx942", FWD, 128, lambda k, a: a.skip_min_seqlen_q)
    storing = kernel_of("gfx942", BWD, 128, lambda k, a: a.store_randval)
    assert BY_ID["K306"].rule(situation_of).check(problem, skipping, device) is not None
    assert (
        BY_ID["K307"].rule(situation_of).check(Problem.from_cli("--direction bwd --dropout 0.1"), storing, device)
        is not None
    )


def test_missing_stages_are_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    from fmha_cli.backends.ck_tile import stages

    device = DeviceFacts.of_arch("gfx942")
    for rule, name, line in (
        ("K310", "combine_for", "--splits 4"),
        ("K311", "append_for", "-s 1 --kv-cache linear --append 1"),
        ("K312", "dot_for", "--direction bwd"),
        ("K312", "convert_for", "--direction bwd"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(stages, name, lambda *args: None)
            decisions = list(decide(Problem.from_cli(line), device))
        assert not any(isinstance(d, Supported) for d in decisions), (rule, name)
        assert any(r.id == rule for d in decisions if not isinstance(d, Supported) for r in d.reasons)


def test_every_rule_is_tested() -> None:
    tested = {case[0] for case in CASES} | {"K306", "K307", "K310", "K311", "K312"}
    assert tested == set(BY_ID)


def test_ids_and_pages() -> None:
    assert duplicate_ids([CORE_RULES, KERNEL_RULES, PROBLEM_RULES]) == []
    assert all(rule.id.startswith("K3") and rule.help and rule.source for rule in PROBLEM_RULES)
    assert len({rule.id for rule in PROBLEM_RULES}) == len(PROBLEM_RULES)


def test_every_row_has_a_rule() -> None:
    assert rule_rows("ck_tile").keys() == {rule.id for rule in (*KERNEL_RULES, *PROBLEM_RULES)}


def test_rules_of_order_refuse_nothing() -> None:
    kernel, device = kernel_of("gfx942", FWD, 128, plain), DeviceFacts.of_arch("gfx942")
    assert all(rule.check(Problem.from_cli("-d 512"), kernel, device) is None for rule in ORDER_RULES)


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    ("arch", "problems"),
    [
        *((arch, 5) for arch in ("gfx942", "gfx950", "gfx1201")),
        *(pytest.param(arch, 12, marks=pytest.mark.slow) for arch in ("gfx942", "gfx950", "gfx1201")),
    ],
)
def test_decisions_are_those_of_the_rule_table(arch: str, problems: int) -> None:
    """Judging classes of kernels gives every kernel exactly the reasons that its own rules give."""
    rng, device = Random(arch), DeviceFacts(id="hip:0", archs=(arch,), units=104)
    core = (rule for rule in CORE_RULES if rule not in (ANGLES_RULE, CACHE_ITEM_RULE))
    rules = (*KERNEL_RULES, *core, *PROBLEM_RULES)
    for _ in range(problems):
        problem = random_problem(rng)
        for decision in rng.sample(list(decide(problem, device)), 150):
            kernel = decision.kernel
            assert kernel is not None
            own = {r.id: r.text for r in reasons_against(rules, problem, kernel, device)}
            found = {} if isinstance(decision, Supported) else {r.id: r.text for r in decision.reasons}
            assert found == own, (problem.repro(), kernel.name)


def disagreements(arch: str, share: float) -> list[str]:
    """Kernels in a random share for which the kernel rules in the decision differ from the kernel's own refusals."""
    rng, out, device = Random(arch), [], DeviceFacts(id="hip:0", archs=(arch,), units=104)
    own = {rule.id for rule in KERNEL_RULES}
    for decision in (d for line in ("", "--direction bwd") for d in decide(Problem.from_cli(line), device)):
        told = () if isinstance(decision, Supported) else decision.reasons
        assert decision.kernel is not None
        if rng.random() < share and refusals(decision.kernel) != tuple(r for r in told if r.id in own):
            out.append(decision.kernel.name)
    return out


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_refusals_are_those_of_the_kernel(arch: str) -> None:
    assert disagreements(arch, 0.1) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_refusals_are_those_of_every_kernel_of_a_class(arch: str) -> None:
    assert disagreements(arch, 1.0) == []


def test_a_condition_reads_what_it_says_it_reads() -> None:
    """A condition that reads more than ``reads`` would judge a kernel by another kernel's features."""
    problems = [random_problem(Random(seed)) for seed in range(25)]
    situations = [situation_of(problem, DeviceFacts.of_arch("gfx942")) for problem in problems]
    for family in MAIN:
        kernels = list(family_kernels(load_arch("gfx942"), family))
        sample = Random(2).sample(kernels, min(50, len(kernels)))
        for condition in conditions_for(family, CONDITIONS):
            for s in situations:
                groups: dict[object, set[object]] = {}
                for kernel in sample:
                    groups.setdefault(condition.key(kernel), set()).add(condition.check(s, kernel))
                assert all(len(found) == 1 for found in groups.values()), (condition.id, s.problem.repro())


def test_few_questions_are_asked() -> None:
    """The index asks far fewer questions than there are kernels."""
    for family in (FWD, BWD):
        index = family_candidates("gfx942", family).index
        assert sum(map(len, index.cases)) == len(family_kernels(load_arch("gfx942"), family))
        assert len(index.questions) < sum(map(len, index.cases)) / 4

"""Dispatch keys are injective and stable, and ``decide`` agrees with a model of upstream's dispatch table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.decide import decide
from fmha_cli.backends.flash_attn.key import DispatchKey, Page, key_of
from fmha_cli.backends.flash_attn.problem_rules import PROBLEM_RULES, RULES
from fmha_cli.backends.flash_attn.signatures import MAIN
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import FmhaError, UsageError
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES
from fmha_cli.domain.signature import Need
from tests.support.generators.flash_attn.problems import random_problem
from tests.support.referees.flash_attn.dispatch import (
    CONTRADICTION,
    NOT_LISTED,
    lookup,
    parse_key,
    strict_lookup,
    validate,
)

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")
PLAIN_LINE = "-b 64 -s 2k --dtype bf16"
PLAIN = key_of(Problem.from_cli(PLAIN_LINE), "sm_90")


def key(**changes: Any) -> DispatchKey:
    made: DispatchKey = replace(PLAIN, even=False, **changes)
    return made


def ids(of: DispatchKey) -> list[str]:
    return [reason.id for reason in validate(of)]


def test_a_key_and_its_name() -> None:
    assert PLAIN.name == (
        "fa2:arch=sm_90,direction=fwd,dtype=bf16,dtype_kv=bf16,dtype_out=bf16,head_dim=128,hdim_v=128,even=yes"
    )
    assert parse_key(PLAIN.name) == PLAIN
    for wrong in ("fa2:arch=sm_90", "fa2:colour=red"):
        with pytest.raises(UsageError):
            parse_key(wrong)


OTHER: dict[str, Any] = {
    "arch": "sm_90a",
    "direction": Direction.BWD,
    "dtype": DType.FP16,
    "dtype_kv": DType.FP16,
    "dtype_out": DType.FP16,
    "head_dim": 120,
    "hdim_v": 120,
    "page": Page.WHOLE,
}


def test_every_axis_is_in_the_name_and_the_digest() -> None:
    for field in fields(DispatchKey):
        other = replace(PLAIN, **{field.name: OTHER.get(field.name, not getattr(PLAIN, field.name))})
        assert other.name != PLAIN.name, field.name
        assert other.digest != PLAIN.digest, field.name


def test_names_and_digests_are_injective() -> None:
    rng = Random(9)
    keys = {
        key_of(random_problem(rng), rng.choice(ARCHS), DeviceFacts(id="cuda:0", archs=("sm_90",), units=132))
        for _ in range(600)
    }
    assert len({k.name for k in keys}) == len({k.digest for k in keys}) == len(keys) > 200
    assert all(parse_key(k.name) == k for k in keys)


def test_the_digest_is_the_same_in_another_process() -> None:
    """A different hash seed does not change it: the digest does not depend on Python's own hashing."""
    text = (
        "from fmha_cli.backends.flash_attn.key import key_of; from fmha_cli.domain.problem import Problem;"
        f"print(key_of(Problem.from_cli({PLAIN_LINE!r}), 'sm_90').digest)"
    )
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", text], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == PLAIN.digest
    assert PLAIN.digest == "15405480faae8ee7fe1af86a4fc2d9597f6a05dc6ed73b051606392d8349245c"


def test_run_time_numbers_are_not_in_a_key() -> None:
    def of(line: str) -> DispatchKey:
        return key_of(Problem.from_cli(line), "sm_90")

    assert of("-b 64 -s 2k --mask window:64,0") == of("-b 64 -s 1k --mask window:7,5")
    assert of("-b 64 -s 2k --softcap 30") == of("-b 64 -s 2k --softcap 7")
    assert of("-b 64 -s 2k --dropout 0.1") == of("-b 64 -s 2k --dropout 0.2 --seed 5")
    assert of("-b 64 -s 2k --kv-heads 4") == of("-b 64 -s 2k --kv-heads 1")
    assert of("-b 64 -s 2k --alibi") == of("-b 64 -s 2k --alibi-slopes filled:bh")
    assert of("-s 1 --seqlen-k 9k --splits 3") == of("-s 1 --seqlen-k 9k --splits 100")
    assert of("-s 1 --kv-cache paged:256") == of("-s 1 --kv-cache paged:512")
    assert of("-b 64 -s 2k --direction bwd --deterministic") == of("-b 64 -s 2k --direction bwd")
    assert of("-b 64 -s 2k --seqlen-k 1k") == of("-b 64 -s 2k --seqlen-k 4k")


def test_what_dispatch_sees_is_in_a_key() -> None:
    def differ(first: str, second: str) -> bool:
        return key_of(Problem.from_cli(first), "sm_90") != key_of(Problem.from_cli(second), "sm_90")

    assert differ("-b 64 -s 2k", "-b 64 -s 2k --causal")
    assert differ("-b 64 -s 2k", "-b 64 -s 2001")
    assert not differ("-b 64 -s 1 --seqlen-k 9", "-b 64 -s 1 --seqlen-k 9 --causal")
    assert differ("-s 1 --seqlen-k 9 --kv-cache paged:256", "-s 1 --seqlen-k 9 --kv-cache paged:16")
    h200, small = (DeviceFacts(id="cuda:0", archs=("sm_90",), units=units) for units in (132, 4))
    decode = Problem.from_cli("-s 1 --seqlen-k 9k")
    assert key_of(decode, "sm_90", h200).split
    assert not key_of(decode, "sm_90", small).split


def test_all_reasons_not_the_first() -> None:
    wrong = key(
        arch="gfx942", dtype=DType.FP8_E5M2, dtype_kv=DType.FP8_E4M3, dtype_out=DType.FP32, head_dim=300, hdim_v=64, softcap=True,
        dropout=True, sink=True, sink_logits=True, bias=True, qscale=True, corner=True, page=Page.OTHER, split=True,
    )  # fmt: skip
    assert set(ids(wrong)) >= {
        *("K420", "K421", "K422", "K423", "K424", "K425", "K426", "K427", "K428", "K429", "K430", "K436", "K479"),
    }
    assert ids(wrong).count("K420") == 2
    assert all(reason.text and reason.hint for reason in validate(wrong))
    known = {rule.id for rule in (*PROBLEM_RULES, *CORE_RULES)}
    assert set(ids(wrong)) <= known | {CONTRADICTION}


@pytest.mark.parametrize(
    "changes",
    [
        {"causal": True, "window": True},
        {"page": Page.WHOLE},
        {"append": True},
        {"direction": Direction.BWD, "cache": True},
        {"direction": Direction.BWD, "split": True},
    ],
)
def test_keys_that_contradict_themselves(changes: dict[str, Any]) -> None:
    assert CONTRADICTION in ids(key(**changes))


def test_an_even_key_of_uneven_features_contradicts_itself() -> None:
    for changes in ({"varlen": True}, {"window": True}, {"alibi": True}, {"head_dim": 120, "hdim_v": 120}):
        assert ids(replace(PLAIN, **changes)) == [CONTRADICTION], changes
    assert ids(replace(PLAIN, head_dim=256, hdim_v=256)) == [CONTRADICTION]


def every_key(arch: str) -> Iterator[DispatchKey]:
    """The keys of an architecture's table, including some contradictory ones."""
    sizes = (8, 32, 40, 64, 80, 96, 104, 128, 136, 192, 200, 256)
    for direction, dtype, hdim in product((Direction.FWD, Direction.BWD), (DType.FP16, DType.BF16), sizes):
        for mask, alibi, feature, way, even in product(range(3), (0, 1), range(3), range(5), (0, 1)):
            forward = direction is Direction.FWD
            if way and not forward:
                continue
            yield DispatchKey(
                arch=arch, direction=direction, dtype=dtype, dtype_kv=dtype, dtype_out=dtype, head_dim=hdim,
                hdim_v=hdim, causal=mask == 1, window=mask == 2, alibi=bool(alibi), softcap=feature == 1,
                dropout=feature == 2, even=bool(even), cache=way > 1, split=way in (1, 4), append=way in (3, 4),
                page=Page.WHOLE if way == 2 else Page.NONE,
            )  # fmt: skip


def check_table(arch: str) -> None:
    """Assert that ``lookup`` names only listed kernels, and every main kernel that upstream takes for some problem."""
    named = set()
    for made in every_key(arch):
        found = lookup(made)
        assert (found.kernel is None) == bool(found.reasons)
        named |= {found.kernel} if found.kernel else set()
    listed = {kernel for family in MAIN for kernel in family_kernels(load_arch(arch), family)}
    assert named <= listed
    # unsplit split-KV kernels for even lengths: a paged cache always has lengths
    for kernel in listed - named:
        assert kernel.family is Family.FWD_SPLITKV
        assert (kernel.signature.split, kernel.signature.append) == (Need.NO, Need.NO)
        assert algorithm_of(kernel).even_mn


def test_lookup_names_what_is_listed() -> None:
    """On an architecture with so little shared memory that it lacks kernels."""
    check_table("sm_86")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_lookup_names_what_is_listed_everywhere(arch: str) -> None:
    check_table(arch)


def test_lookup_and_strict_lookup_agree_on_problems() -> None:
    """The kernel of every valid key is listed, so none is named that cannot be built."""
    for made in Random(4).sample(list(every_key("sm_89")), 400):
        assert lookup(made) == strict_lookup(made), made.name


def test_a_strict_lookup_admits_what_is_listed_alone() -> None:
    found = lookup(PLAIN)
    assert found.kernel is not None
    assert strict_lookup(PLAIN, [found.kernel]).kernel == found.kernel
    missed = strict_lookup(PLAIN, [])
    assert missed.kernel is None
    assert [reason.id for reason in missed.reasons] == [NOT_LISTED]
    assert PLAIN.name in missed.reasons[0].text


@pytest.mark.slow
@pytest.mark.ci
def test_lookup_is_what_decides() -> None:
    rng, device = Random(21), DeviceFacts(id="cuda:0", archs=("sm_90",), units=132)
    served = 0
    for _ in range(150):
        problem = random_problem(rng)
        able = [d for d in decide(problem, device) if isinstance(d, Supported)]
        found = strict_lookup(key_of(problem, "sm_90", device))
        if able:
            assert found.kernel == min(able, key=lambda d: d.rank).kernel, problem.repro()
            served += 1
        elif found.kernel is None:  # otherwise sizes are against it, which keys do not contain
            told = {r.id for d in decide(problem, device) if not isinstance(d, Supported) for r in d.reasons}
            assert {r.id for r in found.reasons} <= told, problem.repro()
    assert served > 75


Told = Callable[[], str]


def problem_error(line: str) -> Told:
    def told() -> str:
        try:
            Problem.from_cli(line)
        except FmhaError as fault:
            return fault.code
        return ""

    return told


def rule_ids(line: str) -> Told:
    """A function that returns the rule ids of the nearest miss, joined."""

    def told() -> str:
        decisions = list(decide(Problem.from_cli(line), DeviceFacts.of_arch("sm_90")))
        refused = [d for d in decisions if not isinstance(d, Supported)]
        if len(refused) < len(decisions):
            return ""
        return " ".join(r.id for r in min(refused, key=lambda d: d.distance).reasons)

    return told


def key_ids(**changes: Any) -> Told:
    return lambda: " ".join(ids(key(**changes)))


FP8 = {"dtype": DType.FP8_E4M3, "dtype_kv": DType.FP8_E4M3, "dtype_out": DType.BF16}
CASES: list[tuple[str, Told, str]] = [
    # head_dim in {64, 80, 96, 128, 192, 256}; upstream: a multiple of 8 up to 256, so 8, 72 and 200 pass
    ("head_dim of a whitelist", key_ids(head_dim=100, hdim_v=100), "K422"),
    ("head_dim 8", key_ids(head_dim=8, hdim_v=8), ""),
    ("head_dim 72", key_ids(head_dim=72, hdim_v=72), ""),
    ("head_dim above the whitelist", key_ids(head_dim=264, hdim_v=264), "K423"),
    # fp8 needs sm_90a; upstream FlashAttention-2 has no fp8 anywhere
    ("fp8 on an architecture without it", key_ids(arch="sm_80", **FP8), "K420"),
    ("fp8 on an architecture with it", key_ids(arch="sm_90a", **FP8), "K420"),
    ("fp8 backward", key_ids(direction=Direction.BWD, **FP8), "K420"),
    ("fp8 K and V with 16-bit Q", key_ids(dtype_kv=DType.FP8_E4M3), "K420"),
    # sink > 0 needs a window or causal; upstream FlashAttention-2 does not have sinks
    ("sink without window or causal", key_ids(sink=True), "K427"),
    ("sink with causal", key_ids(sink=True, causal=True), "K427"),
    ("ratio of heads 0", problem_error("-H 8 --kv-heads 0"), "P005"),
    ("ratio of heads that is none", problem_error("-H 8 --kv-heads 3"), "P006"),
    # a window must be > 0; upstream: 0 keys to both sides is the diagonal, -1 is unlimited
    ("window of 0", rule_ids("-s 64 --mask window:0,0"), ""),
    ("window below 0", rule_ids("-s 64 --mask generic:0,5"), "K430"),
    ("pages on a path that is not paged", key_ids(page=Page.WHOLE), CONTRADICTION),
    # FlashAttention-3 on sm_80: upstream FlashAttention-2 serves it
    ("an old architecture", key_ids(arch="sm_80"), ""),
    ("an architecture that is too old", key_ids(arch="sm_75"), "K479"),
    ("batch 0", problem_error("-b 0"), "P005"),
    ("no query", problem_error("-s 0"), "P005"),
    ("no query in any packed sequence", rule_ids("--seqlens-q 0,0"), "K444"),
    ("no key", rule_ids("-s 4 --seqlen-k 0"), ""),  # upstream: the host fills O with 0
    (
        "more packed rows than 32-bit offsets",
        rule_ids("-H 1 --seqlens-q 1,1,1 --seqlens-k 1073741824,1073741824,1"),
        "K450 K451",
    ),
    ("an empty cache", rule_ids("-s 1 --kv-cache linear --cache-seqlens 0"), ""),  # upstream: lengths of 0 are fine
    # block_size in {8, 16, 32, 64, 128}; upstream FlashAttention-2: multiples of 256
    ("pages of 128", key_ids(cache=True, page=Page.of(128)), "K436"),
    ("pages of 512", key_ids(cache=True, page=Page.of(512)), ""),
    ("no pages", problem_error("--kv-cache paged:0"), "P005"),
    ("a V of another head dim than its cache", key_ids(cache=True, hdim_v=64), "K424"),
    # a chunk past the last: a packed problem gives each chunk's lengths explicitly
    ("keys of a chunk that is not there", problem_error("--seqlens-q 1,2 --seqlens-k 3"), "P007"),
]
"""The refusals of earlier dispatch libraries, and the ids that refuse the same here.

Where a comment names upstream, FlashAttention-2 decides otherwise, and it wins.
"""


@pytest.mark.parametrize(("case", "told", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_the_refusals_of_earlier_libraries(case: str, told: Told, wanted: str) -> None:
    assert told() == wanted


def test_no_id_is_foreign() -> None:
    known = {rule.id for rule in RULES}
    assert {word for _, _, wanted in CASES for word in wanted.split() if word.startswith("K")} <= known

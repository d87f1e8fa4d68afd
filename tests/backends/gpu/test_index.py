"""The candidate index runs each check once per value that it reads, and loses no reason and no kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from fmha_cli.backends.gpu.index import IndexedKernel, Question, core_question, decisions, families_for, index_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES, Reason, reasons_against
from fmha_cli.domain.signature import Signature

DEVICE = DeviceFacts(id="cuda:0", archs=("sm_90",))


@dataclass
class CountedProblem:
    """A problem on a device that counts its checks."""

    problem: Problem
    device: DeviceFacts = DEVICE
    checks: list[str] = field(default_factory=list)


def kernels() -> list[KernelSpec]:
    from fmha_cli.backends.flash_attn.catalogue import family_kernels

    return list(family_kernels(load_arch("sm_90"), Family.FWD))


def too_wide(asked: CountedProblem, kernel: KernelSpec) -> Reason | None:
    asked.checks.append(kernel.name)
    return Reason("K900", f"{kernel.signature.hdim}") if kernel.signature.hdim > asked.problem.hdim else None


def by_hdim(kernel: KernelSpec) -> int:
    return kernel.signature.hdim


def supported(candidate: IndexedKernel) -> Supported:
    return Supported(candidate.kernel, (candidate.position,))


def distance(problem: Problem, case: Signature) -> tuple[int, ...]:
    return (abs(case.hdim - problem.hdim), case.dtype.value > "c")


def nothing(device: DeviceFacts) -> Reason:
    return Reason("K901", "no kernels")


def test_a_check_is_asked_once_for_each_value_that_it_reads() -> None:
    listed = kernels()
    index = index_of(listed, [Question(too_wide, by_hdim)])
    asked = CountedProblem(Problem.from_cli("-d 64"))
    found = list(decisions(asked, "b", [(index, supported)], distance, nothing))
    assert len(asked.checks) == len({k.signature.hdim for k in listed})
    assert len(found) == len(listed)
    for decision in found:
        assert decision.kernel is not None
        assert isinstance(decision, Unsupported) == (decision.kernel.signature.hdim > 64)


def test_positions_are_those_of_the_listing_and_the_nearest_case_comes_first() -> None:
    listed = kernels()
    index = index_of(listed, [])
    asked = CountedProblem(Problem.from_cli("-d 128"))
    found = [d for d in decisions(asked, "b", [(index, supported)], distance, nothing) if isinstance(d, Supported)]
    assert {d.rank[0]: d.kernel for d in found} == dict(enumerate(listed))
    assert [d.kernel.signature.hdim for d in found[:2]] == [128, 128]
    assert found[-1].kernel.signature.hdim == max((32, 256), key=lambda d: abs(d - 128))


def test_without_kernels_there_is_one_decision() -> None:
    index = index_of([], [Question(too_wide, by_hdim)])
    (only,) = decisions(CountedProblem(Problem.from_cli("-d 64")), "b", [(index, supported)], distance, nothing)
    assert isinstance(only, Unsupported)
    assert (only.backend, only.arch, only.kernel, only.reasons[0].id) == ("b", "sm_90", None, "K901")
    (only,) = decisions(
        CountedProblem(Problem.from_cli("-d 64"), replace(DEVICE, archs=())), "b", [], distance, nothing
    )
    assert only.arch == ""


def test_core_questions_answer_as_the_rules_do() -> None:
    rng, listed = Random(3), kernels()
    lines = ("-d 64", "-d 96 --dtype bf16 --causal", "-d 64 --dtype fp16:fp32 --softcap 3", "-d 64 --dropout 0.2 --lse")
    index = index_of(listed, [core_question(rule) for rule in CORE_RULES])
    for line in lines:
        asked = CountedProblem(Problem.from_cli(line))
        found = {d.kernel: d for d in decisions(asked, "b", [(index, supported)], distance, nothing)}
        for kernel in rng.sample(listed, 40):
            decision = found[kernel]
            reasons = tuple(reasons_against(CORE_RULES, asked.problem, kernel, DEVICE))
            assert (decision.reasons if isinstance(decision, Unsupported) else ()) == reasons


@pytest.mark.parametrize(("direction", "count"), [(Direction.FWD, 2), (Direction.BWD, 1)])
def test_families_of_a_direction(direction: Direction, count: int) -> None:
    problem = replace(Problem.from_cli("-d 64"), direction=direction)
    assert len(families_for(problem, (Family.FWD, Family.FWD_SPLITKV), (Family.BWD_DQ_DK_DV,))) == count

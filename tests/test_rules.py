from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import given
from strategies import problems

from fmha_cli.device import DeviceFacts
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import CORE_RULES, SIGNATURE_RULE_IDS, Rule, duplicate_ids, reasons_against
from fmha_cli.signature import Need, Signature


@dataclass(frozen=True, kw_only=True)
class Plain(Algorithm):
    pass


def kernel_for(problem: Problem, **changes: object) -> KernelSpec:
    signature = replace(Signature.of(problem), **changes)  # type: ignore[arg-type]
    return KernelSpec(backend="x", family=Family.FWD, arch="a", signature=signature, algorithm=Plain())


HERE = DeviceFacts(id="cpu", archs=("a",))


@given(problems())
def test_a_kernel_made_for_the_problem_is_not_refused(problem: Problem) -> None:
    assert reasons_against(CORE_RULES, problem, kernel_for(problem), HERE) == []


def test_every_field_of_the_signature_has_a_rule() -> None:
    assert {*SIGNATURE_RULE_IDS, "hdim", "hdim_v"} == {f.name for f in fields(Signature)}


@pytest.mark.parametrize("field", [f.name for f in fields(Signature) if f.type == "Need"])
def test_every_field_is_guarded(field: str) -> None:
    problem = Problem.of()
    reasons = reasons_against(CORE_RULES, problem, kernel_for(problem, **{field: Need.YES}), HERE)
    assert [r.id for r in reasons] == [SIGNATURE_RULE_IDS[field]]
    assert reasons[0].hint


def test_all_reasons_are_collected() -> None:
    problem = Problem.from_cli("-d 300 --direction bwd --softcap 3 --causal")
    kernel = kernel_for(Problem.of())
    reasons = reasons_against(CORE_RULES, problem, kernel, DeviceFacts(id="cpu", archs=("b",)))
    assert {r.id for r in reasons} == {"K004", "K008", "K012", "K021", "K025"}
    assert "hdim 300 is not supported by x on a" in next(r.text for r in reasons if r.id == "K012")


def test_rule_ids_are_unique_and_every_rule_has_a_page() -> None:
    assert len({r.id for r in CORE_RULES}) == len(CORE_RULES)
    assert all(r.text and r.help and r.source for r in CORE_RULES)
    other = Rule("K001", "another", lambda p, k, d: None)
    assert duplicate_ids([CORE_RULES, CORE_RULES]) == []
    assert duplicate_ids([CORE_RULES, (other,)]) == ["K001"]

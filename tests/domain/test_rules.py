from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fmha_cli
from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.nearest import applied, changes_in
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain import rules, signature
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.mask import BOUNDED, Align, Mask, MaskKind
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import (
    CORE_RULES,
    LEFTPAD_CORE_RULES,
    SIGNATURE_RULE_IDS,
    Reason,
    Refusal,
    Rule,
    Severity,
    duplicate_ids,
    reasons_against,
)
from fmha_cli.domain.signature import MaskKey, Need, Signature
from tests.support.generators.strategies import problems


@dataclass(frozen=True, kw_only=True)
class Plain(Algorithm):
    pass


def kernel_for(problem: Problem, **changes: object) -> KernelSpec:
    signature = replace(Signature.of(problem), **changes)  # type: ignore[arg-type]
    return KernelSpec(backend="x", family=Family.FWD, arch="a", signature=signature, algorithm=Plain())


HERE = DeviceFacts(id="cpu", archs=("a",))


@given(problems())
@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_made_for_the_problem_is_not_refused(problem: Problem) -> None:
    """Rules about values that no signature holds refuse it, until their hints are followed."""
    for rule in CORE_RULES:
        reason, left = rule.against(problem, kernel_for(problem), HERE), problem
        while reason is not None:
            assert not rule.reads
            (change,) = changes_in(reason.hint)
            other = applied(left, change)
            assert other is not None
            reason, left = rule.against(other, kernel_for(other), HERE), other


def alike(kernel: KernelSpec, other: KernelSpec, reads: tuple[str, ...]) -> KernelSpec:
    """Another kernel, but with what a rule reads of the first."""
    of_signature = [name for path in reads if (name := path.removeprefix("signature.")) != path]
    signature = replace(other.signature, **{name: getattr(kernel.signature, name) for name in of_signature})
    return replace(other, signature=signature, **{name: getattr(kernel, name) for name in reads if "." not in name})


def read_as_declared(rule: Rule, problem: Problem, kernel: KernelSpec, other: KernelSpec) -> bool:
    found = rule.against(problem, kernel, HERE)
    return rule.against(problem, alike(kernel, other, rule.reads), HERE) == found


@given(problems(), problems(), problems(), st.sampled_from(Family), st.sampled_from("ab"))
def test_a_rule_reads_of_a_kernel_what_it_says(
    problem: Problem, one: Problem, another: Problem, family: Family, arch: str
) -> None:
    other = replace(kernel_for(another), family=family, arch=arch)
    assert [rule.id for rule in CORE_RULES if not read_as_declared(rule, problem, kernel_for(one), other)] == []


def test_a_rule_that_reads_more_than_it_says_is_noticed() -> None:
    small, large = kernel_for(Problem.of()), kernel_for(Problem.of(hdim=256))
    (rule,) = (rule for rule in CORE_RULES if rule.id == "K012")
    assert read_as_declared(rule, Problem.of(), large, small)
    assert not read_as_declared(
        replace(rule, reads=("signature.hdim_v",)), Problem.of(hdim=256, hdim_v=64), large, small
    )


@given(problems(), problems())
def test_the_hint_of_a_core_rule_leads_to_a_problem(problem: Problem, other: Problem) -> None:
    """Whatever excludes the value that a hint names goes with it."""
    reasons = reasons_against(CORE_RULES, problem, kernel_for(other), HERE)
    changes = [change for reason in reasons for change in changes_in(reason.hint)]
    assert all(applied(problem, change) is not None for change in changes), (reasons, problem.repro())


PLANTED = """
from fmha_cli.domain import rules
rules.CORE_RULES += (rules.Rule("K099", "planted", lambda *of: rules.Refusal("planted"), "help", "source"),)

from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem

for name in BUILTINS:
    backend, asked = build_registry().backend(name), 0
    for arch in backend.archs():
        for decision in backend.decide(Problem.of(), DeviceFacts.of_arch(arch)):
            if decision.kernel is not None:
                assert "K099" in {reason.id for reason in getattr(decision, "reasons", ())}, decision
                asked += 1
    assert asked and "K099" in {rule.id for rule in backend.rules()}, name
"""


def test_a_further_core_rule_refuses_in_every_backend() -> None:
    subprocess.run([sys.executable, "-c", PLANTED], check=True, timeout=300)


class Prefixed(Mask):
    """A causal mask that is of a kind besides, which two bounds do not express."""

    @property
    def kind(self) -> MaskKind:
        return MaskKind("planted")


@pytest.fixture
def planted_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for enum in (MaskKind, MaskKey):
        member = str.__new__(enum, "planted")
        member._name_, member._value_ = "PLANTED", "planted"
        monkeypatch.setitem(enum._value2member_map_, "planted", member)


def test_a_mask_of_a_further_kind_is_for_kernels_that_name_it(planted_kind: None) -> None:
    problem = replace(Problem.of(), mask=Prefixed(right=0))
    named, any_mask = kernel_for(problem), kernel_for(problem, mask=MaskKey.ANY)
    assert reasons_against(CORE_RULES, problem, named, HERE) == []
    for kernel, of in ((any_mask, problem), (named, Problem.of(causal=True))):
        (reason,) = reasons_against(CORE_RULES, of, kernel, HERE)
        assert (reason.id, reason.hint) == ("K004", None)


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("align", Align)
def test_a_mask_that_bounds_do_not_express_is_refused(
    name: str, direction: str, align: Align, planted_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, plain = (
        build_registry().backend(name),
        Problem.from_cli(f"-s 128 -d 128 --dtype bf16 --direction {direction}"),
    )
    problem = replace(plain, mask=Prefixed(align, right=0))
    devices = [DeviceFacts.of_arch(arch) for arch in backend.archs()]
    decisions = [d for device in devices for d in backend.decide(problem, device) if d.kernel is not None]
    assert decisions or (name, direction) == ("cudnn_oss", "bwd")
    assert all(isinstance(d, Unsupported) and "K004" in {r.id for r in d.reasons} for d in decisions)
    for module in (rules, signature):  # as one of two bounds, it would be served
        monkeypatch.setattr(module, "BOUNDED", {*BOUNDED, "planted"})
    again = [d for device in devices for d in backend.decide(replace(problem), device)]
    assert any(isinstance(d, Supported) for d in again) or direction == "bwd"


def test_every_field_of_the_signature_has_a_rule() -> None:
    assert {*SIGNATURE_RULE_IDS, "hdim", "hdim_v"} == {f.name for f in fields(Signature)}


@pytest.mark.parametrize("field", [f.name for f in fields(Signature) if f.default is Need.NO])
def test_every_field_is_guarded(field: str) -> None:
    problem = Problem.of()
    reasons = reasons_against(CORE_RULES, problem, kernel_for(problem, **{field: Need.YES}), HERE)
    assert [r.id for r in reasons] == [SIGNATURE_RULE_IDS[field]]
    assert changes_in(reasons[0].hint) or field not in ("lse", "deterministic", "split")  # ask for what it does anyway


@given(problems(), problems())
def test_rules_on_equal_fields_are_left_out_without_loss(problem: Problem, other: Problem) -> None:
    kernel = kernel_for(other)
    one_by_one = [found for rule in CORE_RULES if (found := rule.against(problem, kernel, HERE)) is not None]
    assert reasons_against(CORE_RULES, problem, kernel, HERE) == one_by_one


def test_a_rule_on_a_field_is_asked_only_where_the_field_differs() -> None:
    problem, asked = Problem.of(), Rule("K998", "", lambda *_: Refusal("it was asked"), field="lse")
    assert reasons_against([asked], problem, kernel_for(problem), HERE) == []
    (reason,) = reasons_against([asked], problem, kernel_for(problem, lse=Need.ANY), HERE)
    assert reason.text == "it was asked"


def test_all_reasons_are_collected() -> None:
    problem = Problem.from_cli("-d 300 --direction bwd --softcap 3 --causal")
    kernel = kernel_for(Problem.of())
    reasons = reasons_against(CORE_RULES, problem, kernel, DeviceFacts(id="cpu", archs=("b",)))
    assert {r.id for r in reasons} == {"K004", "K008", "K012", "K021", "K025"}
    assert "hdim 300 is not supported by x on a" in next(r.text for r in reasons if r.id == "K012")


def test_left_padding_is_refused_unless_a_backend_says_otherwise() -> None:
    problem = Problem.from_cli("-b 2 -s 1 -d 64 --kv-cache linear --cache-seqlens 40 --cache-leftpad 3,0")
    (reason,) = reasons_against(CORE_RULES, problem, kernel_for(problem), HERE)
    assert (reason.id, reason.hint) == ("K026", "--cache-leftpad 0")
    assert "cache-leftpad 3" in reason.text
    assert {*CORE_RULES} - {*LEFTPAD_CORE_RULES} == {next(r for r in CORE_RULES if r.id == "K026")}


@pytest.mark.parametrize(
    ("name", "arch"), [("null", "null"), ("ck_tile", "gfx942"), ("cpu", "x86_64_v3"), ("flash_attn", "sm_90")]
)
def test_who_can_start_behind_padding(name: str, arch: str) -> None:
    common = "-b 2 -s 1 -d 64 --dtype fp16 --kv-cache linear --cache-seqlens 40 --splits 1"
    backend, device = build_registry().backend(name), DeviceFacts(id=name, archs=(arch,))
    plain, padded = Problem.from_cli(common), Problem.from_cli(f"{common} --cache-leftpad 3,0")
    before = {d.kernel.name for d in backend.decide(plain, device) if isinstance(d, Supported)}
    after = list(backend.decide(padded, device))
    if name in ("cpu", "flash_attn"):
        assert {d.kernel.name for d in after if isinstance(d, Supported)} == before
        return
    assert not any(isinstance(d, Supported) for d in after)
    only = {
        d.kernel.name
        for d in after
        if isinstance(d, Unsupported) and d.kernel and [r.id for r in d.reasons] == ["K026"]
    }
    assert before <= only if name == "ck_tile" else before == only


def test_v_in_k_is_refused_unless_a_backend_says_otherwise() -> None:
    problem = Problem.from_cli("-H 8 --kv-heads 1 -s 1 -d 64 --mla-rope 16")
    (reason,) = reasons_against(CORE_RULES, problem, kernel_for(problem), HERE)
    assert (reason.id, reason.hint) == ("K029", "--hdim-v 48 instead of --mla-rope")
    (change,) = changes_in(reason.hint)
    assert applied(problem, change) == Problem.from_cli("-H 8 --kv-heads 1 -s 1 -d 64 --hdim-v 48")


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        *(("null", "null"), ("cpu", "x86_64_v3"), ("ck_tile", "gfx942"), ("flash_attn", "sm_90")),
        *(("mem_efficient", "sm_80"), ("cudnn_oss", "sm_90a")),
    ],
)
@pytest.mark.parametrize("direction", ["fwd", "bwd", "fwd+bwd"])
def test_who_reads_v_from_k(name: str, arch: str, direction: str) -> None:
    problem = Problem.from_cli(f"-H 4 -s 128 -d 64 --dtype fp16 --mla-rope 16 --direction {direction}")
    answers = list(build_registry().backend(name).decide(problem, DeviceFacts(id=name, archs=(arch,))))
    if name == "cpu":
        assert any(isinstance(d, Supported) for d in answers)
        return
    refused = [d for d in answers if isinstance(d, Unsupported) and d.kernel]
    assert len(refused) == len(answers) > 0 or name in ("null", "cudnn_oss")
    assert not any(isinstance(d, Supported) for d in answers)
    forward_only = direction != "fwd" and name == "cudnn_oss"
    assert forward_only or all("K029" in {r.id for r in d.reasons} for d in refused)


def id_ranges() -> dict[str, range]:
    """The range of ids of each backend, from the docstring of ``domain/rules.py``."""
    found = re.findall(r"K(\d{3})-K(\d{3}) (\w+)", rules.__doc__ or "")
    return {name: range(int(first), int(last) + 1) for first, last, name in found}


@pytest.mark.parametrize("name", BUILTINS)
def test_a_built_in_backend_keeps_to_its_range_of_ids(name: str) -> None:
    ranges, core = id_ranges(), {rule.id for rule in CORE_RULES}
    own = {int(rule.id[1:]) for rule in build_registry().backend(name).rules() if rule.id not in core}
    assert own <= {*ranges[name]}


def test_no_two_ranges_of_ids_meet() -> None:
    numbers = [number for numbers in id_ranges().values() for number in numbers]
    assert len(numbers) == len(set(numbers)) >= 400


def test_rule_ids_are_unique_and_every_rule_has_a_page() -> None:
    assert len({r.id for r in CORE_RULES}) == len(CORE_RULES)
    assert all(r.text and r.help and r.source for r in CORE_RULES)
    other = Rule("K001", "another", lambda p, k, d: None)
    assert duplicate_ids([CORE_RULES, CORE_RULES]) == []
    assert duplicate_ids([CORE_RULES, (other,)]) == ["K001"]


def test_the_severity_is_the_rule_s_unless_the_values_decide() -> None:
    problem, kernel = Problem.of(), kernel_for(Problem.of())
    plain = Rule("X1", "t", lambda p, k, d: Refusal("a", "b"), severity=Severity.SHAPE)
    own = Rule("X2", "t", lambda p, k, d: Refusal("a", severity=Severity.OPTION), severity=Severity.SHAPE)
    assert plain.against(problem, kernel, HERE) == Reason("X1", "a", "b", Severity.SHAPE)
    assert own.against(problem, kernel, HERE) == Reason("X2", "a", None, Severity.OPTION)


def written_ids() -> Counter[str]:
    """The number of times that each rule id occurs as a complete string in the code."""
    files = Path(fmha_cli.__file__).parent.rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return Counter(text for text in texts if re.fullmatch(r"K\d{3}", text))


@pytest.mark.slow
@pytest.mark.ci
def test_each_rule_id_is_written_once() -> None:
    """A check does not contain its rule's id, and a table that refers to another rule uses its name. Plugins have their own files."""
    written = written_ids()
    ids = [id for id in build_registry().rules() if id < "K900"]
    assert {id: written[id] for id in ids if written[id] != 1} == {}

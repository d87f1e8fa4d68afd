"""``conformance.library``: rules that refuse too little or too much are noticed, with a library that ignores masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin
from tests.support.fakes import emulator as fake_emulator
from tests.support.fakes import framework_plugin

FP32 = "-H 2 -s 5 -d 8 --dtype fp32"
MASKED = f"{FP32} --causal"
PROBLEMS = [api.Problem.from_cli(line) for line in (FP32, f"{FP32} --hdim-v 16", MASKED, "-H 2 -s 5 -d 8")]


class Library(framework_plugin.Backend):
    """The backend of ``tests.support.fakes.framework_plugin``, whose session ignores masks, as one kernel for all of them."""

    def __init__(self, *rules: plugin.Rule) -> None:
        self.more = rules

    def kernels(self, arch: plugin.ArchSpec) -> Iterator[api.KernelSpec]:
        for kernel in super().kernels(arch):
            yield replace(kernel, signature=replace(kernel.signature, mask=plugin.MaskKey.ANY))

    def rules(self) -> tuple[plugin.Rule, ...]:
        return (*super().rules(), *self.more)


def refusing(id: str, flag: str) -> plugin.Rule:
    """A rule against problems with a flag."""
    return plugin.Rule(id, "", lambda p, kernel, device: plugin.Refusal(flag) if flag in p.repro() else None)


MASKS = refusing("K990", "--causal")
DIMS = refusing("K991", "--hdim-v")


def subject(path: Path, *rules: plugin.Rule) -> conformance.Subject:
    streams = framework_plugin.fmha_register_dropout_streams()
    return conformance.Subject(
        Library(*rules), entry=framework_plugin.__name__, cache_root=path, dropout_streams=streams
    )


def kernel() -> api.KernelSpec:
    return next(Library().kernels(plugin.load_arch("generic")))


@pytest.mark.slow
@pytest.mark.ci
def test_rules_that_say_what_the_library_does_agree(tmp_path: Path) -> None:
    found = conformance.check_agreement(subject(tmp_path / "cache", MASKS), PROBLEMS, {})
    assert found == conformance.Agreement(2, frozenset({kernel().name}))


@pytest.mark.promise("The conformance tests find rules that refuse too little or too much, and foreign imports.")
def test_a_rule_that_is_missing_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"WRONG .*--causal"):
        conformance.check_agreement(subject(tmp_path / "cache"), PROBLEMS, {})


@pytest.mark.promise("The conformance tests find rules that refuse too little or too much, and foreign imports.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_rule_that_refuses_too_much_is_noticed_unless_the_reason_is_given(tmp_path: Path) -> None:
    strict = subject(tmp_path / "cache", MASKS, DIMS)
    with pytest.raises(AssertionError, match=r"computed rightly:\n\[.K991.\] .*--hdim-v 16"):
        conformance.check_agreement(strict, PROBLEMS, {"K990": "another rule"})
    assert conformance.check_agreement(strict, PROBLEMS, {"K991": "two head dims are not measured"}).accepted == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_refusal_is_of_one_rule_and_borne_out(tmp_path: Path) -> None:
    strict, masked = subject(tmp_path / "cache", MASKS, DIMS), api.Problem.from_cli(MASKED)
    conformance.check_refusal(strict, "K990", masked, kernel())
    with pytest.raises(AssertionError, match=r"K991 refuses .* computes rightly"):
        conformance.check_refusal(strict, "K991", PROBLEMS[1], kernel())
    both = api.Problem.from_cli(f"{MASKED} --hdim-v 16")
    with pytest.raises(AssertionError, match="K990 alone should refuse"):
        conformance.check_refusal(strict, "K990", both, kernel())


def test_own_rules_are_those_besides_the_core_ones() -> None:
    assert conformance.own_rules(Library()) == frozenset()
    assert conformance.own_rules(Library(MASKS, DIMS)) == {"K990", "K991"}


@pytest.mark.slow
@pytest.mark.ci
def test_what_is_judged_is_every_kernel_or_the_chosen_one_once_or_repeatedly(tmp_path: Path) -> None:
    """A row that is repeated has all fills; a problem that none claims has a record too."""
    strict, fills = subject(tmp_path / "cache", MASKS), conformance.FILLS[:2]
    records = conformance.judged(strict, PROBLEMS, fills=fills)
    assert [len(record.fills) for record in records] == [2, 2, 0, 0]
    once = conformance.judged(strict, PROBLEMS[:1], fills=fills[:1], all_kernels=False, repeats=False, threads=1)
    assert [record.verdict for record in once] == [api.Verdict.PASSED]
    assert conformance.told(records).splitlines()[2].startswith("UNSUPPORTED fmha validate ")


def test_rows_run_on_a_device_of_an_emulator_that_is_beside_the_backend(tmp_path: Path) -> None:
    """Without the emulator's plugin there is no such device, and a backend that does not use its runtime finds none there."""
    alone = subject(tmp_path / "cache")
    assert not alone.registry.emulators
    with pytest.raises(api.EnvironmentProblem, match="no emulator is installed"):
        conformance.judged(alone, PROBLEMS[:1], device=fake_emulator.ID)
    beside = replace(alone, beside=(fake_emulator.__name__,))
    assert beside.registry.faults == ()
    with pytest.raises(api.EnvironmentProblem, match="no such device for framework"):
        conformance.judged(beside, PROBLEMS[:1], device=fake_emulator.ID)

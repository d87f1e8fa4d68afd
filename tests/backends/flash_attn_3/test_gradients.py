"""Our backward passes equal those of upstream's host code: kernel, window, scratch tensors, and every launch of a pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3 import arguments, backward_arguments, backward_plan, backward_sizes, situation
from fmha_cli.backends.flash_attn_3.backward_arguments import backward_instance
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.backends.flash_attn_3.test_blocks import spoilt
from tests.support.referees.flash_attn_3.blocks import UNREAD
from tests.support.referees.flash_attn_3.choice import ask
from tests.support.referees.flash_attn_3.gradients import (
    check_gradients,
    gradient_answers,
    gradient_call_line,
    gradient_calls,
    gradient_faults,
)
from tests.support.referees.flash_attn_3.program import block_programs, choice_program

pytestmark = [pytest.mark.slow, pytest.mark.ci]
"""Upstream's host code takes half a minute to compile, and each instance as long again."""

COUNT = 200
SAMPLE = (
    "128, 64, 128, cutlass::bfloat16_t, true, false, false, false, false, true, 2, 2, true, false, false, 2, 1, 2, 1, false",
    "96, 64, 128, cutlass::half_t, false, true, true, true, true, false, 2, 2, true, false, false, 2, 1, 2, 1, true",
    "192, 64, 96, cutlass::bfloat16_t, true, false, false, false, true, true, 1, 1, false, true, false, 3, 1, 1, 1, false",
    "256, 64, 80, cutlass::half_t, false, false, false, false, false, false, 1, 1, false, true, true, 2, 1, 1, 1, false",
)
"""Both schedulers and epilogues, packed sequences, softcap, a fixed order, and the traits of four head dims."""


def kernels() -> list[KernelSpec]:
    every = {backward_instance(k).template_id: k for k in family_kernels("sm_90a", Family.BWD_DQ_DK_DV)}
    return [every[f"run_flash_bwd<90, {words}>"] for words in SAMPLE]


@pytest.fixture(scope="module")
def program(shared_cache: Path) -> Path:
    return choice_program(shared_cache)


@pytest.fixture(scope="module")
def programs(shared_cache: Path) -> dict[str, Path]:
    return block_programs(shared_cache, tuple(map(backward_instance, kernels())))


def test_a_sample_is_chosen_alike(program: Path) -> None:
    equal, kernels, refused = check_gradients(gradient_answers(program, 1, 2000))
    assert equal > 1600
    assert kernels > 350
    assert refused > 200


PLANTED = (
    (situation, "HDIMS", (64, 128, 128, 192, 256)),
    (backward_sizes, "KEY_SUMS", ("dk_accum",)),
    (backward_sizes, "SEMAPHORES", ()),
    (backward_sizes, "next_multiple", lambda value, step: value),
    (backward_sizes, "cleared_by", lambda i: ()),
)


@pytest.mark.parametrize(("module", "name", "value"), PLANTED)
def test_a_planted_fault_is_seen(
    program: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: Any
) -> None:
    found = gradient_answers(program, 5, 300)
    situation.situation_of.cache_clear()
    monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("tests.support.referees.flash_attn_3.gradients.cleared_by", backward_sizes.cleared_by)
    try:
        with pytest.raises((AssertionError, KeyError, ValueError)):
            check_gradients(found)
    finally:
        situation.situation_of.cache_clear()


def compared(programs: dict[str, Path], kernel: KernelSpec, count: int, seen: Counter[str] | None = None) -> list[str]:
    """The faults of all launches of a pass over random problems of a main kernel. ``seen`` counts those of each kernel."""
    calls, out = list(gradient_calls(Random(1), kernel, count)), []
    program = programs[backward_instance(kernel).template_id]
    answers = ask(program, [gradient_call_line(call, units) for call, units in calls])
    for (call, _), answer in zip(calls, answers, strict=True):
        assert "launches" in answer, f"upstream takes another kernel: {call.problem.repro()}"
        out += [f"{call.problem.repro()}: {fault}" for fault in gradient_faults(call, answer)]
        if seen is not None:
            seen.update(stage.kernel.name for stage in call.plan.stages)
    return out


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: backward_instance(kernel).template_id)
def test_launches_are_upstreams(programs: dict[str, Path], kernel: KernelSpec) -> None:
    found = compared(programs, kernel, COUNT)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("kernel", kernels()[:3], ids=lambda kernel: backward_instance(kernel).template_id)
def test_a_fault_in_every_field_is_seen(
    programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kernel: KernelSpec
) -> None:
    whole = arguments.params_of
    (call, _), *_ = gradient_calls(Random(1), kernel, 1)
    for stage in call.plan.stages:
        block: Any = type(whole(stage, call))
        for name, _ in c_fields(block):
            if name in UNREAD or (name.startswith("epilogue__tma") and not backward_instance(kernel).stores_by_tma):
                continue
            with monkeypatch.context() as patch:

                def spoil(held: Any, call: Any, name: str = name, kernel: Any = stage.kernel) -> Any:
                    params = whole(held, call)
                    return spoilt(params, name) if held.kernel == kernel else params

                patch.setattr("tests.support.referees.flash_attn_3.gradients.params_of", spoil)
                assert any(f"{stage.family.value} {name}" in f for f in compared(programs, kernel, 2)), name


def test_sums_that_are_not_cleared_are_seen(programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward_plan, "cleared_by", lambda i: ())
    assert any("zeroed here" in fault for fault in compared(programs, kernels()[0], 1))


def test_the_gradient_of_a_stage_is_its_own(programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """dK and dV are converted by one kernel; a stage for the other one is noticed."""
    whole = backward_arguments.backward_params
    swapped = {"dk": "dv", "dv": "dk"}

    def exchange(stage: Any, i: Any, call: Any) -> Any:
        detail = tuple((name, swapped.get(text, text)) for name, text in stage.detail)
        return whole(type(stage)(stage.kernel, detail), i, call)

    monkeypatch.setattr(arguments, "backward_params", exchange)
    assert compared(programs, kernels()[0], 3)

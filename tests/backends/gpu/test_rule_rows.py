"""Conditions whose texts are data: what a check may find, and when one function finds for several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, rule_rows, together
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Severity

KERNEL, OTHER = family_kernels(load_arch("sm_80"), Family.FWD)[:2]


def said(id: str, found: Found, backend: str = "flash_attn") -> Reason | None:
    (condition,) = conditions(backend, {id: lambda s, kernel: found})
    return condition.against(None, KERNEL)


def test_values_become_the_texts_of_the_row() -> None:
    row = rule_rows("flash_attn")["K422"]
    assert (row["says"], row["hint"]) == ("hdim {hdim} is not a multiple of {step}", "--hdim {next}")
    found = refuse_if(20 % 8, hdim=20, step=8, next=24)
    assert said("K422", found) == Reason("K422", "hdim 20 is not a multiple of 8", "--hdim 24", Severity.SHAPE)
    assert said("K422", refuse_if(24 % 8, hdim=24, step=8, next=24)) is None


def test_a_row_without_a_hint_and_a_help_that_helps_nobody() -> None:
    missing = said("K306", {}, "ck_tile")
    assert missing is not None
    assert missing.hint is None
    nobody = said("K423", {"hdim": 300, "most": 256, "help": None})
    assert nobody == Reason("K423", "hdim 300: FlashAttention-2 holds at most 256", None, Severity.SHAPE)


def test_a_refusal_of_the_check_stays_as_it_is() -> None:
    own = Refusal("another text", "another hint", severity=Severity.OPTION)
    assert said("K422", own) == Reason("K422", "another text", "another hint", Severity.OPTION)


def test_a_value_that_a_text_needs_is_missed() -> None:
    with pytest.raises(KeyError, match="step"):
        said("K422", {"hdim": 20, "next": 24})


def test_one_function_finds_once_for_conditions_that_are_asked_about_one_kernel() -> None:
    asked: list[tuple[Any, KernelSpec]] = []

    def find(situation: list[int], kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
        asked.append((situation, kernel))
        yield "K422", refuse_if(situation[0] % 8, hdim=situation[0], step=8, next=0)
        yield "K427", refuse_if(situation[0] > 30, sink=situation[0])

    checks = together(["K427", "K422"], find)
    assert list(checks) == ["K427", "K422"]
    first, equal = [20], [20]
    answers = [checks[id](first, KERNEL) for id in ("K422", "K427", "K422")]
    assert answers == [{"hdim": 20, "step": 8, "next": 0}, None, {"hdim": 20, "step": 8, "next": 0}]
    assert len(asked) == 1
    checks["K422"](equal, KERNEL)
    checks["K427"](equal, OTHER)
    assert [situation is equal for situation, _ in asked] == [False, True, True]
    assert asked[-1][1] is OTHER

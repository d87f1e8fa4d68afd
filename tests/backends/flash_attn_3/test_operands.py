"""Where V is the first columns of K, upstream's operands are views of Q and K: nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3 import operands, situation
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.operands import Operand, operand
from fmha_cli.backends.flash_attn_3.plan import plan_of
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.flash_attn_3.instance import forward_instance
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from tests.support.referees.flash_attn_3.blocks import ARENA, bound

H100 = replace(DeviceFacts.of_arch("sm_90a"), id="cuda:0", units=132)
LATENT = "-b 2 -H 4 --kv-heads 1 -s 5 --dtype bf16 -d 424 --mla-rope 40"
CACHE = "--kv-cache linear --cache-seqlens 300,77 --append 5"


def call_of(line: str) -> Call[Any]:
    problem = Problem.from_cli(line)
    main = min((d for d in decide(problem, H100) if isinstance(d, Supported)), key=lambda d: d.rank).kernel
    return bound(problem, main, H100, gaps=True)


def columns(call: Call[Any], name: str, held: str) -> int:
    """The first column of an operand in the tensor that holds it."""
    found = operand(call, name)
    assert found.strides == (call.keys(held) if held in "kv" else call.rows(held))
    return (found.address - ARENA - call.tensor(held).offset) // 2


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_the_operands_are_columns_of_q_and_k(layout: str) -> None:
    call = call_of(f"{LATENT} {CACHE} --layout {layout}")
    assert {"v", "v_new"}.isdisjoint(call.tensors)
    assert [columns(call, name, "q") for name in ("qv", "q")] == [0, 384]
    assert [columns(call, name, "k") for name in ("v", "k")] == [0, 384]
    assert [columns(call, name, "k_new") for name in ("v_new", "k_new")] == [0, 384]


def test_pages_are_views_too() -> None:
    call = call_of(f"{LATENT} --kv-cache paged:64 --cache-seqlens 300,77")
    assert [columns(call, name, "k") for name in ("v", "k")] == [0, 384]


def test_without_v_inside_k_they_are_tensors_of_their_own() -> None:
    call = call_of("-b 2 -H 4 --kv-heads 1 -s 5 --dtype bf16 -d 64 --hdim-v 512")
    assert operand(call, "qv") == Operand(0, Strides(0, 0, 0))
    for name in ("q", "k", "v"):
        assert operand(call, name) == Operand(call.address(name), call.rows(name))


def test_the_kernel_is_that_for_the_columns_behind_v_and_for_those_of_v() -> None:
    call = call_of(LATENT)
    i = forward_instance(call.plan.main)
    assert (i.hdim, i.hdim_v, i.a.qv) == (64, 512, True)
    assert (call.situation.hdim, call.situation.qv) == (40, True)


def test_a_backward_pass_has_no_second_product() -> None:
    s = situation_of(Problem.from_cli("-s 9 -d 128 --mla-rope 64 --dtype bf16 --direction bwd"), H100)
    assert (s.hdim, s.qv) == (128, False)


def test_the_scale_is_that_of_all_columns_of_q() -> None:
    """Upstream's own default would be that of the columns of ``q`` alone."""
    problem = Problem.from_cli(LATENT)
    assert problem.scale == pytest.approx(424**-0.5)
    assert plan_of(problem, call_of(LATENT).plan.main, H100).problem.scale == problem.scale


@pytest.mark.parametrize(("name", "other"), [("_BEHIND", ()), ("_BEHIND", ("q", "k")), ("_HELD", {"q": "q"})])
def test_a_wrong_column_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, other: Any) -> None:
    monkeypatch.setattr(operands, name, other)
    with pytest.raises((AssertionError, KeyError)):
        test_the_operands_are_columns_of_q_and_k("bhsd")
    assert situation.head_size(Problem.from_cli(LATENT)) == 40

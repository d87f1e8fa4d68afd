"""Planted faults: each parameter that a kernel reads is changed once, and the checks notice it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pytest

from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams, MemEffFwdParams
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from tests.support.models.kernel_memory import BadAddress
from tests.support.models.mem_efficient.chain import plans_of, run_plan

DEVICE = DeviceFacts.of_arch("sm_80")
FORWARD = {
    "batch": "-b 2 -H 2 -s 33 --seqlen-k 40 -d 32 --hdim-v 40 --bias elementwise:bhss --dropout 0.3 --seed 5 --offset 7 --lse"
    " --layout bshd --mask window:9,0",
    "wide": "-b 2 -H 2 -s 9 --seqlen-k 140 -d 136 --lse",
    "packed": "--seqlens-q 20,9 --seqlens-k 30,14 -H 2 -d 32 --causal --lse",
    "cache": "-b 2 -H 2 -s 3 -d 32 --kv-cache linear --cache-seqlens 30,14 --lse",
}
BACKWARD = {
    "batch": "--direction bwd -b 2 -H 2 -s 33 --seqlen-k 72 -d 32 --hdim-v 40 --bias elementwise:bhss --dbias --dropout 0.3"
    " --seed 5 --offset 7 --layout bshd",
    "window": "--direction bwd -b 1 -H 2 -s 72 -d 32 --mask window:9,0",
    "fp32": "--direction bwd -b 2 -H 2 -s 33 --seqlen-k 40 -d 36 --dtype fp32",
    "packed": "--direction bwd --seqlens-q 20,9 --seqlens-k 30,14 -H 2 -d 136",
}
SET_BY_THE_KERNEL = {
    *("causal_diagonal_ptr", "causal_diagonal_offset", "num_keys_absolute", "dropout_batch_head_rng_offset"),
    *("extragraph_offset", "seed", "workspace_gv", "workspace_gq"),
}
"""Fields that the kernel sets, never reads, or reads in captured graphs alone."""
FORWARD_UNSEEN = {"num_batches": "read by the host alone, for the grid"}
BACKWARD_UNSEEN = {"num_batches": "read by the host alone, for the grid and the workspace"}


def changed(kind: Any, value: Any) -> Any:
    """A value as a plausible mistake would leave it."""
    if issubclass(kind, ctypes.Structure):
        return kind(value.seed + 1, value.offset, value.captured_)
    if kind is ctypes.c_bool:
        return not value
    if kind is ctypes.c_float:
        return value * 1.25
    if kind is ctypes.c_int64:
        return value + 8
    return value + 1


@cache
def pristine(line: str) -> bool:
    return run_plan(plans_of(Problem.from_cli(line), DEVICE)[0], DEVICE).passed


def is_noticed(line: str, field: str, kind: Any, spelling: str) -> bool:
    """Whether a change of a non-zero field or a flag is noticed; a field that is 0 stays."""
    touched = []

    def change(stage: Stage, block: ctypes.Structure) -> None:
        value = getattr(block, field)
        if value or kind is ctypes.c_bool:
            touched.append(stage)
            step = 4 if spelling == "int*" else 32
            setattr(block, field, value + step if kind is ctypes.c_void_p else changed(kind, value))

    try:
        outcome = run_plan(plans_of(Problem.from_cli(line), DEVICE)[0], DEVICE, change=change)
    except (BadAddress, ValueError, AssertionError, IndexError, ZeroDivisionError):
        return True
    return bool(touched) and not outcome.passed


FIELDS = [
    pytest.param(name, kind, lines, id=f"{way}-{name}")
    for way, block, lines, unseen in (
        ("forward", MemEffFwdParams, FORWARD, FORWARD_UNSEEN),
        ("backward", MemEffBwdParams, BACKWARD, BACKWARD_UNSEEN),
    )
    for name, kind in c_fields(block)
    if name not in SET_BY_THE_KERNEL | unseen.keys()
]


@pytest.mark.parametrize(
    "line", [*FORWARD.values(), *BACKWARD.values()], ids=[*FORWARD, *(f"{k} bwd" for k in BACKWARD)]
)
def test_without_a_fault_the_problems_pass(line: str) -> None:
    assert pristine(line)


@pytest.mark.sampled(12, ci="all")
@pytest.mark.parametrize(("field", "kind", "lines"), FIELDS)
def test_a_changed_field_is_noticed(field: str, kind: Any, lines: dict[str, str]) -> None:
    assert any(is_noticed(line, field, kind.ctype, kind.spelling) for line in lines.values())

"""Planted faults: each parameter-block field that a kernel reads is changed once, and the checks detect it."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from tests.support.models.flash_attn.chain import plans_of, run_plan
from tests.support.models.kernel_memory import BadAddress

DEVICE = DeviceFacts.of_arch("sm_80")
FORWARD = {
    "batch": "-b 2 -H 4 --kv-heads 2 -s 20 --seqlen-k 30 -d 40 --alibi-slopes filled:bh --mask window:9,4 --dropout 0.3"
    " --seed 5 --offset 7 --lse --layout bshd",
    "softcap": "-b 2 -H 2 -s 65 --seqlen-k 30 -d 40 --softcap 4 --lse",
    "packed": "--seqlens-q 20,9 --seqlens-k 30,14 -H 4 --kv-heads 2 -d 40 --causal --lse",
    "append": "-b 2 -H 4 --kv-heads 2 -s 4 -d 40 --kv-cache linear --cache-seqlens 300,290 --cache-leftpad 3,11 --append 4"
    " --rotary 16 --causal --lse --splits 2",
    "paged": "-b 2 -H 4 --kv-heads 2 -s 4 -d 40 --kv-cache paged:256 --cache-seqlens 300,290 --append 4 --rotary 16 --causal --lse",
    "decode": "--seqlens-q 1,1 --seqlens-k 700,560 -H 4 --kv-heads 2 -d 40 --lse",
    "one split": "--seqlens-q 1,1 --kv-cache paged:256 --cache-seqlens 300,40 -H 4 --kv-heads 2 -d 40 --lse --splits 1",
}
BACKWARD = {
    "batch": "--direction bwd -b 2 -H 4 --kv-heads 2 -s 128 --seqlen-k 150 -d 64 --dropout 0.3 --seed 5 --offset 7"
    " --alibi-slopes filled:bh --mask window:9,4 --deterministic",
    "packed": "--direction bwd --seqlens-q 20,9 --seqlens-k 30,14 -H 4 --kv-heads 2 -d 40 --softcap 4 --causal --layout bshd",
}
UNREAD = {
    "p_ptr": "the debugging matrix P",
    "blockmask": "nothing upstream reads it",
    "seqused_k": "the lengths come from cu_seqlens_k",
    "cache_batch_idx": "sequence b uses cache b",
    "h_k": "kernels divide by h_h_k_ratio",
    "seqlen_k_rounded": "for P alone",
    "is_bf16": "the host's choice of kernel",
    "is_causal": "the host's choice of kernel",
    "dk_accum_ptr": "nothing upstream reads it",
    "dv_accum_ptr": "nothing upstream reads it",
}
"""Fields that no kernel reads."""
BACKWARD_ALONE = {"seqlen_q_rounded", "p_dropout", "scale_softmax_rp_dropout"}
"""Fields that no forward kernel reads."""
UNSEEN = {"deterministic": "into which part of dQ's accumulator a block adds; the parts are summed"}
"""Fields that change no result."""
FORWARD_ALONE = {
    *("oaccum_ptr", "softmax_lseaccum_ptr", "seqlen_knew", "rotary_dim", "leftpad_k", "knew_ptr", "vnew_ptr"),
    *("knew_batch_stride", "vnew_batch_stride", "knew_row_stride", "vnew_row_stride", "knew_head_stride"),
    *("vnew_head_stride", "rotary_cos_ptr", "rotary_sin_ptr", "block_table", "block_table_batch_stride"),
    *("page_block_size", "philox_args", "is_rotary_interleaved", "num_splits", "seqlenq_ngroups_swapped"),
    *("is_seqlens_k_cumulative",),
}
"""Fields that differ only with a cache, or that the random state replaces; in backward kernels they are constant."""


def changed(field: str, kind: Any, value: Any) -> Any:
    """A value as a plausible mistake would leave it."""
    if field == "dq_accum_split_stride":  # an error of a larger one shows only past the last part
        return value // 2
    if issubclass(kind, ctypes.Structure):
        return kind(value.seed + 1, value.offset)
    if kind is ctypes.c_bool:
        return not value
    if kind is ctypes.c_float:
        return value * 1.25
    if kind is ctypes.c_uint8:
        return value - 40
    if kind is ctypes.c_int64:
        return value + 8
    return value + 1


@cache
def pristine(line: str) -> tuple[bool, frozenset[str]]:
    """Whether the unchanged problem passes, and the fields that are not 0 in some stage."""
    used: set[str] = set()

    def look(stage: Stage, block: ctypes.Structure) -> None:
        used.update(name for name, kind, *_ in block._fields_ if kind is ctypes.c_bool or getattr(block, name))

    return run_plan(plans_of(Problem.from_cli(line), DEVICE)[0], DEVICE, change=look).passed, frozenset(used)


def is_noticed(line: str, field: str, kind: Any, spelling: str) -> bool:
    """Whether a change of a non-zero field or a flag is detected; a field that is 0 stays unchanged."""
    if field not in pristine(line)[1]:  # nothing would change
        return False
    touched = []

    def change(stage: Stage, block: ctypes.Structure) -> None:
        value = getattr(block, field)
        if kind is ctypes.c_void_p:
            if value:
                touched.append(stage)
                setattr(block, field, value + (4 if spelling == "int*" else 1 << 15 if field == "oaccum_ptr" else 16))
        elif value or kind is ctypes.c_bool:
            touched.append(stage)
            setattr(block, field, changed(field, kind, value))

    problem = Problem.from_cli(line)
    try:
        outcome = run_plan(plans_of(problem, DEVICE)[0], DEVICE, change=change)
    except (BadAddress, ValueError, AssertionError):
        return True
    return bool(touched) and not outcome.passed


WAYS = (
    ("forward", FaFwdParams, FORWARD, UNREAD.keys() | BACKWARD_ALONE),
    ("backward", FaBwdParams, BACKWARD, UNREAD.keys() | FORWARD_ALONE | UNSEEN.keys()),
)


def fields_of(way: str, block: type, lines: dict[str, str], unread: set[str]) -> Iterator[Any]:
    """The fields that kernels read. The default run has the first and then every third field of each type."""
    seen: Counter[str] = Counter()
    for name, kind in c_fields(block):
        if name not in unread:
            marks = pytest.mark.slow if seen[kind.spelling] % 3 else ()
            seen[kind.spelling] += 1
            yield pytest.param(name, kind, lines, id=f"{way}-{name}", marks=marks)


FIELDS = [field for way in WAYS for field in fields_of(*way)]


@pytest.mark.parametrize(
    "line", [*FORWARD.values(), *BACKWARD.values()], ids=[*FORWARD, *(f"{k} bwd" for k in BACKWARD)]
)
def test_without_a_fault_the_problems_pass(line: str) -> None:
    passed, _ = pristine(line)
    assert passed


@pytest.mark.sampled(5, ci="all")
@pytest.mark.parametrize(("field", "kind", "lines"), FIELDS)
def test_a_changed_field_is_noticed(field: str, kind: Any, lines: dict[str, str]) -> None:
    assert any(is_noticed(line, field, kind.ctype, kind.spelling) for line in lines.values())
